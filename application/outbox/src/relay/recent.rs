//! The events that were published recently.

use std::collections::VecDeque;
use std::time::Duration;

use handover_events::TenantId;
use tokio::time::Instant;

use crate::ports::{IdleConsumers, OutboxRow};
use crate::registry::EventRegistry;

/// Number of new events after which the load of their queues is read: fewer make no queue long.
const NEW_EVENTS: usize = 50;

/// Number of events that show which groups prevail.
const SAMPLE: usize = 200;

/// Shortest pause after a read of the load, also as a multiple of the time that it took.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_FACTOR: u32 = 20;

/// What decides about the group and the queues of an event.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Origin {
    pub(super) tenant: TenantId,
    pub(super) event_type: String,
    pub(super) routing_key: Option<String>,
    pub(super) idle_consumers: IdleConsumers,
}

impl Origin {
    pub(super) fn of(row: &OutboxRow, registry: &EventRegistry) -> Origin {
        Origin {
            tenant: row.aggregate.tenant,
            event_type: row.event_type.clone(),
            routing_key: registry.key_of(row).map(str::to_owned),
            idle_consumers: row.idle_consumers.clone(),
        }
    }
}

/// The newest events whose publishing has begun, at most [`SAMPLE`].
pub(super) struct Recent {
    events: VecDeque<Origin>,
    /// Number of events since the load was last read.
    new: usize,
    next_read: Instant,
}

impl Recent {
    pub(super) fn new() -> Recent {
        Recent { events: VecDeque::with_capacity(SAMPLE), new: 0, next_read: Instant::now() }
    }

    pub(super) fn add(&mut self, rows: &[OutboxRow], registry: &EventRegistry) {
        self.new += rows.len();
        let newest = &rows[rows.len().saturating_sub(SAMPLE)..];
        self.events.drain(..(self.events.len() + newest.len()).saturating_sub(SAMPLE));
        self.events.extend(newest.iter().map(|row| Origin::of(row, registry)));
    }

    /// The events, if it is time to read the load of their queues.
    pub(super) fn if_due(&mut self) -> Option<Vec<Origin>> {
        let is_due = self.new >= NEW_EVENTS && Instant::now() >= self.next_read;
        is_due.then(|| self.events.iter().cloned().collect())
    }

    /// Records that the load was read, in this time.
    pub(super) fn was_read(&mut self, took: Duration) {
        self.new = 0;
        self.next_read = Instant::now() + PAUSE.max(took * PAUSE_FACTOR);
    }
}
