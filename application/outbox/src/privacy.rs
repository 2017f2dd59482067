//! Masks payloads: in answers to operators without access to personal data, and in stored rows when the data of a person are
//! erased. Only fields that event types declare as visible remain.
//!
//! **Invariant:** a field that no type declares as visible and that is not a field of the envelope is masked, and so is
//! a text that is not a code or a time. An erasure also leaves the fields that event types declare as kept.

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

/// Masks a payload or an envelope for a reader without access to personal data.
pub(crate) fn masked_json(registry: &EventRegistry, json: &str) -> String {
    let fields = Fields { visible: registry.visible(), kept: BTreeSet::new() };
    fields.masked(json).to_string()
}

/// Masks a stored payload or message for good. A text in which nothing is masked stays as it is.
pub(crate) fn erased_json(registry: &EventRegistry, event_type: Option<&str>, json: &str) -> String {
    let fields = Fields { visible: registry.visible(), kept: registry.kept() };
    let closed = registry.with_closed_fields(event_type, json);
    let erased = fields.masked(&closed);
    if Json::parse(json).is_ok_and(|stored| stored == erased) { json.to_owned() } else { erased.to_string() }
}

/// The fields that are not masked, by name at any depth.
struct Fields<'r> {
    /// Their codes, numbers and times are not masked.
    visible: BTreeSet<&'r str>,
    /// Their whole value is not masked.
    kept: BTreeSet<&'r str>,
}

impl Fields<'_> {
    fn masked(&self, json: &str) -> Json {
        match Json::parse(json) {
            Ok(object @ Json::Object(_)) => self.value(object),
            // A text that is not a JSON object was not written by this application. Its content is unknown, so it is masked
            // completely.
            Ok(_) | Err(_) => Json::from(MASK),
        }
    }

    fn value(&self, value: Json) -> Json {
        match value {
            Json::Object(fields) => {
                let field = |(name, value): (String, Json)| {
                    let value = if self.kept.contains(name.as_str()) {
                        value
                    } else if ENVELOPE.contains(&name.as_str()) || self.visible.contains(name.as_str()) {
                        self.value(value)
                    } else {
                        MASK.into()
                    };
                    // A field name that is not a code can contain personal data, so it is masked.
                    (if is_code(&name) { name } else { MASK.to_owned() }, value)
                };
                Json::object(fields.into_iter().map(field).collect())
            }
            Json::Array(items) => Json::Array(items.into_iter().map(|item| self.value(item)).collect()),
            Json::String(text) if !is_code(&text) => MASK.into(),
            Json::String(_) | Json::Number(_) | Json::Bool(_) | Json::Null => value,
        }
    }
}

/// Whether the text looks like a status, id, amount or time, not like free text.
fn is_code(text: &str) -> bool {
    text.len() <= MAX_CODE_CHARS
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b':' | b'+'))
}
