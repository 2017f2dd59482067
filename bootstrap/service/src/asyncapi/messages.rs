//! The messages: the envelope of each event type and its AMQP properties.

use handover_events::EventDescription;
use serde_json::{Map, Value, json};

use super::payloads::enveloped;
use marketplace::event_types::descriptions;

/// One message per emitted event type.
pub(super) fn messages() -> Map<String, Value> {
    descriptions().into_iter().map(|event_type| (event_type.name.to_owned(), message(&event_type))).collect()
}

fn message(event_type: &EventDescription) -> Value {
    json!({
        "name": event_type.name,
        "title": event_type.name,
        "summary": event_type.summary,
        "contentType": "application/json",
        "correlationId": {
            "description": "The trace id; also the property `correlation_id`.",
            "location": "$message.payload#/traceId",
        },
        "headers": headers(),
        "payload": enveloped(event_type),
        "bindings": {
            "amqp": { "messageType": event_type.name, "bindingVersion": "0.3.0" },
        },
        "x-amqp-properties": {
            "message_id": "eventId",
            "type": "eventType",
            "correlation_id": "traceId",
            "content_type": "application/json",
            "delivery_mode": 2,
        },
    })
}

/// The headers of every message; all are strings.
fn headers() -> Value {
    json!({
        "type": "object",
        "required": ["tenantId", "aggregateType", "aggregateId"],
        "properties": {
            "tenantId": { "type": "string", "pattern": "^[0-9]+$", "description": "The marketplace." },
            "aggregateType": { "type": "string", "description": "Same value as in the envelope." },
            "aggregateId": {
                "type": "string",
                "description": "Same value as in the envelope, as text.",
            },
            "aggregateSeq": {
                "type": "string",
                "pattern": "^-?[0-9]+$",
                "description": "Position of the event within its aggregate; absent in an event that was inserted by SQL.",
            },
            "traceparent": {
                "type": "string",
                "pattern": "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$",
                "description": "W3C Trace Context, where the request had one.",
            },
            "requestId": {
                "type": "string",
                "description": "Id of the request, where the event was caused by one.",
            },
        },
    })
}
