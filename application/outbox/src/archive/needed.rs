//! The events that an application still needs.

use std::collections::BTreeSet;

use async_trait::async_trait;
use handover_events::EventId;

use crate::ports::{OutboxRow, StoreError};

/// Port: the events that the application needs, whatever outbox and consume log say.
#[async_trait]
pub trait NeededEvents: Send + Sync {
    /// Those of these events that MUST stay in the database, such as the events of a process that has not ended.
    async fn needed(&self, rows: &[OutboxRow]) -> Result<BTreeSet<EventId>, StoreError>;
}

/// An application that needs no settled event.
#[derive(Debug, Clone, Copy)]
pub struct NoNeededEvents;

#[async_trait]
impl NeededEvents for NoNeededEvents {
    async fn needed(&self, _rows: &[OutboxRow]) -> Result<BTreeSet<EventId>, StoreError> {
        Ok(BTreeSet::new())
    }
}
