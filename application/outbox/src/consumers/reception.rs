//! Reception of events that another outbox published: each becomes a row of this outbox before a consumer applies it.
//!
//! **Invariant:** rows are committed in the order in which their deliveries arrived, and before the deliveries are applied.
//! The order gate reads rows, so from then on a delivery that returns to its queue does not change the order.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

use super::event_processor::EventProcessor;
use super::identity::ParsedDelivery;
use super::outage::{FIRST_PAUSE, LAST_PAUSE, outage};
use super::received_event::received_event;
use crate::outbox::Outbox;
use crate::ports::{ReceivedEvent, StoreError};
use crate::transaction::with_tx;

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
