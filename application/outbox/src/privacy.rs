//! Masks payloads for operators without access to personal data: only fields that event types declare as visible are
//! shown.
//!
//! **Invariant:** a field that no type declares as visible and that is not a field of the envelope is masked, and so is
//! a text that is not a code or a time.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::registry::EventRegistry;

/// Replacement for a masked value.
pub const MASK: &str = "***";

/// Fields of every envelope; always visible.
const ENVELOPE: [&str; 8] =
    ["aggregateId", "aggregateType", "eventId", "eventType", "occurredAt", "payload", "tenantId", "traceId"];

/// Longest text that counts as a code or a time.
const MAX_CODE_CHARS: usize = 64;

/// Masks a payload or an envelope.
pub(crate) fn masked_json(registry: &EventRegistry, json: &str) -> String {
    let visible = &registry.visible();
    match serde_json::from_str::<Value>(json) {
        Ok(object @ Value::Object(_)) => masked_value(object, visible).to_string(),
        // A text that is not a JSON object was not written by this application. Its content is unknown, so it is masked
        // completely.
        Ok(_) | Err(_) => Value::from(MASK).to_string(),
    }
}

fn masked_value(value: Value, visible: &BTreeSet<&str>) -> Value {
    match value {
        Value::Object(fields) => {
            let is_visible = |name: &str| ENVELOPE.contains(&name) || visible.contains(name);
            let field = |(name, value): (String, Value)| {
                let value = if is_visible(&name) { masked_value(value, visible) } else { MASK.into() };
                // A field name that is not a code can contain personal data, so it is masked.
                (if is_code(&name) { name } else { MASK.to_owned() }, value)
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
        Value::Array(items) => {
            Value::Array(items.into_iter().map(|item| masked_value(item, visible)).collect())
        }
        Value::String(text) if !is_code(&text) => MASK.into(),
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => value,
    }
}

/// Whether the text looks like a status, id, amount or time, not like free text.
fn is_code(text: &str) -> bool {
    text.len() <= MAX_CODE_CHARS
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':' | b'+'))
}
