//! In-memory store of the marketplace: its tables and the outbox of `handover_memory` in the same units of work.
//!
//! **Invariant:** behaviour that only this adapter has is a bug of this adapter. The shared contract suite is
//! authoritative.

mod assets;
mod captures;
mod credit;
mod effects;
mod findings;
mod gateway_reports;
mod ids;
mod invoices;
mod notifications;
mod of_orders;
mod orders;
mod payments;
mod personal_texts;
mod products;
mod refunds;
mod requests;
mod rows;
mod sorted;
mod tables;
mod unit;

use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{EventId, TenantId};
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Clock, Store, StoreError};
use marketplace::ports::{MarketView, Work};
use marketplace_domain::{Asset, OperationKey, OrderId};

use tables::Market;
use unit::MarketUnit;

/// Handle of one process to an in-memory database of the marketplace. Clones belong to the same process.
#[derive(Clone)]
pub struct MemoryStore(handover_memory::MemoryStore<Market>);

impl MemoryStore {
    /// Creates an empty database. Its time is that of `clock` until `move_database_clock` is called. Commits through
    /// this handle notify `wake`.
    pub fn new(clock: Arc<dyn Clock>, wake: WakeupNotifier) -> MemoryStore {
        MemoryStore(handover_memory::MemoryStore::new(clock, wake))
    }

    /// Creates the handle of another process to the same database.
    pub fn for_process(&self, wake: WakeupNotifier) -> MemoryStore {
        MemoryStore(self.0.for_process(wake))
    }

    /// Moves the time of the database by an additional offset. Only leases and heartbeats depend on this time.
    pub fn move_database_clock(&self, by: TimeDelta) {
        self.0.move_database_clock(by);
    }

    /// Deletes the row of a sent event, as a manual SQL statement could; returns whether it existed.
    pub fn delete_sent_event(&self, event: &EventId) -> bool {
        self.0.delete_sent_event(event)
    }

    /// Deletes the hold of an asset for an order, as a manual SQL statement could; returns whether it existed.
    pub fn delete_hold(&self, hold: (TenantId, OrderId, Asset)) -> bool {
        self.0.modify_committed(|market| {
            let existed = market.holds.get(&hold).is_some();
            market.holds.remove(&hold);
            existed
        })
    }

    /// Deletes an asset operation without its entries, as a manual SQL statement could; returns whether it existed.
    pub fn delete_operation(&self, operation: (TenantId, OperationKey)) -> bool {
        self.0.modify_committed(|market| {
            let existed = market.operations.get(&operation).is_some();
            market.operations.remove(&operation);
            existed
        })
    }

    /// All committed rows as text, prefixed with the table name, to compare two states.
    pub fn rows(&self) -> Vec<String> {
        self.0.rows()
    }

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
