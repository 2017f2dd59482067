//! JSON Schemas of envelope and payloads.

use handover_events::EventDescription;
use serde_json::{Map, Value, json};

use marketplace::event_types::descriptions;

/// Schema of the envelope, with any payload.
pub(super) fn envelope() -> Value {
    json!({
        "type": "object",
        "description": "The envelope of every message; names, nesting and order of its fields are frozen.",
        "required": ["eventId", "eventType", "aggregateType", "aggregateId", "occurredAt", "traceId", "payload"],
        "properties": {
            "eventId": {
                "type": "string", "pattern": "^[!-~]{1,64}$",
                "description": "Globally unique; the idempotency key. The service generates UUIDs of version 7.",
            },
            "eventType": { "type": "string" },
            "aggregateType": { "type": "string", "description": "Type of the aggregate that changed." },
            "aggregateId": { "type": ["integer", "string"], "description": "The id of the aggregate." },
            "occurredAt": { "type": "string", "format": "date-time", "description": "Time of the change, in UTC." },
            "traceId": {
                "type": "string",
                "description": "The trace of the request that caused the change.",
            },
            "payload": { "type": "object" },
        },
    })
}

/// Schema of the envelope with the payload of one event type.
pub(super) fn enveloped(event_type: &EventDescription) -> Value {
    json!({
        "allOf": [{ "$ref": "#/components/schemas/Envelope" }],
        "properties": {
            "eventType": { "const": event_type.name },
            "aggregateType": { "const": event_type.aggregate },
            "aggregateId": { "type": type_of_key(event_type) },
            "payload": { "$ref": format!("#/components/schemas/{}", schema_name(event_type)) },
        },
    })
}

/// JSON type of the aggregate's id: that of the payload field with the id. A payload of several forms has it in its first one
/// or is about an integer id.
fn type_of_key(event_type: &EventDescription) -> Value {
    let schema = event_type.schema();
    let pointer = format!("/properties/{}/type", event_type.key_field);
    schema.pointer(&pointer).cloned().unwrap_or_else(|| "integer".into())
}

/// Name of a payload's schema.
pub(super) fn schema_name(event_type: &EventDescription) -> String {
    format!("{}_PAYLOAD", event_type.name)
}

/// All schemas that messages refer to.
pub(super) fn schemas() -> Map<String, Value> {
    let payloads =
        descriptions().into_iter().map(|event_type| (schema_name(&event_type), event_type.schema()));
    std::iter::once(("Envelope".to_owned(), envelope())).chain(payloads).collect()
}
