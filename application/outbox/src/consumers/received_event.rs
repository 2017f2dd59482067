//! The event in a message of another outbox, with everything that its row needs.

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, Envelope, TenantId};

use crate::message::{AGGREGATE_SEQ, REQUEST_ID, TENANT_ID, TRACEPARENT};
use crate::outbox::Outbox;
use crate::ports::{EventMetadata, Message, ReceivedEvent};

/// Maximum number of retries if an operator redrives the row of a received event.
const MAX_RETRY_COUNT: u32 = 3;

/// The event of a message of another outbox. The error says why it cannot be received.
pub(super) fn received_event(
    outbox: &Outbox,
    envelope: &Envelope,
    message: &Message,
    now: DateTime<Utc>,
) -> Result<ReceivedEvent, String> {
    let header = |name: &str| message.headers.get(name);
    let Some(position) = header(AGGREGATE_SEQ) else {
        return Err(format!("the header {AGGREGATE_SEQ} is missing, so its place in the order is not known"));
    };
    let invalid = |name: &str, value: &str| format!("the header {name} is {value:?}, which is no number");
    let aggregate_seq = position.parse().map_err(|_| invalid(AGGREGATE_SEQ, position))?;
    let tenant = match header(TENANT_ID) {
        Some(tenant) => tenant.parse().map_err(|_| invalid(TENANT_ID, tenant))?,
        None => TenantId::DEFAULT,
    };
    let aggregate_type = &envelope.aggregate_type;
    if outbox.publishes_about(aggregate_type) {
        return Err(format!(
            "this outbox publishes events about {aggregate_type} itself, and their positions are not those of another outbox"
        ));
    }
    outbox.registry.check(envelope)?;
    Ok(ReceivedEvent {
        event_id: envelope.event_id.clone(),
        event_type: envelope.event_type.clone(),
        aggregate: AggregateRef { tenant, kind: aggregate_type.clone(), id: envelope.aggregate_id.clone() },
        aggregate_seq,
        payload: envelope.payload.to_string(),
        metadata: EventMetadata {
            trace_id: Some(envelope.trace_id.clone()),
            request_id: header(REQUEST_ID).cloned(),
            traceparent: header(TRACEPARENT).cloned(),
            user_id: None,
        },
        occurred_at: envelope.occurred_at,
        received_at: now,
        max_retry_count: MAX_RETRY_COUNT,
        routing_key: outbox.registry.routing_key(&envelope.event_type).map(str::to_owned),
    })
}

/// Why a message of the exchange of another outbox has no row.
pub(super) fn why_not_received(outbox: &Outbox, envelope: &Envelope, message: &Message) -> String {
    let why = match received_event(outbox, envelope, message, outbox.now()) {
        Err(why) => why,
        Ok(_) => {
            "the broker dead-lettered it before it was received, or the database rejected its row".to_owned()
        }
    };
    format!("event {} of another outbox was not received: {why}", envelope.event_id)
}
