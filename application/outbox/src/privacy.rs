//! What an operator sees of payloads who does not see people: the fields that event types declare as visible.
//!
//! **Invariant:** a field that no type declares is masked, and so is what is no code, number or time.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::EventRegistry;
use crate::operations::Operator;

/// What stands in the place of what is masked.
pub const MASK: &str = "***";

/// Fields of every envelope.
const ENVELOPE: [&str; 8] =
    ["aggregateId", "aggregateType", "eventId", "eventType", "occurredAt", "payload", "tenantId", "traceId"];

/// The longest text that is taken for a code or a time.
const MAX_CODE_CHARS: usize = 64;

/// A payload or an envelope, as this operator sees it.
pub(crate) fn shown(registry: &EventRegistry, operator: &Operator, json: String) -> String {
    if operator.sees_people { json } else { masked(&json, &registry.visible()) }
}

/// A payload or an envelope, as somebody sees it who does not see people.
fn masked(json: &str, visible: &BTreeSet<&str>) -> String {
    match serde_json::from_str::<Value>(json) {
        Ok(object @ Value::Object(_)) => of_value(object, visible).to_string(),
        // No message of ours: nobody knows what it says.
        Ok(_) | Err(_) => Value::from(MASK).to_string(),
    }
}

fn of_value(value: Value, visible: &BTreeSet<&str>) -> Value {
    match value {
        Value::Object(fields) => {
            let shown = |name: &str| ENVELOPE.contains(&name) || visible.contains(name);
            let field = |(name, value): (String, Value)| {
                let value = if shown(&name) { of_value(value, visible) } else { MASK.into() };
                // A name can tell as much as a value.
                (if is_code(&name) { name } else { MASK.to_owned() }, value)
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
        Value::Array(items) => Value::Array(items.into_iter().map(|item| of_value(item, visible)).collect()),
        Value::String(text) if !is_code(&text) => MASK.into(),
        Value::String(_) | Value::Number(_) | Value::Bool(_) | Value::Null => value,
    }
}

/// A status, an id, an amount, a time: nothing that people write to each other.
fn is_code(text: &str) -> bool {
    text.len() <= MAX_CODE_CHARS
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':' | b'+'))
}
