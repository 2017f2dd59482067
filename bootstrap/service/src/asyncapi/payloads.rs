//! JSON Schemas of envelope and payloads.

use marketplace_domain::EventKind;
use serde_json::{Map, Value, json};

use super::event_types::emitted;

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
            "aggregateId": { "type": "integer", "description": "The id of the aggregate." },
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
pub(super) fn enveloped(event_type: EventKind) -> Value {
    json!({
        "allOf": [{ "$ref": "#/components/schemas/Envelope" }],
        "properties": {
            "eventType": { "const": event_type.as_str() },
            "aggregateType": { "const": event_type.aggregate() },
            "payload": { "$ref": format!("#/components/schemas/{}", schema_name(event_type)) },
        },
    })
}

/// Name of a payload's schema.
pub(super) fn schema_name(event_type: EventKind) -> String {
    format!("{}_PAYLOAD", event_type.as_str())
}

/// All schemas that messages refer to.
pub(super) fn schemas() -> Map<String, Value> {
    let payloads = emitted().map(|event_type| (schema_name(event_type), event_type.description().schema()));
    std::iter::once(("Envelope".to_owned(), envelope())).chain(payloads).collect()
}
