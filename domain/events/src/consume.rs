//! The states of a consume-log row: what has become of one event at one consumer.

use serde::{Deserialize, Serialize};

/// Where an event stands at one consumer (spec §3 "Consuming").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ConsumeStatus {
    /// An attempt is counted and runs, until its lease ends.
    Processing,
    /// An earlier event of the aggregate has to be settled first.
    Waiting,
    /// Applied: its effects are committed. The only state that makes a delivery a duplicate.
    Success,
    /// An attempt failed; another follows at `next_retry_time`.
    Failed,
    /// Given up; a person decides.
    Dead,
}

crate::named!(ConsumeStatus {
    Processing => "PROCESSING", Waiting => "WAITING", Success => "SUCCESS", Failed => "FAILED", Dead => "DEAD"
});

impl ConsumeStatus {
    /// Whether nothing more happens by itself: later events of the aggregate need not wait for it.
    pub const fn is_settled(self) -> bool {
        match self {
            ConsumeStatus::Success | ConsumeStatus::Dead => true,
            ConsumeStatus::Processing | ConsumeStatus::Waiting | ConsumeStatus::Failed => false,
        }
    }
}

/// What a failure means for the event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// Another attempt may succeed.
    Recoverable,
    /// No attempt ever will: unknown type, missing or illegal data, no such order (000 §9.3).
    Unrecoverable,
}
