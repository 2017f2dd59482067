//! From an outbox row to the message that carries it.

use std::collections::BTreeMap;
use std::time::Duration;

use handover_domain::{Envelope, EventType};
use serde_json::Value;

use crate::ports::{Message, OutboxRow, Outgoing};
use crate::topology::timeout_delay_key;

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

/// The message of a row and the key it is routed by now; the error says why it cannot be sent.
pub(super) fn outgoing(row: &OutboxRow, timeout: Duration) -> Result<Outgoing, String> {
    let event_type: EventType = row
        .event_type
        .parse()
        .map_err(|_| format!("{}: {}", crate::texts::UNSUPPORTED_TYPE, row.event_type))?;
    let envelope = envelope_of(row)?;
    let routing_key = match event_type {
        EventType::OrderTimeout => timeout_delay_key(timeout),
        EventType::OrderCreated
        | EventType::OrderPaid
        | EventType::OrderStatusChanged
        | EventType::OrderCancelled
        | EventType::OrderRefunded
        | EventType::PaymentSucceeded
        | EventType::PaymentFailed
        | EventType::RefundSucceeded
        | EventType::RefundFailed
        | EventType::InvoiceGenerated => event_type.routing_key().to_owned(),
    };
    let mut headers = BTreeMap::from([
        ("tenantId".to_owned(), row.aggregate.tenant.to_string()),
        ("aggregateType".to_owned(), row.aggregate.kind.clone()),
        ("aggregateId".to_owned(), row.aggregate.id.to_string()),
    ]);
    if let Some(traceparent) = &row.metadata.traceparent {
        headers.insert("traceparent".to_owned(), traceparent.clone());
    }
    let message = Message {
        message_id: Some(row.event_id.as_str().to_owned()),
        kind: Some(row.event_type.clone()),
        correlation_id: Some(row.trace_id().to_owned()),
        headers,
        body: envelope.to_json(),
    };
    Ok(Outgoing::new(row.event_id.clone(), routing_key, message))
}
