//! Events in the archive, and how they leave the outbox and return to it.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventId, TenantId};
use handover_outbox::ports::{
    ArchiveFile, ArchiveQueries, ArchiveRepo, ArchivedEvent, EventWithRecords, Numbered, OutboxFilter,
    StoreError, StoredEvent, StoredRow, StoredValue,
};

use super::consume::ConsumeLogTable;
use super::outbox_table::OutboxTable;
use super::page::Page;
use crate::dialect::{Dialect, LookUp, MAX_ROWS, padded, placeholders};
use crate::row::Row;
use crate::session::Session;
use crate::table::{Table, table};
use crate::value::{Value, is_aggregate_id, values};

/// Columns that the database computes.
const COMPUTED: [&str; 2] = ["partition_no", "pending"];

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
        (_, kind) => Page::below(&select, "id", before)
            .with(&format!("{} = ?", dialect.unindexed("aggregate_type")), kind.as_ref()),
    };
    let page = match filter.aggregate_id.as_ref().map(|id| is_aggregate_id("", id)) {
        None => page,
        Some((condition, values)) => page.and(&condition, values),
    };
    page.with("id > ?", filter.above_id)
        .with(&format!("{tenant} = ?"), filter.tenant.map(TenantId::get))
        .with("event_type = ?", filter.event_type.as_ref())
        .with("create_time >= ?", filter.from)
        .with("create_time < ?", filter.to)
        .limit(most)
}

/// The row with these columns whose values were stored. NULL is not stored; it has the same effect in a column of any type.
fn row_of(stored: &StoredRow, columns: &str) -> Row {
    let columns: Vec<String> =
        columns.split(", ").map(|column| column.trim_start_matches("o.").to_owned()).collect();
    let values = columns
        .iter()
        .map(|column| stored.get(column).map_or(Ok(Value::Int(None)), |value| Ok(value_of(value))));
    Row { values: values.collect(), columns: columns.into() }
}

fn value_of(stored: &StoredValue) -> Value {
    match stored {
        StoredValue::Int(value) => Value::Int(Some(*value)),
        StoredValue::Text(value) => Value::Text(Some(value.clone())),
        StoredValue::Time(value) => Value::Time(Some(*value)),
    }
}

fn interpreted(event: &StoredEvent) -> Result<EventWithRecords, StoreError> {
    let record = |record| ConsumeLogTable::read(&row_of(record, ConsumeLogTable::COLUMNS));
    Ok(EventWithRecords {
        row: OutboxTable::read(&row_of(&event.row, OutboxTable::COLUMNS))?,
        records: event.records.iter().map(record).collect::<Result<_, _>>()?,
    })
}

/// The values of a row; `None` if one of them cannot be decoded.
fn stored_row(row: &Row) -> Option<StoredRow> {
    let mut stored = StoredRow::new();
    for (column, value) in row.columns.iter().zip(&row.values) {
        let value = match value {
            Ok(Value::Int(value)) => value.map(StoredValue::Int),
            Ok(Value::Text(value)) => value.clone().map(StoredValue::Text),
            Ok(Value::Time(value)) => value.map(StoredValue::Time),
            Ok(Value::List(_)) | Err(_) => return None,
        };
        if let Some(value) = value.filter(|_| !COMPUTED.contains(&column.as_str())) {
            stored.insert(column.clone(), value);
        }
    }
    Some(stored)
}

fn id_of(row: &StoredRow) -> Option<i64> {
    match row.get("id") {
        Some(StoredValue::Int(id)) => Some(*id),
        Some(StoredValue::Text(_) | StoredValue::Time(_)) | None => None,
    }
}

impl Session {
    /// The stored events among these; `lock` is the clause that locks their rows, or empty.
    async fn stored(&mut self, events: &[&EventId], lock: &str) -> Result<Vec<StoredEvent>, StoreError> {
        let mut found = BTreeMap::new();
        let events: BTreeSet<&EventId> = events.iter().copied().collect();
        let events: Vec<&EventId> = events.into_iter().collect();
        for events in events.chunks(MAX_ROWS) {
            let events = padded(events);
            let keys: Vec<Value> = events.iter().map(|event| Value::from(*event)).collect();
            let list = placeholders(keys.len());
            // Without the hints, MySQL may scan and lock the whole table.
            let by_event = self.dialect.lock_index("uk_event_id");
            let sql = format!("SELECT * FROM outbox_events {by_event} WHERE event_id IN ({list}) {lock}");
            for row in self.fetch(&sql, keys.clone()).await? {
                let event_id: EventId = row.of("outbox_events", "id").named("event_id")?;
                if let (id, Some(stored)) = (row.int("id")?, stored_row(&row)) {
                    found.insert(
                        event_id.clone(),
                        StoredEvent { id, event_id, row: stored, records: Vec::new() },
                    );
                }
            }
            let by_event = self.dialect.lock_index("idx_consume_event");
            let sql = format!("SELECT * FROM event_consume_log {by_event} WHERE event_id IN ({list}) {lock}");
            for row in self.fetch(&sql, keys).await? {
                let event_id: EventId = row.of("event_consume_log", "id").named("event_id")?;
                match (found.get_mut(&event_id), stored_row(&row)) {
                    (Some(event), Some(record)) => event.records.push(record),
                    (Some(_), None) => drop(found.remove(&event_id)),
                    (None, _) => {}
                }
            }
        }
        for event in found.values_mut() {
            event.records.sort_by_key(id_of);
        }
        let mut events: Vec<StoredEvent> = found.into_values().collect();
        events.sort_by_key(|event| event.id);
        Ok(events)
    }

    /// Runs a statement with a list of ids, which are its last parameters.
    async fn with_ids(&mut self, sql: &str, first: Vec<Value>, ids: &[i64]) -> Result<(), StoreError> {
        for ids in ids.chunks(MAX_ROWS) {
            let ids = padded(ids);
            let sql = format!("{sql} IN ({})", placeholders(ids.len()));
            let values = first.iter().cloned().chain(ids.into_iter().map(Value::from)).collect();
            self.execute(&sql, values).await?;
        }
        Ok(())
    }

    /// Inserts a row; `after` is the clause after it, or empty.
    async fn insert_stored(&mut self, table: &str, row: &StoredRow, after: &str) -> Result<(), StoreError> {
        let is_name = |column: &String| column.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
        if !row.keys().all(is_name) {
            return Err(self.refuse("a restored row has a column whose name is none of the schema"));
        }
        let columns: Vec<&str> = row.keys().map(String::as_str).collect();
        let values = row.values().map(value_of);
        let list = placeholders(columns.len());
        let sql = format!("INSERT INTO {table} ({}) VALUES ({list}) {after}", columns.join(", "));
        self.execute(&sql, values.collect()).await.map(drop)
    }
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

    async fn restore(&mut self, events: &[StoredEvent]) -> Result<Vec<EventId>, StoreError> {
        let mut restored = Vec::new();
        for event in events {
            let sql = "DELETE FROM outbox_archived_events WHERE event_id = ? AND id = ?";
            if self.execute(sql, values![&event.event_id, event.id]).await? == 0 {
                continue;
            }
            self.insert_stored("outbox_events", &event.row, "").await?;
            // A record that was written after the event was archived stays.
            let unless_exists = self.dialect.or_replace("consumer, event_id", &["consumer"]);
            for record in &event.records {
                self.insert_stored("event_consume_log", record, &unless_exists).await?;
            }
            restored.push(event.event_id.clone());
        }
        Ok(restored)
    }
}
