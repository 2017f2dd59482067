//! Results for single events.

use std::time::Duration;

use chrono::{DateTime, Utc};

/// Result for one event, which decides how its delivery has to be settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SingleOutcome {
    /// The event was applied, recorded as WAITING, or ignored as a duplicate: ack the delivery.
    Done,
    /// An attempt failed and the next one is due at this time: wait, then requeue; or ack, so that the sweep applies it.
    Failed(DateTime<Utc>),
    /// The event is owned by another worker, or in backoff, until this time: then check again; or ack, so that the sweep applies it.
    Busy(DateTime<Utc>),
    /// The event is DEAD: dead-letter the delivery.
    Dead,
    /// The breaker is open, and the consume log may have no record of the event: check again after this time, or when
    /// the breaker closes.
    Paused(Duration),
}
