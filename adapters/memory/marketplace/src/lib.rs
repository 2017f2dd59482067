//! The marketplace's store in memory: its tables beside the outbox of `handover_memory`, in the same units.
//!
//! **Invariant:** a behaviour that exists only here is a bug here. The shared contract suite decides, not this code.

mod assets;
mod credit;
mod effects;
mod ids;
mod notifications;
mod orders;
mod payments;
mod products;
mod refunds;
mod requests;
mod tables;
mod unit;

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{EventId, TenantId};
use handover_outbox::Wake;
use handover_outbox::ports::{Clock, Store, StoreError};
use marketplace::ports::{MarketView, Work};
use marketplace_domain::{Asset, OrderId};

use tables::Market;
use unit::MarketUnit;

/// A database of the marketplace in memory, and one process's way to it. Clones are the same process.
#[derive(Clone)]
pub struct MemoryStore(handover_memory::MemoryStore<Market>);

impl MemoryStore {
    /// An empty database. Its own time is this clock's until it is moved; commits of this handle wake this `Wake`.
    pub fn new(clock: Arc<dyn Clock>, wake: Wake) -> MemoryStore {
        MemoryStore(handover_memory::MemoryStore::new(clock, wake))
    }

    /// Another process's way to the same database, with that process's `Wake`.
    pub fn for_process(&self, wake: Wake) -> MemoryStore {
        MemoryStore(self.0.for_process(wake))
    }

    /// Moves the database's own time, on which leases alone depend, by this much more.
    pub fn move_database_clock(&self, by: TimeDelta) {
        self.0.move_database_clock(by);
    }

    /// Deletes the row of an event that was sent, as a person does by SQL; whether there was one.
    pub fn lose_event(&self, event: &EventId) -> bool {
        self.0.lose_event(event)
    }

    /// Deletes the hold of an asset for an order, as a person does by SQL; whether there was one.
    pub fn lose_hold(&self, hold: (TenantId, OrderId, Asset)) -> bool {
        self.0.alter(|market| {
            let was_there = market.holds.get(&hold).is_some();
            market.holds.remove(&hold);
            was_there
        })
    }

    /// Every committed row as text, behind the name of its table: to compare two moments.
    pub fn rows(&self) -> Vec<String> {
        self.0.rows()
    }

    /// The database's own time.
    pub fn database_now(&self) -> DateTime<Utc> {
        self.0.database_now()
    }
}

#[async_trait]
impl Store for MemoryStore {
    type Unit = Work;
    type View = dyn MarketView;

    async fn begin(&self) -> Result<Box<Work>, StoreError> {
        Ok(Box::new(MarketUnit(*self.0.begin().await?)))
    }

    async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        Ok(Box::new(MarketUnit(*self.0.view().await?)))
    }
}
