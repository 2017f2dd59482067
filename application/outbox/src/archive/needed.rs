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

/// Result of [`ask`].
#[derive(Default)]
pub(super) struct Needs {
    pub(super) needed: BTreeSet<EventId>,
    /// Events about which the application cannot read a stored value.
    pub(super) unreadable: BTreeSet<EventId>,
}

/// Asks the application about these events, one by one if it cannot read a stored value about one of them: one event must not stop
/// the others.
pub(super) async fn ask(application: &dyn NeededEvents, rows: &[OutboxRow]) -> Result<Needs, StoreError> {
    let mut needs = Needs::default();
    if rows.is_empty() {
        return Ok(needs);
    }
    match application.needed(rows).await {
        Ok(needed) => return Ok(Needs { needed, ..needs }),
        Err(StoreError::Corrupt { .. }) => {}
        Err(error) => return Err(error),
    }
    for row in rows {
        match application.needed(std::slice::from_ref(row)).await {
            Ok(needed) => needs.needed.extend(needed),
            Err(StoreError::Corrupt { .. }) => {
                needs.unreadable.insert(row.event_id.clone());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(needs)
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
