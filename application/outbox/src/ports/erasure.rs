//! Erasure: texts in stored rows are masked, because they were written by a person or describe one.
//!
//! **Invariant:** only what is settled is masked. Ids, states, numbers and times stay.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::EventId;

use super::error::StoreError;

/// What replaces the stored payloads and bodies of an event. Every other text about the event is replaced by
/// [`MASK`](crate::MASK): errors, results of consumers, reasons and responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedTexts {
    /// Event.
    pub event_id: EventId,
    /// Payload.
    pub payload: String,
    /// SHA-256 of the payload, for the consume log.
    pub payload_hash: String,
    /// Queue and body of each dead letter.
    pub dead_letters: Vec<(String, String)>,
    /// Id and body of each webhook delivery.
    pub deliveries: Vec<(i64, String)>,
}

/// When and why texts were masked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Erasure {
    /// Time.
    pub at: DateTime<Utc>,
    /// Reason that the operator gave.
    pub reason: String,
}

/// Masks texts.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait ErasureRepo: Send {
    /// Masks the texts of these events and returns the number of changed rows. A row that has these texts already MUST NOT be
    /// changed, and a value that is NULL stays NULL.
    ///
    /// - A row of the outbox MUST be changed only if it is `SENT`; `erased_time` and `erased_reason` are set, and `update_time`
    ///   stays.
    /// - A consume-log record MUST be changed only if it is `SUCCESS` or `DEAD`.
    /// - A dead letter MUST be changed only if it is `Replayed` or `Discarded`.
    /// - A webhook delivery MUST be changed only if it is not `Pending`; its attempts are masked with it.
    /// - History entries of the events are masked.
    async fn erase_events(&mut self, events: &[MaskedTexts], erasure: &Erasure) -> Result<u64, StoreError>;

    /// Masks the reasons of these audit entries and returns the number of changed entries. Nothing else of an entry MUST be
    /// changed.
    async fn erase_audit_reasons(&mut self, entries: &[i64]) -> Result<u64, StoreError>;
}
