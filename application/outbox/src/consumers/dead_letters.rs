//! The dead-letter drainer: moves messages from the dead-letter queue to the dead-letter table. In the same
//! transaction, it marks the event of a message DEAD for the consumer.

use std::num::NonZeroU16;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, TenantId};
use tracing::{debug, error, warn};

use super::Bound;
use super::broker_timeout::broker_timeout;
use super::event_processor::{EventProcessor, ProcessError, next_record};
use super::identity::{Identity, identify};
use super::outage::outage;
use crate::message::{REQUEST_ID, TENANT_ID};
use crate::outbox::Outbox;
use crate::ports::{
    BrokerError, ConsumeRecord, Consumption, DeadLetter, DeadLetterStatus, Delivery, DeliveryTag,
    MAX_DEAD_LETTER_BODY_BYTES, OutboxRow, OutboxUnit, StoreError, Subscription,
};
use crate::settings::ConsumerSettings;
use crate::storable_text::hash;
use crate::transaction::{UnitError, with_tx};

/// Maximum number of unsettled dead letters.
const PREFETCH: NonZeroU16 = NonZeroU16::MIN.saturating_add(19);
const PAUSE: Duration = Duration::from_millis(500);

/// Consume-log record of an event to be retried: due immediately, with no counted attempt.
pub fn retry_record(
    consumer: &str,
    event: &OutboxRow,
    record: Option<&ConsumeRecord>,
    now: DateTime<Utc>,
) -> Consumption {
    let failed = next_record(consumer, event, record, ConsumeStatus::Failed, 0, now);
    Consumption { next_retry_time: Some(now), ..failed }
}

/// Consume-log record for an event that has no record although its effect exists, which proves that the event was
/// applied.
pub fn backfilled_record(consumer: &str, event: &OutboxRow, now: DateTime<Utc>) -> Consumption {
    let applied = next_record(consumer, event, None, ConsumeStatus::Success, 1, now);
    Consumption {
        consume_result: Some("recorded by reconciliation: its effect exists".to_owned()),
        ..applied
    }
}

/// DEAD consume-log record of an event, with the error of its earlier record or, if there is none, `reason`.
pub(crate) fn dead_record(
    consumer: &str,
    event: &OutboxRow,
    record: Option<&ConsumeRecord>,
    reason: &str,
    now: DateTime<Utc>,
) -> Consumption {
    let attempts = record.map_or(0, |record| record.attempts);
    let dead = next_record(consumer, event, record, ConsumeStatus::Dead, attempts, now);
    Consumption { error_message: dead.error_message.or_else(|| Some(reason.to_owned())), ..dead }
}

/// Moves messages from the dead-letter queue to the dead-letter table.
pub struct DeadLetterDrainer {
    outbox: Outbox,
    queue: String,
    processors: Vec<EventProcessor>,
}

impl DeadLetterDrainer {
    /// A drainer for the dead letters of these consumers.
    pub fn new(outbox: Outbox, consumers: &[Bound], settings: &Arc<ConsumerSettings>) -> DeadLetterDrainer {
        let processors =
            consumers.iter().map(|bound| EventProcessor::new(&outbox, bound, settings, i64::MAX)).collect();
        let queue = outbox.topology.dead_letter_queue.clone();
        DeadLetterDrainer { outbox, queue, processors }
    }

    /// Runs until the process stops.
    pub async fn run(self) {
        let this = Arc::new(self);
        let stopping = this.outbox.stopping().clone();
        let mut is_warned = false;
        while !stopping.is_cancelled() {
            match broker_timeout(this.outbox.broker.subscribe(&this.queue, PREFETCH)).await {
                Ok(subscription) => {
                    is_warned = false;
                    this.outbox.outage.reachable();
                    this.drain(subscription.as_ref()).await;
                    let _ = tokio::time::timeout(PAUSE, subscription.close()).await;
                }
                Err(error @ BrokerError::Unreachable(_)) => this.outbox.outage.stops_consumers(&error),
                Err(error) if !is_warned => {
                    warn!(code = "dead-letters.not-subscribed", %error, "[DeadLetters] cannot subscribe; retrying");
                    is_warned = true;
                }
                Err(error) => {
                    debug!(code = "dead-letters.not-subscribed", %error, "[DeadLetters] cannot subscribe")
                }
            }
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = this.outbox.sleep(PAUSE) => {}
            }
        }
    }

    /// Runs until the process stops, the subscription ends, or a message cannot be parked or acked. Messages that are
    /// not acked are redelivered.
    async fn drain(self: &Arc<Self>, subscription: &dyn Subscription) {
        loop {
            let deliveries = tokio::select! {
                biased;
                () = self.outbox.stopping().cancelled() => return,
                next = subscription.next() => match next {
                    Ok(deliveries) => Arc::new(deliveries),
                    Err(error) => return debug!(code = "dead-letters.subscription.ended", %error, "[DeadLetters] subscription ended; subscribing again"),
                },
            };
            let parked = match self.park_all(&deliveries, 0..deliveries.len()).await {
                Ok(()) => deliveries.iter().collect(),
                Err(error) if error.store_error().is_some_and(StoreError::is_outage) => {
                    return warn!(code = "dead-letters.database-outage", %error, "[DeadLetters] {}; {} dead letters remain in the queue", outage(&error), deliveries.len());
                }
                Err(error) => {
                    warn!(code = "dead-letters.batch-failed", %error, "[DeadLetters] batch failed; parking its {} dead letters one by one", deliveries.len());
                    self.park_each(&deliveries).await
                }
            };
            let tags: Vec<DeliveryTag> = parked.iter().map(|delivery| delivery.tag).collect();
            if let Err(error) = broker_timeout(subscription.ack(&tags)).await {
                return warn!(code = "dead-letters.not-settled", %error, "[DeadLetters] cannot ack {} dead letters; they will be redelivered", tags.len());
            }
            if tags.len() < deliveries.len() {
                return;
            }
        }
    }

    /// Parks each delivery in a separate transaction, so that one rejected message does not block the others. Returns
    /// the parked deliveries.
    async fn park_each<'a>(self: &Arc<Self>, deliveries: &'a Arc<Vec<Delivery>>) -> Vec<&'a Delivery> {
        let mut parked = Vec::new();
        for (index, delivery) in deliveries.iter().enumerate() {
            let outcome = match self.park_all(deliveries, index..index + 1).await {
                Err(error) if is_rejection(&error) => self.park_rejected(delivery, &error).await,
                outcome => outcome,
            };
            match outcome {
                Ok(()) => parked.push(delivery),
                Err(error) => {
                    error!(code = "dead-letters.not-parked", %error, eventId = delivery.message.message_id.as_deref(),
                    eventType = delivery.message.kind.as_deref(), traceId = delivery.message.correlation_id.as_deref(),
                    requestId = delivery.message.headers.get(REQUEST_ID).map(String::as_str), queue = self.queue,
                    "[DeadLetters] [ALERT] cannot park a dead letter; it remains in the queue")
                }
            }
        }
        parked
    }

    /// Parks a range of the deliveries in one transaction.
    async fn park_all(
        self: &Arc<Self>,
        deliveries: &Arc<Vec<Delivery>>,
        range: Range<usize>,
    ) -> Result<(), ProcessError> {
        let input = (Arc::clone(self), Arc::clone(deliveries), range);
        let unknown = with_tx(&self.outbox.tx, input, |unit, (this, deliveries, range), _| {
            Box::pin(async move {
                let mut unknown = Vec::new();
                for delivery in deliveries.get(range.clone()).unwrap_or_default() {
                    unknown.extend(this.park(unit.outbox(), delivery).await?);
                }
                Ok::<_, ProcessError>(unknown)
            })
        })
        .await?;
        unknown.iter().for_each(UnknownMessage::log);
        Ok(())
    }

    /// Parks a message that the store rejected: as an unknown message, with the store's error as the reason. If the
    /// store rejects that too, parks it without the body.
    async fn park_rejected(&self, delivery: &Delivery, rejection: &ProcessError) -> Result<(), ProcessError> {
        let why = self.outbox.texts.consume_failed(&format!("the store rejected it: {rejection}"));
        let unknown = unknown_dead_letter(self.died_in(delivery), delivery, why, self.outbox.now());
        let mut outcome = Ok(());
        for most in [MAX_DEAD_LETTER_BODY_BYTES, 0] {
            let dead_letter = unknown.shortened(most);
            let parked = UnknownMessage::of(delivery, &dead_letter);
            outcome = with_tx(&self.outbox.tx, dead_letter, |unit, dead_letter, _| {
                Box::pin(async move { Ok(unit.outbox().park(std::slice::from_ref(dead_letter)).await?) })
            })
            .await;
            match &outcome {
                Ok(()) => {
                    parked.log();
                    break;
                }
                Err(error) if is_rejection(error) => {}
                Err(_) => break,
            }
        }
        outcome
    }

    /// Parks one delivery. For an unknown message, returns the data to be logged after the commit.
    async fn park(
        &self,
        unit: &mut dyn OutboxUnit,
        delivery: &Delivery,
    ) -> Result<Option<UnknownMessage>, ProcessError> {
        let queue = self.died_in(delivery);
        let processor = self.processors.iter().find(|processor| processor.queue() == queue);
        let now = self.outbox.now();
        let reason = match (identify(unit, &self.outbox, queue, &delivery.message).await?, processor) {
            (Identity::Known(event), Some(processor)) => {
                park_event(unit, processor, &event, now).await?;
                return Ok(None);
            }
            // A process of another version has the consumer, and has parked the event.
            (Identity::Known(event), None)
                if unit.dead_letter(queue, event.event_id.as_str()).await?.is_some() =>
            {
                return Ok(None);
            }
            (Identity::Known(_), None) => {
                self.outbox.texts.consume_failed(&format!("no consumer is registered for queue {queue}"))
            }
            // Its consumer has settled the event: an operator has decided about an earlier copy of this message.
            (Identity::Archived(_), _) => return Ok(None),
            (Identity::Unknown(why), _) => why,
        };
        let dead_letter = unknown_dead_letter(queue, delivery, reason, now).storable();
        unit.park(std::slice::from_ref(&dead_letter)).await?;
        Ok(Some(UnknownMessage::of(delivery, &dead_letter)))
    }

    fn died_in<'a>(&'a self, delivery: &'a Delivery) -> &'a str {
        delivery.died_in.as_deref().unwrap_or(&self.queue)
    }
}

/// Whether the store rejected the dead letter: the error is neither an outage nor a concurrent change.
fn is_rejection(error: &ProcessError) -> bool {
    matches!(error.store_error(), Some(StoreError::Corrupt { .. } | StoreError::Backend(_)))
}

fn unknown_dead_letter(queue: &str, delivery: &Delivery, reason: String, now: DateTime<Utc>) -> DeadLetter {
    let message = &delivery.message;
    DeadLetter {
        queue: queue.to_owned(),
        // The key is not the message id, because an event of this outbox may have the same id.
        key: hash(&message.body),
        tenant: message.headers.get(TENANT_ID).and_then(|id| id.parse().ok()).unwrap_or(TenantId::DEFAULT),
        event_type: message.kind.clone(),
        trace_id: message.correlation_id.clone(),
        body: message.body.clone(),
        reason,
        died_at: now,
        status: DeadLetterStatus::Open,
        decided_at: None,
        note: None,
    }
}

/// Log fields of an unknown message, logged after it was parked.
struct UnknownMessage {
    message_id: Option<String>,
    trace_id: Option<String>,
    request_id: Option<String>,
    queue: String,
    key: String,
    reason: String,
}

impl UnknownMessage {
    fn of(delivery: &Delivery, dead_letter: &DeadLetter) -> UnknownMessage {
        UnknownMessage {
            message_id: delivery.message.message_id.clone(),
            trace_id: dead_letter.trace_id.clone(),
            request_id: delivery.message.headers.get(REQUEST_ID).cloned(),
            queue: dead_letter.queue.clone(),
            key: dead_letter.key.clone(),
            reason: dead_letter.reason.clone(),
        }
    }

    fn log(&self) {
        error!(
            code = "dead-letters.message.unknown",
            eventId = self.message_id,
            traceId = self.trace_id,
            requestId = self.request_id,
            queue = self.queue,
            key = self.key,
            reason = self.reason,
            "[DeadLetters] [ALERT] unknown message parked as a dead letter"
        );
    }
}

/// Parks an event of this outbox that arrived in the dead-letter queue.
async fn park_event(
    unit: &mut dyn OutboxUnit,
    processor: &EventProcessor,
    event: &OutboxRow,
    now: DateTime<Utc>,
) -> Result<(), ProcessError> {
    let record = unit.consumption(processor.name(), &event.event_id).await?;
    let dead_letter = unit
        .dead_letter(processor.queue(), event.event_id.as_str())
        .await?
        .map(|dead_letter| dead_letter.status);
    let reason = record
        .as_ref()
        .and_then(|record| record.error_message.clone())
        .unwrap_or_else(|| processor.outbox.texts.consume_failed("the broker dead-lettered it"));
    match (record.as_ref().map(|record| record.status), dead_letter) {
        // The sweep or another delivery has applied the event, so an operator does not have to decide.
        (Some(ConsumeStatus::Success), _) => return Ok(()),
        // The consume-log record and the dead letter were written together; an operator may already have decided.
        (Some(ConsumeStatus::Dead), Some(_)) => return Ok(()),
        (Some(ConsumeStatus::Dead), None) => {}
        // This copy was dead-lettered before the replay. The event is not DEAD in the consume log, so it will be
        // retried.
        (Some(_), Some(DeadLetterStatus::Replaying | DeadLetterStatus::Replayed)) => return Ok(()),
        (Some(ConsumeStatus::Processing | ConsumeStatus::Waiting | ConsumeStatus::Failed) | None, _) => {
            unit.record(&[dead_record(processor.name(), event, record.as_ref(), &reason, now)]).await?;
            // An operator discarded the dead letter: the event is DEAD, and no new decision is needed.
            if dead_letter == Some(DeadLetterStatus::Discarded) {
                return Ok(());
            }
        }
    }
    Ok(unit.park(&[processor.dead_letter(event, &reason, now)]).await?)
}
