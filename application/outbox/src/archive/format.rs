//! The content of a file of the archive: one line of JSON for each event.
//!
//! ```json
//! {"row":{"id":7,"event_id":"e-7","create_time":{"time":"2026-02-04T10:30:00.123456Z"}},"records":[{"id":9}]}
//! ```
//!
//! Values are those of the columns: an integer is a number, a text a string, a time an object; NULL and computed columns
//! are left out. So a restored row has the same values, also in columns that this version does not know.

use chrono::{DateTime, SecondsFormat, Utc};
use handover_events::EventId;
use serde_json::{Map, Value, json};

use crate::ports::{StoredEvent, StoredRow, StoredValue};

fn row_to_json(row: &StoredRow) -> Value {
    let columns = row.iter().map(|(column, value)| {
        let value = match value {
            StoredValue::Int(value) => json!(value),
            StoredValue::Text(value) => json!(value),
            StoredValue::Time(value) => json!({ "time": value.to_rfc3339_opts(SecondsFormat::Micros, true) }),
        };
        (column.clone(), value)
    });
    Value::Object(columns.collect())
}

/// The line of an event, with the end of line.
pub(crate) fn encode(event: &StoredEvent) -> String {
    let records: Vec<Value> = event.records.iter().map(row_to_json).collect();
    let mut line = json!({ "row": row_to_json(&event.row), "records": records }).to_string();
    line.push('\n');
    line
}

fn value_of(value: &Value) -> Option<StoredValue> {
    if let Some(number) = value.as_i64() {
        return Some(StoredValue::Int(number));
    }
    if let Some(text) = value.as_str() {
        return Some(StoredValue::Text(text.to_owned()));
    }
    let time = DateTime::parse_from_rfc3339(value.get("time")?.as_str()?).ok()?;
    Some(StoredValue::Time(time.with_timezone(&Utc)))
}

fn row_of(columns: &Map<String, Value>) -> Option<StoredRow> {
    columns.iter().map(|(column, value)| Some((column.clone(), value_of(value)?))).collect()
}

fn event_of(line: &str) -> Option<StoredEvent> {
    let line: Value = serde_json::from_str(line).ok()?;
    let row = row_of(line.get("row")?.as_object()?)?;
    let records = line.get("records")?.as_array()?;
    let records = records.iter().map(|record| row_of(record.as_object()?)).collect::<Option<Vec<_>>>()?;
    let Some(StoredValue::Int(id)) = row.get("id") else { return None };
    let Some(StoredValue::Text(event_id)) = row.get("event_id") else { return None };
    let event_id: EventId = event_id.parse().ok()?;
    Some(StoredEvent { id: *id, event_id, row, records })
}

/// Reads the lines of a file. The error is the number of the first line that is not an event.
pub(super) fn decode(lines: &str) -> Result<Vec<StoredEvent>, usize> {
    let numbered = (1..).zip(lines.lines());
    numbered.map(|(number, line)| event_of(line).ok_or(number)).collect()
}
