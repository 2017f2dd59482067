//! Rows as the archive stores them: every value by its column.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use handover_events::EventId;
use handover_outbox::ports::{EventWithRecords, StoreError, StoredEvent, StoredRow, StoredValue};

use super::consume::ConsumeLogTable;
use super::outbox_table::OutboxTable;
use crate::dialect::{MAX_ROWS, padded, placeholders};
use crate::row::{Columns, Row};
use crate::session::Session;
use crate::table::Table;
use crate::value::Value;

/// Columns that the database computes, and the one that says when the row returned from the archive.
const NOT_STORED: [&str; 3] = ["partition_no", "pending", "restored_time"];

/// The row with these columns whose values were stored. NULL is not stored; it has the same effect in a column of any type.
fn row_of(stored: &StoredRow, columns: &str) -> Row {
    let columns: Vec<String> =
        columns.split(", ").map(|column| column.trim_start_matches("o.").to_owned()).collect();
    let values = columns
        .iter()
        .map(|column| stored.get(column).map_or(Ok(Value::Int(None)), |value| Ok(value_of(value))));
    Row { values: values.collect(), columns: Arc::new(Columns::new(columns)) }
}

fn value_of(stored: &StoredValue) -> Value {
    match stored {
        StoredValue::Int(value) => Value::Int(Some(*value)),
        StoredValue::Text(value) => Value::Text(Some(value.clone())),
        StoredValue::Time(value) => Value::Time(Some(*value)),
    }
}

pub(super) fn interpreted(event: &StoredEvent) -> Result<EventWithRecords, StoreError> {
    let record = |record| ConsumeLogTable::read(&row_of(record, ConsumeLogTable::COLUMNS));
    Ok(EventWithRecords {
        row: OutboxTable::read(&row_of(&event.row, OutboxTable::COLUMNS))?,
        records: event.records.iter().map(record).collect::<Result<_, _>>()?,
    })
}

/// The values of a row; `None` if one of them cannot be decoded.
fn stored_row(row: &Row) -> Option<StoredRow> {
    let mut stored = StoredRow::new();
    for (column, value) in row.columns.names().iter().zip(&row.values) {
        let value = match value {
            Ok(Value::Int(value)) => value.map(StoredValue::Int),
            Ok(Value::Text(value)) => value.clone().map(StoredValue::Text),
            Ok(Value::Time(value)) => value.map(StoredValue::Time),
            Ok(Value::List(_)) | Err(_) => return None,
        };
        if let Some(value) = value.filter(|_| !NOT_STORED.contains(&column.as_str())) {
            stored.insert(column.clone(), value);
        }
    }
    Some(stored)
}

pub(super) fn id_of(row: &StoredRow) -> Option<i64> {
    match row.get("id") {
        Some(StoredValue::Int(id)) => Some(*id),
        Some(StoredValue::Text(_) | StoredValue::Time(_)) | None => None,
    }
}

impl Session {
    /// The stored events among these; `lock` is the clause that locks their rows, or empty.
    pub(super) async fn stored(
        &mut self,
        events: &[&EventId],
        lock: &str,
    ) -> Result<Vec<StoredEvent>, StoreError> {
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
    pub(super) async fn with_ids(
        &mut self,
        sql: &str,
        first: Vec<Value>,
        ids: &[i64],
    ) -> Result<(), StoreError> {
        for ids in ids.chunks(MAX_ROWS) {
            let ids = padded(ids);
            let sql = format!("{sql} IN ({})", placeholders(ids.len()));
            let values = first.iter().cloned().chain(ids.into_iter().map(Value::from)).collect();
            self.execute(&sql, values).await?;
        }
        Ok(())
    }

    /// Inserts a row; `after` is the clause after it, or empty.
    pub(super) async fn insert_stored(
        &mut self,
        table: &str,
        row: &StoredRow,
        after: &str,
    ) -> Result<(), StoreError> {
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
