//! The store in memory: READ COMMITTED with row locks, as the real ones run.
//!
//! **Invariant:** what a unit writes is in its own overlay until the commit applies it whole, under one guard.
//!
//! **Invariant:** a conditional write locks first, then reads the latest committed row: it decides on nothing stale.
//!
//! **Invariant:** row ids are taken at the insert and seen at the commit; the order of commits is not that of ids.

mod assets;
mod audit;
mod consume;
mod consume_log;
mod credit;
mod dead_letters;
mod effects;
mod history;
mod ids;
mod leases;
mod locks;
mod notifications;
mod orders;
mod outbox;
mod outbox_due;
mod outbox_index;
mod payments;
mod products;
mod refunds;
mod requests;
mod statement;
mod tables;
mod unit;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::turn::yield_now;
use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_application::ports::{MarketView, Work};
use handover_domain::{Asset, OrderId};
use handover_events::{EventId, OutboxStatus, TenantId};
use handover_outbox::Wake;
use handover_outbox::ports::{Clock, OutboxRow, Store, StoreError};

use crate::clock::moved;
use locks::{LockTable, UnitId};
use statement::{Sequences, Tables};
use unit::MemoryUnit;

/// A database in memory, and one process's way to it. Clones are the same process.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
    wake: Wake,
}

/// What all processes share.
struct Shared {
    state: Mutex<State>,
    clock: Arc<dyn Clock>,
}

struct State {
    tables: Tables,
    sequences: Sequences,
    locks: LockTable,
    units: u64,
    database_offset: TimeDelta,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryStore {
    /// An empty database. Its own now is this clock's until it is moved; commits of this handle ring this bell.
    pub fn new(clock: Arc<dyn Clock>, wake: Wake) -> MemoryStore {
        let state = State {
            tables: Tables::with_partitions(),
            sequences: Sequences::default(),
            locks: LockTable::default(),
            units: 0,
            database_offset: TimeDelta::zero(),
        };
        MemoryStore { shared: Arc::new(Shared { state: Mutex::new(state), clock }), wake }
    }

    /// Another process's way to the same database, with that process's bell.
    pub fn for_process(&self, wake: Wake) -> MemoryStore {
        MemoryStore { shared: self.shared.clone(), wake }
    }

    /// Moves the database's own now, on which leases alone depend, by this much more.
    pub fn move_database_clock(&self, by: TimeDelta) {
        let mut state = self.shared.state();
        state.database_offset = state.database_offset.checked_add(&by).unwrap_or(state.database_offset);
    }

    /// Deletes the row of an event that was sent, as a hand would; whether there was one.
    pub fn lose_event(&self, event: &EventId) -> bool {
        let mut state = self.shared.state();
        let sent = |row: &&OutboxRow| row.event_id == *event && row.status == OutboxStatus::Sent;
        let Some(id) = state.tables.outbox.rows().values().find(sent).map(|row| row.id) else { return false };
        state.tables.outbox.remove(&id);
        true
    }

    /// Deletes the hold of an asset for an order, as a hand would; whether there was one.
    pub fn lose_hold(&self, hold: (TenantId, OrderId, Asset)) -> bool {
        let holds = &mut self.shared.state().tables.holds;
        let was_there = holds.rows().contains_key(&hold);
        holds.remove(&hold);
        was_there
    }

    /// Every committed row as text, behind the name of its table: for holding two moments against each other.
    pub fn rows(&self) -> Vec<String> {
        self.shared.state().tables.dump()
    }

    /// The database's own now.
    pub fn database_now(&self) -> DateTime<Utc> {
        moved(self.shared.clock.now(), self.shared.state().database_offset)
    }

    fn unit(&self) -> MemoryUnit {
        let mut state = self.shared.state();
        state.units += 1;
        MemoryUnit::new(self.shared.clone(), self.wake.clone(), UnitId(state.units))
    }
}

#[async_trait]
impl Store for MemoryStore {
    type Unit = Work;
    type View = dyn MarketView;

    async fn begin(&self) -> Result<Box<Work>, StoreError> {
        yield_now().await;
        Ok(Box::new(self.unit()))
    }

    async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        yield_now().await;
        // A unit that writes nothing locks nothing.
        Ok(Box::new(self.unit()))
    }
}

fn conflict(what: impl Into<String>) -> StoreError {
    StoreError::Conflict { what: what.into() }
}

fn transient(why: &'static str) -> StoreError {
    StoreError::Transient(why.into())
}

/// How many rows a limit lets through.
fn limited(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}
