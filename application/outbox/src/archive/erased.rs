//! Masks the texts of an archived event. Pure functions.

use crate::ports::{Erasure, StoredEvent, StoredRow, StoredValue};
use crate::privacy::{MASK, erased_json};
use crate::registry::EventRegistry;
use crate::storable_text::hash;

/// The event without its texts, as an erasure of its rows leaves them. An event whose texts are masked stays as it is.
pub(crate) fn erased(registry: &EventRegistry, event: &StoredEvent, erasure: &Erasure) -> StoredEvent {
    let mut erased = event.clone();
    let event_type = text(&event.row, "event_type");
    let payload = text(&event.row, "payload").map(|payload| erased_json(registry, event_type, payload));
    set(&mut erased.row, "payload", payload.clone());
    mask(&mut erased.row, "last_error");
    if erased.row != event.row {
        erased.row.insert("erased_time".to_owned(), StoredValue::Time(erasure.at));
        erased.row.insert("erased_reason".to_owned(), StoredValue::Text(erasure.reason.clone()));
    }
    for record in &mut erased.records {
        mask(record, "error_message");
        mask(record, "consume_result");
        set(record, "payload_hash", payload.as_deref().map(hash));
    }
    erased
}

fn text<'r>(row: &'r StoredRow, column: &str) -> Option<&'r str> {
    match row.get(column)? {
        StoredValue::Text(text) => Some(text),
        StoredValue::Int(_) | StoredValue::Time(_) => None,
    }
}

fn set(row: &mut StoredRow, column: &str, text: Option<String>) {
    if let Some(text) = text {
        row.insert(column.to_owned(), StoredValue::Text(text));
    }
}

/// Masks a text; NULL stays.
fn mask(row: &mut StoredRow, column: &str) {
    if let Some(value) = row.get_mut(column) {
        *value = StoredValue::Text(MASK.to_owned());
    }
}
