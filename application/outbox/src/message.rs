//! Builds messages from outbox rows.

use std::collections::BTreeMap;

use handover_events::{Envelope, Json};

use crate::ports::{Message, OutboxRow, Outgoing};
use crate::registry::EventRegistry;
use crate::texts::Texts;

/// Message header with the W3C trace context of the event.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// Message header with the tenant of the event.
pub(crate) const TENANT_ID: &str = "tenantId";

/// Message header with the position of the event within its aggregate.
pub(crate) const AGGREGATE_SEQ: &str = "aggregateSeq";

/// Message header with the id of the request that caused the event.
pub(crate) const REQUEST_ID: &str = "requestId";

/// Envelope of a row. The error says why no envelope can be built from the payload of the row.
pub fn envelope_of(row: &OutboxRow) -> Result<Envelope, String> {
    let payload = Json::parse(&row.payload).map_err(|error| format!("the payload is not JSON: {error}"))?;
    if !payload.is_object() {
        return Err("the payload is not a JSON object".to_owned());
    }
    Ok(Envelope {
        event_id: row.event_id.clone(),
        event_type: row.event_type.clone(),
        aggregate_type: row.aggregate.kind.clone(),
        aggregate_id: row.aggregate.id.clone(),
        occurred_at: row.create_time,
        trace_id: row.trace_id().to_owned(),
        payload,
    })
}

/// Envelope of a row as it leaves the outbox: values outside the set of a closed field are replaced. The payload of an
/// unregistered type is not changed: the process that wrote the row knows the type, and a consumer that knows it would
/// reject a changed payload.
fn published_envelope(registry: &EventRegistry, row: &OutboxRow) -> Result<Envelope, String> {
    let mut envelope = envelope_of(row)?;
    if registry.contains(&row.event_type) {
        registry.close_fields(Some(&row.event_type), &mut envelope.payload);
    }
    Ok(envelope)
}

/// Body of the dead letter of a row. Without an envelope, it is the payload.
pub(crate) fn dead_letter_body(registry: &EventRegistry, row: &OutboxRow) -> String {
    envelope_of(row).map_or_else(
        |_| row.payload.clone(),
        |mut envelope| {
            registry.close_fields(Some(&row.event_type), &mut envelope.payload);
            envelope.to_json()
        },
    )
}

/// Message of a row; `traceparent` returns the trace context of its publish for a routing key, if it is not that of the row.
/// The routing key is that of [`EventRegistry::publishing_key`]. The error says why the row cannot be
/// published. A retry cannot succeed, because neither the content of a row nor the registry of a process changes.
pub(crate) fn outgoing(
    registry: &EventRegistry,
    texts: &Texts,
    row: &OutboxRow,
    traceparent: impl FnOnce(&str) -> Option<String>,
) -> Result<Outgoing, String> {
    let envelope = published_envelope(registry, row)?;
    let routing_key = registry.publishing_key(row, &envelope, texts)?.to_owned();
    let mut message = message_of(row, &envelope);
    if let Some(traceparent) = traceparent(&routing_key) {
        message.headers.insert(TRACEPARENT.to_owned(), traceparent);
    }
    Ok(Outgoing::new(row.event_id.clone(), routing_key, message))
}

/// Message of a row that a replay sends directly to one queue, without the bindings.
pub(crate) fn outgoing_to(
    registry: &EventRegistry,
    queue: &str,
    row: &OutboxRow,
) -> Result<Outgoing, String> {
    let message = message_of(row, &published_envelope(registry, row)?);
    Ok(Outgoing::to_queue(row.event_id.clone(), queue.to_owned(), message))
}

fn message_of(row: &OutboxRow, envelope: &Envelope) -> Message {
    let mut headers = BTreeMap::from([
        (TENANT_ID.to_owned(), row.aggregate.tenant.to_string()),
        ("aggregateType".to_owned(), row.aggregate.kind.clone()),
        ("aggregateId".to_owned(), row.aggregate.id.to_string()),
    ]);
    // A row inserted by SQL has no position.
    if row.aggregate_seq != 0 {
        headers.insert(AGGREGATE_SEQ.to_owned(), row.aggregate_seq.to_string());
    }
    if let Some(traceparent) = &row.metadata.traceparent {
        headers.insert(TRACEPARENT.to_owned(), traceparent.clone());
    }
    if let Some(request_id) = &row.metadata.request_id {
        headers.insert(REQUEST_ID.to_owned(), request_id.clone());
    }
    Message {
        message_id: Some(row.event_id.as_str().to_owned()),
        kind: Some(row.event_type.clone()),
        correlation_id: Some(row.trace_id().to_owned()),
        headers,
        body: envelope.to_json(),
    }
}
