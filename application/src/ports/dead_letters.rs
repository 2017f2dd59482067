//! Dead letters: what no consumer could do, kept where a person sees it.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_domain::TenantId;

use super::StoreError;

/// Where a dead letter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeadLetterStatus {
    /// A person has to decide.
    Open,
    /// Sent again to the consumer it died at.
    Replayed,
    /// Given up by a person.
    Discarded,
}

/// A message that died at a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// The queue at whose consumer it died.
    pub queue: String,
    /// What identifies it there: its event id, or a hash of its body if it has none.
    pub key: String,
    /// Its tenant, where known.
    pub tenant: TenantId,
    /// Its event type, where known.
    pub event_type: Option<String>,
    /// The trace, where known.
    pub trace_id: Option<String>,
    /// The message as it came.
    pub body: String,
    /// Why it died.
    pub reason: String,
    /// When.
    pub died_at: DateTime<Utc>,
    /// What has become of it.
    pub status: DeadLetterStatus,
}

/// Reads dead letters.
#[async_trait]
pub trait DeadLetterQueries: Send {
    /// One dead letter.
    async fn dead_letter(&mut self, queue: &str, key: &str) -> Result<Option<DeadLetter>, StoreError>;

    /// At most `limit` dead letters of a queue (`None`: of all) in the order in which they were first parked.
    async fn dead_letters(&mut self, queue: Option<&str>, limit: u32) -> Result<Vec<DeadLetter>, StoreError>;
}

/// Writes dead letters.
#[async_trait]
pub trait DeadLetterRepo: Send {
    /// Parks dead letters. One that is already `Open` under its queue and key MUST stay as it is;
    /// one that was replayed or discarded is opened again with the new reason and time.
    async fn park(&mut self, letters: &[DeadLetter]) -> Result<(), StoreError>;
}
