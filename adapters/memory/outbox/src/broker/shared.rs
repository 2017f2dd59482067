//! State shared by the clones and subscriptions of a broker.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use handover_outbox::ports::Clock;

use super::state::State;

/// State and clock of a broker, shared by its clones and subscriptions.
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Shared {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
