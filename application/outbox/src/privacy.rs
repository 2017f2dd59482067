//! Masks payloads for operators without access to personal data: only fields that event types declare as visible are
//! shown.
//!
//! **Invariant:** a field that no type declares as visible and that is not a field of the envelope is masked, and so is
//! a text that is not a code or a time.

use std::collections::BTreeSet;

use handover_events::Json;

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
    match Json::parse(json) {
        Ok(object @ Json::Object(_)) => masked_value(object, visible).to_string(),
        // A text that is not a JSON object was not written by this application. Its content is unknown, so it is masked
        // completely.
        Ok(_) | Err(_) => Json::from(MASK).to_string(),
    }
}

fn masked_value(value: Json, visible: &BTreeSet<&str>) -> Json {
    match value {
        Json::Object(fields) => {
            let is_visible = |name: &str| ENVELOPE.contains(&name) || visible.contains(name);
            let field = |(name, value): (String, Json)| {
                let value = if is_visible(&name) { masked_value(value, visible) } else { MASK.into() };
                // A field name that is not a code can contain personal data, so it is masked.
                (if is_code(&name) { name } else { MASK.to_owned() }, value)
            };
            Json::object(fields.into_iter().map(field).collect())
        }
        Json::Array(items) => {
            Json::Array(items.into_iter().map(|item| masked_value(item, visible)).collect())
        }
        Json::String(text) if !is_code(&text) => MASK.into(),
        Json::String(_) | Json::Number(_) | Json::Bool(_) | Json::Null => value,
    }
}

/// Whether the text looks like a status, id, amount or time, not like free text.
fn is_code(text: &str) -> bool {
    text.len() <= MAX_CODE_CHARS
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':' | b'+'))
}
