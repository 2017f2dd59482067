//! From an outbox row to the message that carries it.

use std::collections::BTreeMap;

use handover_domain::{AggregateType, Envelope, EventType};
use serde_json::Value;

use crate::App;
use crate::ports::{Message, OutboxRow, Outgoing};
use crate::topology::timeout_delay_key;

/// The header of a message that has the W3C trace of its event.
pub(crate) const TRACEPARENT: &str = "traceparent";

/// The envelope of a row; the error says why it has none.
pub fn envelope_of(row: &OutboxRow) -> Result<Envelope, String> {
    let payload: Value =
        serde_json::from_str(&row.payload).map_err(|error| format!("the payload is not JSON: {error}"))?;
    if !payload.is_object() {
        return Err("the payload is not a JSON object".to_owned());
    }
    Ok(Envelope {
        event_id: row.event_id.clone(),
        event_type: row.event_type.clone(),
        aggregate_type: row.aggregate.kind.clone(),
        aggregate_id: row.aggregate.id,
        occurred_at: row.create_time,
        trace_id: row.trace_id().to_owned(),
        payload,
    })
}

/// The message of a row and the key it is routed by now; the error says why it can never be sent: the row is what it is.
pub(super) fn outgoing(app: &App, row: &OutboxRow) -> Result<Outgoing, String> {
    let routing_key = routing_key(app, &row.event_type)?;
    let envelope = envelope_of(row)?;
    is_about_its_aggregate(&envelope)?;
    Ok(Outgoing::new(row.event_id.clone(), routing_key, message_of(row, &envelope)))
}

/// The message of a row for one queue alone, past every binding: a replay.
pub(crate) fn outgoing_to(queue: &str, row: &OutboxRow) -> Result<Outgoing, String> {
    let message = message_of(row, &envelope_of(row)?);
    Ok(Outgoing::to_queue(row.event_id.clone(), queue.to_owned(), message))
}

/// The message that carries a row.
fn message_of(row: &OutboxRow, envelope: &Envelope) -> Message {
    let mut headers = BTreeMap::from([
        ("tenantId".to_owned(), row.aggregate.tenant.to_string()),
        ("aggregateType".to_owned(), row.aggregate.kind.clone()),
        ("aggregateId".to_owned(), row.aggregate.id.to_string()),
    ]);
    if let Some(traceparent) = &row.metadata.traceparent {
        headers.insert(TRACEPARENT.to_owned(), traceparent.clone());
    }
    Message {
        message_id: Some(row.event_id.as_str().to_owned()),
        kind: Some(row.event_type.clone()),
        correlation_id: Some(row.trace_id().to_owned()),
        headers,
        body: envelope.to_json(),
    }
}

/// Whether an event of a type of ours is about an aggregate of that type, and its payload about the same one. No consumer
/// could apply another.
fn is_about_its_aggregate(envelope: &Envelope) -> Result<(), String> {
    let Ok(event_type) = envelope.event_type.parse::<EventType>() else { return Ok(()) };
    let (kind, id) = (&envelope.aggregate_type, envelope.aggregate_id);
    let (wanted, field) = match event_type.aggregate() {
        AggregateType::Order => ("Order", "orderId"),
        AggregateType::Payment => ("Payment", "paymentId"),
        AggregateType::Refund => ("Refund", "refundId"),
        AggregateType::Invoice => ("Invoice", "invoiceId"),
    };
    if kind != wanted {
        return Err(format!("the aggregate_type of {} is {wanted}, not {kind}", envelope.event_type));
    }
    match envelope.payload.get(field).and_then(Value::as_i64) {
        Some(other) if other != id => {
            Err(format!("aggregate_id is {id}, and the payload's {field} is {other}"))
        }
        Some(_) | None => Ok(()),
    }
}

fn routing_key(app: &App, event_type: &str) -> Result<String, String> {
    match event_type.parse::<EventType>() {
        Ok(EventType::OrderTimeout) => Ok(timeout_delay_key(app.rules.pending_timeout)),
        Ok(known) => Ok(known.routing_key().to_owned()),
        Err(_) => app
            .extensions
            .routing_key(event_type)
            .map(str::to_owned)
            .ok_or_else(|| format!("{}: {event_type}", crate::texts::UNSUPPORTED_TYPE)),
    }
}
