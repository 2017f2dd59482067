//! The history of outbox rows: facts that the row does not contain, such as earlier errors and confirms, redrives and
//! ignored duplicates.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{EventId, HistoryKind, TenantId};

use super::error::StoreError;

/// One entry of the history of an outbox row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// Tenant of the event.
    pub tenant: TenantId,
    /// Event id.
    pub event_id: EventId,
    /// Kind of the history entry.
    pub kind: HistoryKind,
    /// Consumer that ignored a duplicate, or whose dead letter this is about.
    pub consumer: Option<String>,
    /// Number of counted publishes since the row was appended or last redriven; 0 if the entry is not about a publish.
    pub attempts: u32,
    /// Error of an attempt; for a redrive, its operator and reason.
    pub detail: Option<String>,
    /// Time of the history entry.
    pub at: DateTime<Utc>,
}

/// Reads the history.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait HistoryQueries: Send {
    /// All entries of these events, in the order in which they were added.
    async fn history_of(&mut self, events: &[EventId]) -> Result<Vec<HistoryEntry>, StoreError>;
}

/// Writes the history.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait HistoryRepo: Send {
    /// Adds entries in the order given. Entries are never removed; only an erasure masks their details.
    async fn add_history(&mut self, entries: &[HistoryEntry]) -> Result<(), StoreError>;
}
