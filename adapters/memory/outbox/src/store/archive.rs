//! The archive. This store keeps the rows of archived events itself: it restores only the events that it has archived.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, OutboxStatus};
use handover_outbox::ports::{
    ArchiveFile, ArchiveQueries, ArchiveRepo, ArchivedEvent, EventWithRecords, Numbered, OutboxFilter,
    OutboxRow, StoreError, StoredEvent, StoredRow, StoredValue,
};

use super::consume::consumed;
use super::errors::conflict;
use super::locks::Lock;
use super::outbox_index::{of_event, passes};
use super::outbox_tables::{OutboxRows as _, OutboxTables, Statement};
use super::rows::{ArchivedRow, ConsumptionRow};
use super::statement::{Tables, next};
use super::tables::{Row, limited, rows_below};
use super::unit::MemoryUnit;

impl Row<OutboxTables> for ArchivedRow {
    type Key = EventId;
    type Index = ();

    fn key(&self) -> EventId {
        self.is.event_id.clone()
    }
}

impl Row<OutboxTables> for Numbered<ArchiveFile> {
    type Key = i64;
    type Index = ();

    fn key(&self) -> i64 {
        self.id
    }
}

/// The greatest number of the archived events of an aggregate.
pub(super) fn archived_seq(statement: &Statement<'_>, aggregate: &AggregateRef) -> Option<i64> {
    let archived = statement.archived().all().filter(|row| row.is.aggregate == *aggregate);
    archived.map(|row| row.is.aggregate_seq).max()
}

fn text(value: impl std::fmt::Debug) -> StoredValue {
    StoredValue::Text(format!("{value:?}"))
}

fn stored_row(row: &OutboxRow) -> StoredRow {
    let event_id = StoredValue::Text(row.event_id.to_string());
    let columns = [("id", StoredValue::Int(row.id)), ("event_id", event_id), ("row", text(row))];
    columns.map(|(column, value)| (column.to_owned(), value)).into()
}

fn stored_record(record: &ConsumptionRow) -> StoredRow {
    [("id".to_owned(), StoredValue::Int(record.id)), ("record".to_owned(), text(&record.is))].into()
}

fn stored(row: &OutboxRow, records: &[ConsumptionRow]) -> StoredEvent {
    StoredEvent {
        id: row.id,
        event_id: row.event_id.clone(),
        row: stored_row(row),
        records: records.iter().map(stored_record).collect(),
    }
}

/// The consume-log records of an event, by id.
fn records(statement: &Statement<'_>, event: &EventId) -> Vec<ConsumptionRow> {
    let mut records: Vec<ConsumptionRow> =
        statement.consumptions().all().filter(|row| row.is.event_id == *event).cloned().collect();
    records.sort_by_key(|record| record.id);
    records
}

#[async_trait]
impl<X: Tables> ArchiveQueries for MemoryUnit<X> {
    async fn archived_by_event(&mut self, events: &[EventId]) -> Result<Vec<ArchivedEvent>, StoreError> {
        self.read_outbox(|statement| {
            let once: BTreeSet<&EventId> = events.iter().collect();
            let found = once.into_iter().filter_map(|event| statement.archived().get(event));
            found.map(|row| row.is.clone()).collect()
        })
        .await
    }

    async fn archived_about(
        &mut self,
        aggregates: &[AggregateRef],
    ) -> Result<Vec<ArchivedEvent>, StoreError> {
        self.read_outbox(|statement| {
            let archived = statement.archived().all().filter(|row| aggregates.contains(&row.is.aggregate));
            let mut found: Vec<ArchivedEvent> = archived.map(|row| row.is.clone()).collect();
            found.sort_by_key(|event| (event.aggregate.clone(), event.aggregate_seq, event.id));
            found
        })
        .await
    }

    async fn archived_page(
        &mut self,
        filter: &OutboxFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<ArchivedEvent>, StoreError> {
        let filter = OutboxFilter { status: None, ..filter.clone() };
        self.read_outbox(|statement| {
            let archived = statement.archived().all().filter(|it| before.is_none_or(|id| it.is.id < id));
            let mut found: Vec<ArchivedEvent> =
                archived.filter(|it| passes(&filter, &it.row)).map(|it| it.is.clone()).collect();
            found.sort_by_key(|event| std::cmp::Reverse(event.id));
            found.truncate(limited(limit));
            found
        })
        .await
    }

    async fn interpret_stored(
        &mut self,
        events: &[StoredEvent],
    ) -> Result<Vec<EventWithRecords>, StoreError> {
        self.read_outbox(|statement| {
            let known = events.iter().filter_map(|event| {
                let row = statement.archived().get(&event.event_id)?;
                let records = row.records.iter().map(consumed).collect();
                (stored(&row.row, &row.records) == *event)
                    .then(|| EventWithRecords { row: row.row.clone(), records })
            });
            known.collect()
        })
        .await
    }

    async fn stored_events(&mut self, events: &[EventId]) -> Result<Vec<StoredEvent>, StoreError> {
        self.read_outbox(|statement| {
            let once: BTreeSet<&EventId> = events.iter().collect();
            let rows = once.into_iter().filter_map(|event| of_event(statement, event));
            let mut found: Vec<StoredEvent> =
                rows.map(|row| stored(row, &records(statement, &row.event_id))).collect();
            found.sort_by_key(|event| event.id);
            found
        })
        .await
    }

    async fn unfinished_archive_files(&mut self) -> Result<Vec<Numbered<ArchiveFile>>, StoreError> {
        self.read_outbox(|statement| {
            let files = statement.archive_files().all().filter(|file| file.effect.done_time.is_none());
            files.cloned().collect()
        })
        .await
    }

    async fn archive_files(
        &mut self,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<ArchiveFile>>, StoreError> {
        self.read_outbox(|statement| {
            let page = statement
                .archive_files()
                .select(|table| rows_below(table, before).map(|(id, row)| (std::cmp::Reverse(id), row)));
            page.take(limited(limit)).cloned().collect()
        })
        .await
    }
}

#[async_trait]
impl<X: Tables> ArchiveRepo for MemoryUnit<X> {
    async fn add_archive_file(&mut self, file: &ArchiveFile) -> Result<i64, StoreError> {
        self.write_outbox(vec![Lock::ArchiveFile(file.name.clone())], |statement| {
            if statement.archive_files().all().any(|other| other.effect.name == file.name) {
                return Err(conflict(format!("archive_files.name {}", file.name)));
            }
            let id = next(&mut statement.sequences.archive_files);
            statement.own.archive_files.put(Numbered { id, effect: file.clone() });
            Ok(id)
        })
        .await
    }

    async fn finish_archive_file(&mut self, file: i64, at: DateTime<Utc>) -> Result<(), StoreError> {
        self.write_outbox(Vec::new(), |statement| {
            if let Some(mut row) = statement.archive_files().get(&file).cloned() {
                row.effect.done_time = Some(at);
                statement.own.archive_files.put(row);
            }
            Ok(())
        })
        .await
    }

    async fn archive(&mut self, file: i64, events: &[StoredEvent]) -> Result<Vec<EventId>, StoreError> {
        let mut locks: Vec<Lock> = events.iter().map(|event| Lock::Event(event.event_id.clone())).collect();
        let ids = events.iter().map(|event| event.event_id.clone()).collect::<Vec<_>>();
        let known = self
            .read_outbox(|statement| {
                ids.iter()
                    .flat_map(|event| records(statement, event))
                    .map(|record| record.key())
                    .collect::<Vec<_>>()
            })
            .await?;
        locks.extend(known.into_iter().map(|(consumer, event)| Lock::Consumption(consumer, event)));
        self.write_outbox(locks, |statement| {
            let mut archived = Vec::new();
            for event in events {
                let Some(row) = of_event(statement, &event.event_id).cloned() else { continue };
                let records = records(statement, &event.event_id);
                if row.status != OutboxStatus::Sent || stored(&row, &records) != *event {
                    continue;
                }
                let is = ArchivedEvent {
                    id: row.id,
                    event_id: row.event_id.clone(),
                    event_type: row.event_type.clone(),
                    aggregate: row.aggregate.clone(),
                    aggregate_seq: row.aggregate_seq,
                    create_time: row.create_time,
                    file,
                };
                statement.own.outbox.remove(&row.id);
                for record in &records {
                    statement.own.consumptions.remove(&record.key());
                }
                statement.own.archived.put(ArchivedRow { is, row, records });
                archived.push(event.event_id.clone());
            }
            Ok(archived)
        })
        .await
    }

    async fn restore(&mut self, events: &[StoredEvent]) -> Result<Vec<EventId>, StoreError> {
        let locks = events.iter().map(|event| Lock::Event(event.event_id.clone())).collect();
        self.write_outbox(locks, |statement| {
            let mut restored = Vec::new();
            for event in events {
                let Some(found) = statement.archived().get(&event.event_id).cloned() else { continue };
                let known: Vec<StoredRow> = found.records.iter().map(stored_record).collect();
                let is_known = |record| known.contains(record);
                if stored_row(&found.row) != event.row || !event.records.iter().all(is_known) {
                    return Err(StoreError::Backend(
                        "this store has archived other values of the event".into(),
                    ));
                }
                statement.own.archived.remove(&event.event_id);
                statement.own.outbox.put(found.row);
                for record in found.records {
                    // A record that was written after the event was archived stays.
                    let is_given = event.records.contains(&stored_record(&record));
                    if is_given && statement.consumptions().get(&record.key()).is_none() {
                        statement.own.consumptions.put(record);
                    }
                }
                restored.push(event.event_id.clone());
            }
            Ok(restored)
        })
        .await
    }
}
