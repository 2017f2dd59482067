//! Events in the archive, and how they leave the outbox and return to it.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, TenantId};
use handover_outbox::ports::{
    ArchiveFile, ArchiveQueries, ArchiveRepo, ArchivedEvent, Changed, Erasure, EventWithRecords, Numbered,
    OutboxFilter, StoreError, StoredEvent, StoredValue, UnrecordedFile, UnrecordedState,
};

use super::page::Page;
use super::stored_rows::{id_of, interpreted};
use crate::dialect::{Dialect, LookUp, MAX_ROWS, padded, placeholders};
use crate::row::Fields;
use crate::session::Session;
use crate::table::{Table, table};
use crate::value::{Value, is_aggregate_id, values};

table! {
    ArchivedTable("outbox_archived_events" by "id"), read row as ArchivedEvent, write event as &'a ArchivedEvent;
    insert {
        id: int("id" = event.id),
        event_id: named("event_id" = &event.event_id),
        event_type: string("event_type" = &event.event_type),
        aggregate: (row.aggregate())(
            "tenant_id" = event.aggregate.tenant.get(),
            "aggregate_type" = &event.aggregate.kind,
            "aggregate_id" = event.aggregate.id.number(),
            "aggregate_key" = event.aggregate.id.key()
        ),
        aggregate_seq: int("aggregate_seq" = event.aggregate_seq),
        create_time: time("create_time" = event.create_time),
        file: int("file_id" = event.file),
    }
}

/// The columns of an archived event that it has in common with the outbox row.
const COPIED: &str = "id, event_id, event_type, tenant_id, aggregate_type, aggregate_id, aggregate_key, aggregate_seq, create_time";

table! {
    FileTable("outbox_archive_files" by "name"), read row as ArchiveFile, write file as &'a ArchiveFile;
    insert {
        name: string("name" = &file.name),
        events: id("events" = i64::try_from(file.events).unwrap_or(i64::MAX)),
        records: id("records" = i64::try_from(file.records).unwrap_or(i64::MAX)),
        bytes: id("bytes" = i64::try_from(file.bytes).unwrap_or(i64::MAX)),
        sha256: string("sha256" = &file.sha256),
        first_id: int("first_id" = file.first_id),
        last_id: int("last_id" = file.last_id),
        create_time: time("create_time" = file.create_time),
        done_time: opt_time("done_time" = file.done_time),
        erased: (erasure(row))(
            "erased_time" = file.erased.as_ref().map(|erased| erased.at),
            "erased_reason" = file.erased.as_ref().map(|erased| erased.reason.as_str())
        ),
    }
}

fn erasure(row: Fields<'_>) -> Result<Option<Erasure>, StoreError> {
    let reason = row.opt_string("erased_reason")?.unwrap_or_default();
    Ok(row.opt_time("erased_time")?.map(|at| Erasure { at, reason }))
}

table! {
    UnrecordedTable("outbox_archive_unrecorded" by "name"),
    read row as UnrecordedFile, write file as &'a UnrecordedFile;
    insert {
        name: string("name" = &file.name),
        state: named("state" = file.state.as_str()),
        since: time("create_time" = file.since),
    }
}

fn files() -> String {
    format!("SELECT id, {} FROM outbox_archive_files", FileTable::COLUMNS)
}

/// The archived events among these.
pub(super) fn by_event(events: &[EventId]) -> (String, Vec<Value>) {
    let events = padded(events);
    let columns = ArchivedTable::COLUMNS;
    let list = placeholders(events.len());
    let sql = format!("SELECT {columns} FROM outbox_archived_events WHERE event_id IN ({list})");
    (sql, events.iter().map(Value::from).collect())
}

/// The archived events of aggregates of one type.
pub(super) fn about(dialect: &dyn Dialect, tenant: i64, kind: &str, ids: &[i64]) -> (String, Vec<Value>) {
    dialect.look_up(LookUp {
        columns: ArchivedTable::COLUMNS,
        from: format!("outbox_archived_events {}", dialect.index("idx_outbox_archived")),
        column: "aggregate_id",
        keys: padded(ids).into_iter().map(Value::from).collect(),
        conditions: "aggregate_type = ? AND tenant_id = ?".to_owned(),
        values: values![kind, tenant],
        ..LookUp::default()
    })
}

/// A page of the archived events that match a filter.
pub(super) fn page(
    dialect: &dyn Dialect,
    filter: &OutboxFilter,
    before: Option<i64>,
    most: u32,
) -> (String, Vec<Value>) {
    let select = format!("SELECT {} FROM outbox_archived_events", ArchivedTable::COLUMNS);
    let is_of_aggregate = filter.aggregate_id.is_some() && filter.aggregate_type.is_some();
    // The index begins with the tenant, and would find the events of a whole tenant.
    let tenant = if is_of_aggregate { "tenant_id".to_owned() } else { dialect.unindexed("tenant_id") };
    let page = match (&filter.aggregate_id, &filter.aggregate_type) {
        // The few events of an aggregate are found first and then sorted: `+ 0` prevents a scan in the order of ids.
        (Some(_), Some(kind)) => {
            let select = format!("{select} {}", dialect.index("idx_outbox_archived"));
            Page::below(&select, "id + 0", before).with("aggregate_type = ?", Some(kind))
        }
        (_, kind) => Page::below(&format!("{select} {}", dialect.primary_key()), "id", before)
            .with(&format!("{} = ?", dialect.unindexed("aggregate_type")), kind.as_ref()),
    };
    let page = match filter.aggregate_id.as_ref().map(|id| is_aggregate_id("", id)) {
        None => page,
        Some((condition, values)) => page.and(&condition, values),
    };
    page.with("id > ?", filter.above_id)
        .with("id < ?", filter.below_id)
        .with(&format!("{tenant} = ?"), filter.tenant.map(TenantId::get))
        .with("event_type = ?", filter.event_type.as_ref())
        .with("create_time >= ?", filter.from)
        .with("create_time < ?", filter.to)
        .limit(most)
}

#[async_trait]
impl ArchiveQueries for Session {
    async fn archived_by_event(&mut self, events: &[EventId]) -> Result<Vec<ArchivedEvent>, StoreError> {
        let events: BTreeSet<&EventId> = events.iter().collect();
        let events: Vec<EventId> = events.into_iter().cloned().collect();
        let mut found = Vec::new();
        for events in events.chunks(MAX_ROWS) {
            let (sql, values) = by_event(events);
            for row in self.fetch(&sql, values).await? {
                found.push(ArchivedTable::read(&row)?);
            }
        }
        Ok(found)
    }

    async fn archived_about(
        &mut self,
        aggregates: &[AggregateRef],
    ) -> Result<Vec<ArchivedEvent>, StoreError> {
        let wanted: BTreeSet<&AggregateRef> = aggregates.iter().collect();
        let mut numbers: BTreeMap<(i64, &str), BTreeSet<i64>> = BTreeMap::new();
        for of in &wanted {
            numbers.entry((of.tenant.get(), &of.kind)).or_default().insert(of.id.number());
        }
        let mut found = Vec::new();
        for ((tenant, kind), numbers) in numbers {
            let numbers: Vec<i64> = numbers.into_iter().collect();
            for numbers in numbers.chunks(MAX_ROWS) {
                let (sql, values) = about(self.dialect, tenant, kind, numbers);
                for row in self.fetch(&sql, values).await? {
                    found.push(ArchivedTable::read(&row)?);
                }
            }
        }
        // The number of an id may also be the hash of another aggregate's text key.
        found.retain(|event| wanted.contains(&event.aggregate));
        found.sort_by(|a, b| {
            a.aggregate.cmp(&b.aggregate).then_with(|| (a.aggregate_seq, a.id).cmp(&(b.aggregate_seq, b.id)))
        });
        Ok(found)
    }

    async fn archived_page(
        &mut self,
        filter: &OutboxFilter,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<ArchivedEvent>, StoreError> {
        let (sql, values) = page(self.dialect, filter, before, most);
        self.fetch(&sql, values).await?.iter().map(ArchivedTable::read).collect()
    }

    async fn interpret_stored(
        &mut self,
        events: &[StoredEvent],
    ) -> Result<Vec<EventWithRecords>, StoreError> {
        Ok(events.iter().filter_map(|event| interpreted(event).ok()).collect())
    }

    async fn stored_events(&mut self, events: &[EventId]) -> Result<Vec<StoredEvent>, StoreError> {
        let events: Vec<&EventId> = events.iter().collect();
        self.stored(&events, "").await
    }

    async fn unfinished_archive_files(&mut self) -> Result<Vec<Numbered<ArchiveFile>>, StoreError> {
        let sql = format!("{} WHERE done_time IS NULL ORDER BY id", files());
        self.fetch(&sql, Vec::new()).await?.iter().map(FileTable::numbered).collect()
    }

    async fn archive_files(
        &mut self,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<Numbered<ArchiveFile>>, StoreError> {
        let (sql, values) = Page::below(&files(), "id", before).limit(most);
        self.fetch(&sql, values).await?.iter().map(FileTable::numbered).collect()
    }

    async fn unrecorded_files(&mut self, most: u32) -> Result<Vec<UnrecordedFile>, StoreError> {
        let sql = format!(
            "SELECT {} FROM outbox_archive_unrecorded ORDER BY name LIMIT ?",
            UnrecordedTable::COLUMNS
        );
        self.fetch(&sql, values![i64::from(most)]).await?.iter().map(UnrecordedTable::read).collect()
    }
}

#[async_trait]
impl ArchiveRepo for Session {
    async fn add_archive_file(&mut self, file: &ArchiveFile) -> Result<i64, StoreError> {
        self.insert_into::<FileTable>(FileTable::values(file), "").await?;
        let sql = "SELECT id FROM outbox_archive_files WHERE name = ?";
        let row = self.fetch_one(sql, values![&file.name]).await?;
        row.ok_or_else(|| StoreError::Backend("the inserted file was not found".into()))?.int("id")
    }

    async fn finish_archive_file(&mut self, file: i64, at: DateTime<Utc>) -> Result<(), StoreError> {
        let sql = "UPDATE outbox_archive_files SET done_time = ? WHERE id = ?";
        self.execute(sql, values![at, file]).await.map(drop)
    }

    async fn archive(&mut self, file: i64, events: &[StoredEvent]) -> Result<Vec<EventId>, StoreError> {
        let ids: Vec<&EventId> = events.iter().map(|event| &event.event_id).collect();
        let current = self.stored(&ids, self.dialect.for_update()).await?;
        let is_sent = |event: &&StoredEvent| {
            event.row.get("status").is_some_and(|status| *status == StoredValue::Text("SENT".to_owned()))
        };
        let unchanged: Vec<&StoredEvent> =
            current.iter().filter(is_sent).filter(|event| events.contains(event)).collect();
        let rows: Vec<i64> = unchanged.iter().map(|event| event.id).collect();
        let records: Vec<i64> = unchanged.iter().flat_map(|event| &event.records).filter_map(id_of).collect();
        let copy = format!(
            "INSERT INTO outbox_archived_events ({COPIED}, file_id) SELECT {COPIED}, ? FROM outbox_events WHERE id"
        );
        self.with_ids(&copy, values![file], &rows).await?;
        self.with_ids("DELETE FROM event_consume_log WHERE id", Vec::new(), &records).await?;
        self.with_ids("DELETE FROM outbox_events WHERE id", Vec::new(), &rows).await?;
        Ok(unchanged.into_iter().map(|event| event.event_id.clone()).collect())
    }

    async fn restore(
        &mut self,
        events: &[StoredEvent],
        at: DateTime<Utc>,
    ) -> Result<Vec<EventId>, StoreError> {
        let mut restored = Vec::new();
        for event in events {
            let sql = "DELETE FROM outbox_archived_events WHERE event_id = ? AND id = ?";
            if self.execute(sql, values![&event.event_id, event.id]).await? == 0 {
                continue;
            }
            let mut row = event.row.clone();
            row.insert("restored_time".to_owned(), StoredValue::Time(at));
            self.insert_stored("outbox_events", &row, "").await?;
            // A record that was written after the event was archived stays.
            let unless_exists = self.dialect.or_replace("consumer, event_id", &["consumer"]);
            for record in &event.records {
                self.insert_stored("event_consume_log", record, &unless_exists).await?;
            }
            restored.push(event.event_id.clone());
        }
        Ok(restored)
    }

    async fn lock_archive_file(&mut self, file: i64) -> Result<Option<ArchiveFile>, StoreError> {
        let sql = format!("{} WHERE id = ? {}", files(), self.dialect.for_update());
        self.fetch_one(&sql, values![file]).await?.as_ref().map(FileTable::read).transpose()
    }

    async fn replace_archive_file(
        &mut self,
        file: i64,
        from: &str,
        to: &ArchiveFile,
    ) -> Result<Changed, StoreError> {
        let bytes = i64::try_from(to.bytes).unwrap_or(i64::MAX);
        let at = to.erased.as_ref().map(|erased| erased.at);
        let reason = to.erased.as_ref().map(|erased| erased.reason.as_str());
        let sql = "UPDATE outbox_archive_files SET name = ?, bytes = ?, sha256 = ?, erased_time = ?, erased_reason = ? \
                   WHERE id = ? AND name = ?";
        self.execute(sql, values![&to.name, bytes, &to.sha256, at, reason, file, from]).await.map(Changed::of)
    }

    async fn add_unrecorded_file(&mut self, file: &UnrecordedFile) -> Result<(), StoreError> {
        let values = UnrecordedTable::values(file);
        self.insert(UnrecordedTable::INSERT, UnrecordedTable::INSERTED, values, "").await.map(drop)
    }

    async fn give_up_unrecorded_file(&mut self, name: &str) -> Result<Changed, StoreError> {
        let sql =
            "UPDATE outbox_archive_unrecorded SET state = 'OBSOLETE' WHERE name = ? AND state = 'WRITING'";
        self.execute(sql, values![name]).await.map(Changed::of)
    }

    async fn remove_unrecorded_file(
        &mut self,
        name: &str,
        state: UnrecordedState,
    ) -> Result<Changed, StoreError> {
        let sql = "DELETE FROM outbox_archive_unrecorded WHERE name = ? AND state = ?";
        self.execute(sql, values![name, state.as_str()]).await.map(Changed::of)
    }
}
