//! What the ports of a run saw, which the tables at the end do not tell.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use handover_events::{AggregateRef, EventId};
use tokio::time::Instant;

/// What was seen.
#[derive(Default)]
pub(crate) struct Seen {
    /// Events of which the broker said that it has them.
    pub(crate) confirmed: BTreeSet<EventId>,
    /// Events that the relay or a consumer gave up at some time: later ones may pass them.
    pub(crate) given_up: BTreeSet<EventId>,
    /// Events whose rows were deleted by hand: what is still on its way of them is no event of ours, for a while.
    pub(crate) deleted: BTreeSet<EventId>,
    /// Aggregates of which an operator let later events pass the failed ones.
    pub(crate) released: BTreeSet<AggregateRef>,
    /// Bodies of messages that are no event of ours; each has to end up where a person sees it.
    pub(crate) strays: Vec<String>,
    /// Of these, the ones that a queue may have lost: a person may see them.
    pub(crate) lost_strays: Vec<String>,
    /// Events that the broker confirmed for one queue alone.
    pub(crate) sent_back: BTreeSet<(String, EventId)>,
    /// Events that the broker refused, each by itself, since when; until that is written down.
    refused: BTreeMap<EventId, Instant>,
    /// Events that must not be published again before then.
    rests: BTreeMap<EventId, Instant>,
}

impl Seen {
    /// The broker refused this event by itself.
    pub(crate) fn refuses(&mut self, event: &EventId) {
        self.refused.insert(event.clone(), Instant::now());
    }

    pub(crate) fn was_refused(&self, event: &EventId) -> bool {
        self.refused.contains_key(event)
    }

    /// A refusal of this event was written down; it rests for so long since it was refused.
    pub(crate) fn charged(&mut self, event: &EventId, rest: Duration) {
        if let Some(refused) = self.refused.remove(event) {
            self.rests.insert(event.clone(), refused + rest);
        }
    }

    /// An operator made it due.
    pub(crate) fn redriven(&mut self, event: &EventId) {
        self.rests.remove(event);
    }

    /// How long this event still has to rest.
    pub(crate) fn rest_of(&self, event: &EventId) -> Option<Duration> {
        let left = self.rests.get(event)?.saturating_duration_since(Instant::now());
        Some(left).filter(|left| !left.is_zero())
    }
}
