//! Attempts that are counted before they run, and the number of an attempt.

use handover_events::{ConsumeStatus, EventId};

use crate::handler::Applied;
use crate::ports::{ConsumeRecord, Unapplied};

/// An attempt that was counted before it runs. It belongs to this caller as long as the consume log contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CountedAttempt {
    pub(super) event: EventId,
    pub(super) attempts: u32,
    /// The effect outside the database that this attempt had. It is not repeated if recording the attempt fails.
    pub(super) effect: Option<ExternalEffect>,
}

/// Result of an external handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExternalEffect {
    pub(super) applied: Applied,
    pub(super) cost_ms: i64,
}

impl CountedAttempt {
    /// An attempt without an effect outside the database.
    pub(super) fn new(event: EventId, attempts: u32) -> CountedAttempt {
        CountedAttempt { event, attempts, effect: None }
    }

    pub(super) fn is(&self, step: &Unapplied) -> bool {
        step.event.event_id == self.event
            && step.record.as_ref().is_some_and(|record| {
                record.status == ConsumeStatus::Processing && record.attempts == self.attempts
            })
    }
}

/// Number of attempts at an event after the running one, which is the number of the running one.
pub(super) fn attempts_after(step: &Unapplied) -> u32 {
    match step.record.as_ref() {
        // The running attempt was already counted.
        Some(ConsumeRecord { status: ConsumeStatus::Processing, attempts, .. }) => *attempts,
        Some(record) => record.attempts.saturating_add(1),
        None => 1,
    }
}
