//! The rows that were published since the relay last looked at the queues.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::ports::OutboxRow;

/// Number of rows after which the relay looks again: fewer make no queue long.
const ENOUGH: usize = 50;

/// Shortest time between two looks, also as a multiple of the time that the last one took.
const INTERVAL: Duration = Duration::from_millis(20);
const TIMES_TAKEN: u32 = 20;

pub(super) struct Recent {
    windows: Vec<Arc<[OutboxRow]>>,
    next_look: Instant,
}

impl Recent {
    pub(super) fn new() -> Recent {
        Recent { windows: Vec::new(), next_look: Instant::now() + INTERVAL }
    }

    pub(super) fn add(&mut self, window: &Arc<[OutboxRow]>) {
        self.windows.push(Arc::clone(window));
    }

    pub(super) fn forget(&mut self) {
        self.windows.clear();
    }

    /// The rows, if it is time to look at the queues.
    pub(super) fn take_if_due(&mut self) -> Option<Vec<Arc<[OutboxRow]>>> {
        let rows: usize = self.windows.iter().map(|window| window.len()).sum();
        let is_due = rows >= ENOUGH && Instant::now() >= self.next_look;
        is_due.then(|| std::mem::take(&mut self.windows))
    }

    /// Records how long a look took.
    pub(super) fn looked(&mut self, took: Duration) {
        self.next_look = Instant::now() + INTERVAL.max(took * TIMES_TAKEN);
    }
}
