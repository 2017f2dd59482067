//! The history of outbox rows: what a row no longer says of itself, because a later state has replaced it.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{EventId, HistoryKind, TenantId};

use super::StoreError;

/// One entry of the history of an outbox row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryEntry {
    /// The tenant of the event.
    pub tenant: TenantId,
    /// The event.
    pub event_id: EventId,
    /// What happened.
    pub kind: HistoryKind,
    /// The consumer that ignored a duplicate.
    pub consumer: Option<String>,
    /// How many publishes there were since the row was appended or last redriven, as far as it is about publishes.
    pub attempts: u32,
    /// The error of an attempt; of a redrive, its actor and reason. For operators.
    pub detail: Option<String>,
    /// When.
    pub at: DateTime<Utc>,
}

/// Reads the history.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait HistoryQueries: Send {
    /// Every entry of these events, in the order in which they were added.
    async fn history_of(&mut self, events: &[EventId]) -> Result<Vec<HistoryEntry>, StoreError>;
}

/// Writes the history.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait HistoryRepo: Send {
    /// Adds entries, in the order given. Nothing ever changes one or removes it.
    async fn add_history(&mut self, entries: &[HistoryEntry]) -> Result<(), StoreError>;
}
