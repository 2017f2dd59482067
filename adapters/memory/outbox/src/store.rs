//! In-memory store: READ COMMITTED with row locks, like the SQL adapters.
//!
//! **Invariant:** the changes of a unit of work are in its own overlay until the commit applies them atomically,
//! under one mutex.
//!
//! **Invariant:** a conditional write locks first and then reads the latest committed row, so it never uses stale data.
//!
//! **Invariant:** row ids are assigned at the insert and become visible at the commit, so ids may become visible out of
//! order.

mod archive;
mod audit;
mod consume;
mod consume_log;
mod dead_letters;
mod erasure;
mod errors;
mod history;
mod jobs;
mod leases;
mod locks;
mod monitoring;
mod new_rows;
mod outbox;
mod outbox_due;
mod outbox_index;
mod outbox_tables;
mod rows;
mod shared;
pub mod statement;
mod stored_rows;
pub mod tables;
mod unit;
mod webhooks;

use std::sync::{Arc, Mutex};

use crate::yield_now::yield_now;
use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{EventId, OutboxStatus};
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Clock, OutboxRow, Store, StoreError};

use crate::clock::moved;
use locks::{LockTable, UnitId};
use outbox_tables::OutboxTables;
use shared::{Shared, State};
use statement::{Half, Tables};

pub use errors::conflict;
pub use tables::limited;
pub use unit::MemoryUnit;

/// Handle of one process to an in-memory database with the outbox and the tables `X` of an application. Clones belong
/// to the same process.
pub struct MemoryStore<X: Tables = ()> {
    shared: Arc<Shared<X>>,
    wake: WakeupNotifier,
}

impl<X: Tables> Clone for MemoryStore<X> {
    fn clone(&self) -> Self {
        MemoryStore { shared: self.shared.clone(), wake: self.wake.clone() }
    }
}

impl<X: Tables> MemoryStore<X> {
    /// Creates an empty database. Its time is that of `clock` until `move_database_clock` is called. Commits through
    /// this handle notify `wake`.
    pub fn new(clock: Arc<dyn Clock>, wake: WakeupNotifier) -> MemoryStore<X> {
        let state = State {
            outbox: Half::of(OutboxTables::with_partitions()),
            own: Half::of(X::default()),
            locks: LockTable::default(),
            units: 0,
            database_offset: TimeDelta::zero(),
        };
        MemoryStore { shared: Arc::new(Shared { state: Mutex::new(state), clock }), wake }
    }

    /// Creates the handle of another process to the same database.
    pub fn for_process(&self, wake: WakeupNotifier) -> MemoryStore<X> {
        MemoryStore { shared: self.shared.clone(), wake }
    }

    /// Moves the time of the database by an additional offset. Only leases and heartbeats depend on this time.
    pub fn move_database_clock(&self, by: TimeDelta) {
        let mut state = self.shared.state();
        state.database_offset = state.database_offset.checked_add(&by).unwrap_or(state.database_offset);
    }

    /// Deletes the row of a sent event, as a manual SQL statement could; returns whether it existed.
    pub fn delete_sent_event(&self, event: &EventId) -> bool {
        let mut state = self.shared.state();
        let sent = |row: &&OutboxRow| row.event_id == *event && row.status == OutboxStatus::Sent;
        let Some(id) = state.outbox.tables.outbox.rows().values().find(sent).map(|row| row.id) else {
            return false;
        };
        state.outbox.tables.outbox.remove(&id);
        true
    }

    /// Changes committed rows of the application, bypassing units of work and locks. `work` MUST NOT use the store:
    /// it would deadlock.
    pub fn modify_committed<T>(&self, work: impl FnOnce(&mut X) -> T) -> T {
        work(&mut self.shared.state().own.tables)
    }

    /// All committed rows as text, prefixed with the table name, to compare two states.
    pub fn rows(&self) -> Vec<String> {
        let state = self.shared.state();
        let mut rows = state.outbox.tables.dump();
        rows.extend(state.own.tables.dump());
        rows
    }

    /// The time of the database.
    pub fn database_now(&self) -> DateTime<Utc> {
        moved(self.shared.clock.now(), self.shared.state().database_offset)
    }

    fn unit(&self) -> MemoryUnit<X> {
        let mut state = self.shared.state();
        state.units += 1;
        MemoryUnit::new(self.shared.clone(), self.wake.clone(), UnitId(state.units))
    }
}

#[async_trait]
impl<X: Tables> Store for MemoryStore<X> {
    type Unit = MemoryUnit<X>;
    type View = MemoryUnit<X>;

    async fn begin(&self) -> Result<Box<MemoryUnit<X>>, StoreError> {
        yield_now().await;
        Ok(Box::new(self.unit()))
    }

    async fn view(&self) -> Result<Box<MemoryUnit<X>>, StoreError> {
        yield_now().await;
        // A unit of work that only reads takes no locks.
        Ok(Box::new(self.unit()))
    }
}
