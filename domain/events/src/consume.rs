//! The states of a consume-log record: the progress of one event at one consumer.

use serde::{Deserialize, Serialize};

/// State of an event at one consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ConsumeStatus {
    /// An attempt was counted and is running; if its lease ends before the attempt, another attempt may start.
    Processing,
    /// An earlier event of the same aggregate must be settled first, or another transaction held a lock that the event
    /// needs.
    Waiting,
    /// The effects are committed. Only in this state, a further delivery is a duplicate.
    Success,
    /// An attempt failed; the next one is due at `next_retry_time`.
    Failed,
    /// No further automatic attempt; an operator must decide.
    Dead,
}

crate::named!(ConsumeStatus {
    Processing => "PROCESSING", Waiting => "WAITING", Success => "SUCCESS", Failed => "FAILED", Dead => "DEAD"
});

impl ConsumeStatus {
    /// Whether no further automatic attempt follows. Later events of the aggregate do not wait for a settled event.
    pub const fn is_settled(self) -> bool {
        match self {
            ConsumeStatus::Success | ConsumeStatus::Dead => true,
            ConsumeStatus::Processing | ConsumeStatus::Waiting | ConsumeStatus::Failed => false,
        }
    }
}

/// Classifies a failed attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// A later attempt may succeed.
    Recoverable,
    /// No attempt can succeed: unknown type, missing or invalid data, an object that does not exist.
    Unrecoverable,
}
