//! The archive. This store keeps the rows of archived events itself: it restores only the events that it has archived.

use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, OutboxStatus};
use handover_outbox::ports::{
    ArchiveFile, ArchiveQueries, ArchiveRepo, ArchivedEvent, Changed, EventWithRecords, Numbered,
    OutboxFilter, OutboxRow, StoreError, StoredEvent, UnrecordedFile, UnrecordedState,
};

use super::consume::consumed;
use super::errors::conflict;
use super::locks::Lock;
use super::outbox_index::{of_event, passes};
use super::outbox_tables::{OutboxRows as _, OutboxTables, Statement};
use super::rows::{ArchivedRow, ConsumptionRow};
use super::statement::{Tables, next};
use super::stored_rows::{interpreted, stored};
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

impl Row<OutboxTables> for UnrecordedFile {
    type Key = String;
    type Index = ();

    fn key(&self) -> String {
        self.name.clone()
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
                let found = interpreted(statement.archived().get(&event.event_id)?, event)?;
                let records = found.records.iter().map(consumed).collect();
                Some(EventWithRecords { row: found.row, records })
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

    async fn unrecorded_files(&mut self, limit: u32) -> Result<Vec<UnrecordedFile>, StoreError> {
        self.read_outbox(|statement| {
            let mut files: Vec<UnrecordedFile> = statement.unrecorded().all().cloned().collect();
            files.sort_by(|a, b| a.name.cmp(&b.name));
            files.truncate(limited(limit));
            files
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
        self.write_outbox(vec![Lock::ArchiveRecord(file)], |statement| {
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

    async fn restore(
        &mut self,
        events: &[StoredEvent],
        at: DateTime<Utc>,
    ) -> Result<Vec<EventId>, StoreError> {
        let locks = events.iter().map(|event| Lock::Event(event.event_id.clone())).collect();
        self.write_outbox(locks, |statement| {
            let mut restored = Vec::new();
            for event in events {
                let Some(found) = statement.archived().get(&event.event_id) else { continue };
                let found = interpreted(found, event).ok_or_else(|| {
                    StoreError::Backend("this store has archived other values of the event".into())
                })?;
                statement.own.archived.remove(&event.event_id);
                statement.own.outbox.put(OutboxRow { restored_time: Some(at), ..found.row });
                for record in found.records {
                    // A record that was written after the event was archived stays.
                    if statement.consumptions().get(&record.key()).is_none() {
                        statement.own.consumptions.put(record);
                    }
                }
                restored.push(event.event_id.clone());
            }
            Ok(restored)
        })
        .await
    }

    async fn lock_archive_file(&mut self, file: i64) -> Result<Option<ArchiveFile>, StoreError> {
        self.write_outbox(vec![Lock::ArchiveRecord(file)], |statement| {
            Ok(statement.archive_files().get(&file).map(|row| row.effect.clone()))
        })
        .await
    }

    async fn replace_archive_file(
        &mut self,
        file: i64,
        from: &str,
        to: &ArchiveFile,
    ) -> Result<Changed, StoreError> {
        self.write_outbox(vec![Lock::ArchiveRecord(file)], |statement| {
            let found = statement.archive_files().get(&file).filter(|row| row.effect.name == from);
            let Some(mut row) = found.cloned() else { return Ok(Changed::None) };
            row.effect = ArchiveFile {
                name: to.name.clone(),
                bytes: to.bytes,
                sha256: to.sha256.clone(),
                erased: to.erased.clone(),
                ..row.effect
            };
            statement.own.archive_files.put(row);
            Ok(Changed::One)
        })
        .await
    }

    async fn add_unrecorded_file(&mut self, file: &UnrecordedFile) -> Result<(), StoreError> {
        self.write_outbox(vec![Lock::UnrecordedFile(file.name.clone())], |statement| {
            if statement.unrecorded().get(&file.name).is_some() {
                return Err(conflict(format!("archive_unrecorded.name {}", file.name)));
            }
            statement.own.unrecorded.put(file.clone());
            Ok(())
        })
        .await
    }

    async fn give_up_unrecorded_file(&mut self, name: &str) -> Result<Changed, StoreError> {
        self.write_outbox(vec![Lock::UnrecordedFile(name.to_owned())], |statement| {
            let found = statement.unrecorded().get(&name.to_owned());
            let is_written = |file: &&UnrecordedFile| file.state == UnrecordedState::Writing;
            let Some(file) = found.filter(is_written).cloned() else { return Ok(Changed::None) };
            statement.own.unrecorded.put(UnrecordedFile { state: UnrecordedState::Obsolete, ..file });
            Ok(Changed::One)
        })
        .await
    }

    async fn remove_unrecorded_file(
        &mut self,
        name: &str,
        state: UnrecordedState,
    ) -> Result<Changed, StoreError> {
        let name = name.to_owned();
        self.write_outbox(vec![Lock::UnrecordedFile(name.clone())], |statement| {
            let is_in_state = statement.unrecorded().get(&name).is_some_and(|file| file.state == state);
            if is_in_state {
                statement.own.unrecorded.remove(&name);
            }
            Ok(Changed::of(u64::from(is_in_state)))
        })
        .await
    }
}
