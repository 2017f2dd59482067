//! The events of a timeline, in the outbox and in the archive.

use std::collections::BTreeSet;

use handover_events::{AggregateRef, EventId};
use handover_outbox::archive::read_archived;
use handover_outbox::ports::{ArchivedEvent, Consumed, OutboxRow, StoreError};

use crate::use_cases::operations::Operations;

/// The events about some aggregates, with what their files contain of the archived ones.
#[derive(Default)]
pub(super) struct TimelineEvents {
    /// The events, by id.
    pub(super) rows: Vec<OutboxRow>,
    /// Consume-log records of archived events.
    pub(super) records: Vec<Consumed>,
    /// The events that are in the archive.
    pub(super) archived: BTreeSet<EventId>,
    /// Archived events whose content cannot be read, with the reason.
    pub(super) unreadable: Vec<(ArchivedEvent, String)>,
}

impl TimelineEvents {
    /// The ids of all events.
    pub(super) fn ids(&self) -> Vec<EventId> {
        let unreadable = self.unreadable.iter().map(|(event, _)| &event.event_id);
        self.rows.iter().map(|row| &row.event_id).chain(unreadable).cloned().collect()
    }
}

impl Operations {
    /// Reads the events about these aggregates. The caller has no view: files of the archive may be read.
    pub(super) async fn events_about(
        &self,
        aggregates: &[AggregateRef],
    ) -> Result<TimelineEvents, StoreError> {
        let mut view = self.tx.view().await?;
        let rows = view.outbox_view().outbox_about(aggregates).await?;
        // An event is moved to the archive at once, so that it is in the outbox or, read later, in the archive.
        let mut archived = view.outbox_view().archived_about(aggregates).await?;
        drop(view);
        archived.retain(|event| rows.iter().all(|row| row.event_id != event.event_id));
        let mut events = TimelineEvents { rows, ..TimelineEvents::default() };
        let mut contents = match &self.archive {
            Some(storage) => read_archived(&self.tx, &**storage, &archived).await?,
            None => Default::default(),
        };
        for event in archived {
            events.archived.insert(event.event_id.clone());
            match contents.remove(&event.event_id) {
                Some(Ok(content)) => {
                    events.rows.push(content.event.row);
                    events.records.extend(content.event.records);
                }
                Some(Err(error)) => events.unreadable.push((event, error.to_string())),
                None => {
                    events.unreadable.push((event, "the archive is off: archive.url is not set".to_owned()));
                }
            }
        }
        events.rows.sort_by_key(|row| row.id);
        Ok(events)
    }
}
