//! Observations of the ports that cannot be derived from the final tables.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use handover_events::{AggregateRef, EventId};
use handover_outbox::ports::EventWithRecords;
use tokio::time::Instant;

use super::webhook_observations::WebhookObservations;

#[derive(Default)]
pub(crate) struct Observations {
    /// Name of the process that acquired the leadership last.
    pub(crate) leader: Option<Arc<str>>,
    /// Time at which the clock of the database was last set.
    pub(crate) database_clock_set: Option<Instant>,
    pub(crate) webhooks: WebhookObservations,
    /// Events whose rows were committed.
    pub(crate) appended: BTreeSet<EventId>,
    /// Events as they were when they left the outbox.
    pub(crate) archived: BTreeMap<EventId, EventWithRecords>,
    /// End of the time for which the storage of the archive refuses every call.
    pub(crate) archive_unavailable_until: Option<Instant>,
    /// Events that the broker confirmed.
    pub(crate) confirmed: BTreeSet<EventId>,
    /// Events that were FAILED at the relay or DEAD at a consumer at some time: later events may overtake them.
    pub(crate) failed_or_dead: BTreeSet<EventId>,
    /// Events whose outbox row was deleted with SQL: until it is restored, their messages belong to no known event.
    pub(crate) deleted: BTreeSet<EventId>,
    /// Aggregates that an operator released.
    pub(crate) released: BTreeSet<AggregateRef>,
    /// Bodies of messages that belong to no event; each of them must become a dead letter.
    pub(crate) foreign_bodies: Vec<String>,
    /// Bodies of foreign messages that a purge may have removed: they need not become dead letters.
    pub(crate) purged_foreign_bodies: Vec<String>,
    /// Events that the broker confirmed for a single queue (replays), with the queue.
    pub(crate) replayed: BTreeSet<(String, EventId)>,
    /// Events that the broker refused individually and whose failure is not recorded yet, with the time of the refusal.
    refused: BTreeMap<EventId, Instant>,
    /// Events in backoff, with the time before which they must not be published again.
    backoff_until: BTreeMap<EventId, Instant>,
}

impl Observations {
    /// Records that the broker refused this event individually.
    pub(crate) fn record_refusal(&mut self, event: &EventId) {
        self.refused.insert(event.clone(), Instant::now());
    }

    pub(crate) fn was_refused(&self, event: &EventId) -> bool {
        self.refused.contains_key(event)
    }

    /// Records that the failure was stored; the backoff starts at the refusal.
    pub(crate) fn record_backoff(&mut self, event: &EventId, backoff: Duration) {
        if let Some(refused) = self.refused.remove(event) {
            self.backoff_until.insert(event.clone(), refused + backoff);
        }
    }

    /// Records that an operator made the event due.
    pub(crate) fn record_redrive(&mut self, event: &EventId) {
        self.backoff_until.remove(event);
    }

    /// Remaining backoff of this event.
    pub(crate) fn remaining_backoff(&self, event: &EventId) -> Option<Duration> {
        let left = self.backoff_until.get(event)?.saturating_duration_since(Instant::now());
        Some(left).filter(|left| !left.is_zero())
    }
}
