//! Attempts that are counted before they run.

use handover_events::{ConsumeStatus, EventId};

use crate::ports::Unapplied;

/// An attempt that was counted before it runs. It belongs to this caller as long as the consume log contains it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CountedAttempt {
    pub(super) event: EventId,
    pub(super) attempts: u32,
}

impl CountedAttempt {
    pub(super) fn is(&self, step: &Unapplied) -> bool {
        step.event.event_id == self.event
            && step.record.as_ref().is_some_and(|record| {
                record.status == ConsumeStatus::Processing && record.attempts == self.attempts
            })
    }
}
