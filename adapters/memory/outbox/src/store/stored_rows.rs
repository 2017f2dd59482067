//! Stored values of archived events: the texts that an erasure masks have columns of their own; the other values of a row are in
//! one column.

use handover_outbox::ports::{Consumption, OutboxRow, StoredEvent, StoredRow, StoredValue};

use super::rows::{ArchivedRow, ConsumptionRow};

fn text(text: &str) -> Option<StoredValue> {
    Some(StoredValue::Text(text.to_owned()))
}

fn stored_row<const N: usize>(columns: [(&str, Option<StoredValue>); N]) -> StoredRow {
    columns.into_iter().filter_map(|(column, value)| Some((column.to_owned(), value?))).collect()
}

fn outbox_row(row: &OutboxRow) -> StoredRow {
    let rest = OutboxRow {
        payload: String::new(),
        last_error: None,
        erased_time: None,
        erased_reason: None,
        restored_time: None,
        ..row.clone()
    };
    stored_row([
        ("id", Some(StoredValue::Int(row.id))),
        ("event_id", text(row.event_id.as_str())),
        ("event_type", text(&row.event_type)),
        ("payload", text(&row.payload)),
        ("last_error", row.last_error.as_deref().and_then(text)),
        ("erased_time", row.erased_time.map(StoredValue::Time)),
        ("erased_reason", row.erased_reason.as_deref().and_then(text)),
        ("row", text(&format!("{rest:?}"))),
    ])
}

fn record(record: &ConsumptionRow) -> StoredRow {
    let rest = Consumption {
        error_message: None,
        consume_result: None,
        payload_hash: String::new(),
        ..record.is.clone()
    };
    stored_row([
        ("id", Some(StoredValue::Int(record.id))),
        ("error_message", record.is.error_message.as_deref().and_then(text)),
        ("consume_result", record.is.consume_result.as_deref().and_then(text)),
        ("payload_hash", text(&record.is.payload_hash)),
        ("record", text(&format!("{rest:?}"))),
    ])
}

pub(super) fn stored(row: &OutboxRow, records: &[ConsumptionRow]) -> StoredEvent {
    StoredEvent {
        id: row.id,
        event_id: row.event_id.clone(),
        row: outbox_row(row),
        records: records.iter().map(record).collect(),
    }
}

fn text_of(row: &StoredRow, column: &str) -> Option<String> {
    match row.get(column)? {
        StoredValue::Text(text) => Some(text.clone()),
        StoredValue::Int(_) | StoredValue::Time(_) => None,
    }
}

/// The archived rows with the texts of a stored event; `None` if another value differs.
pub(super) fn interpreted(archived: &ArchivedRow, event: &StoredEvent) -> Option<ArchivedRow> {
    let mut found = archived.clone();
    found.row.payload = text_of(&event.row, "payload").unwrap_or_default();
    found.row.last_error = text_of(&event.row, "last_error");
    found.row.erased_time = match event.row.get("erased_time") {
        Some(StoredValue::Time(at)) => Some(*at),
        Some(StoredValue::Int(_) | StoredValue::Text(_)) | None => None,
    };
    found.row.erased_reason = text_of(&event.row, "erased_reason");
    // The records are those of the file, whatever was archived.
    let ids: Vec<_> = event.records.iter().filter_map(|record| record.get("id")).collect();
    found.records.retain(|record| ids.contains(&&StoredValue::Int(record.id)));
    for (record, stored) in found.records.iter_mut().zip(&event.records) {
        record.is.error_message = text_of(stored, "error_message");
        record.is.consume_result = text_of(stored, "consume_result");
        record.is.payload_hash = text_of(stored, "payload_hash").unwrap_or_default();
    }
    (stored(&found.row, &found.records) == *event).then_some(found)
}
