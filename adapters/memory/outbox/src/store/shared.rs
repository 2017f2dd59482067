//! State shared by all processes of a store.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::TimeDelta;
use handover_outbox::ports::Clock;

use super::locks::LockTable;
use super::outbox_tables::OutboxTables;
use super::statement::{Half, Tables};

/// State shared by all processes.
pub(super) struct Shared<X: Tables> {
    pub(super) state: Mutex<State<X>>,
    pub(super) clock: Arc<dyn Clock>,
}

pub(super) struct State<X: Tables> {
    pub(super) outbox: Half<OutboxTables>,
    pub(super) own: Half<X>,
    pub(super) locks: LockTable<X::Lock>,
    pub(super) units: u64,
    pub(super) database_offset: TimeDelta,
}

impl<X: Tables> Shared<X> {
    pub(super) fn state(&self) -> MutexGuard<'_, State<X>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
