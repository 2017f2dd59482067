//! Reception of events that another outbox published: each becomes a row of this outbox before a consumer applies it.
//!
//! **Invariant:** rows are committed in the order in which their deliveries arrived, and before the deliveries are applied.
//! The order gate reads rows, so from then on a delivery that returns to its queue does not change the order.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, Envelope, TenantId};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::consumer::{FIRST_PAUSE, LAST_PAUSE};
use super::event_processor::EventProcessor;
use super::identity::ParsedDelivery;
use super::outage::outage;
use crate::message::{AGGREGATE_SEQ, REQUEST_ID, TENANT_ID, TRACEPARENT};
use crate::outbox::Outbox;
use crate::ports::{EventMetadata, Message, ReceivedEvent, StoreError};
use crate::transaction::with_tx;

/// Maximum number of retries if an operator redrives the row of a received event.
const MAX_RETRY_COUNT: u32 = 3;

/// Adds the rows of events of another outbox, until it succeeds: later deliveries wait for them. `false` if the worker is
/// closing; the deliveries then return to the queue.
pub(super) async fn are_received(
    processor: &EventProcessor,
    deliveries: &[ParsedDelivery],
    closing: &CancellationToken,
) -> bool {
    let outbox = &processor.outbox;
    if outbox.receives_from(processor.queue()).is_none() {
        return true;
    }
    let events = received_events(outbox, deliveries);
    let mut pause = FIRST_PAUSE;
    while !closing.is_cancelled() {
        let Err(error) = receive(outbox, &events).await else { return true };
        warn!(code = "consumer.reception-failed", %error, queue = processor.queue(), consumer = processor.name(),
            "[{}] {}; {} events not received, retrying in {pause:?}", processor.name(), outage(&error), events.len());
        tokio::select! {
            biased;
            () = closing.cancelled() => {}
            () = outbox.sleep(pause) => {}
        }
        pause = (pause * 2).min(LAST_PAUSE);
    }
    false
}

/// The events of those of these deliveries that can be received.
fn received_events(outbox: &Outbox, deliveries: &[ParsedDelivery]) -> Arc<[ReceivedEvent]> {
    let now = outbox.now();
    let received = deliveries.iter().filter_map(|parsed| {
        let envelope = parsed.envelope.as_ref()?;
        received_event(outbox, envelope, &parsed.delivery.message, now).ok()
    });
    received.collect()
}

/// The event of a message of another outbox. The error says why it cannot be received.
fn received_event(
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

/// Commits the rows of these events, in this order. A row that the database rejects is left out. After another error,
/// call it again with the same events before any other.
async fn receive(outbox: &Outbox, events: &Arc<[ReceivedEvent]>) -> Result<(), StoreError> {
    match insert(outbox, Arc::clone(events)).await {
        Err(error) if is_rejection(&error) => {
            for event in events.iter() {
                match insert(outbox, Arc::new([event.clone()])).await {
                    Err(error) if is_rejection(&error) => {
                        error!(code = "consumer.event.not-received", %error, eventId = %event.event_id, eventType = %event.event_type,
                            traceId = event.metadata.trace_id, "[Outbox] [ALERT] the database rejected an event of another outbox; it is dead-lettered");
                    }
                    other => other?,
                }
            }
            Ok(())
        }
        other => other,
    }
}

async fn insert(outbox: &Outbox, events: Arc<[ReceivedEvent]>) -> Result<(), StoreError> {
    if events.is_empty() {
        return Ok(());
    }
    with_tx(&outbox.tx, events, |unit, events, _| {
        Box::pin(async move { unit.outbox().receive(events).await })
    })
    .await
}

/// Whether the database will never store the row.
fn is_rejection(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt { .. } | StoreError::Backend(_))
}
