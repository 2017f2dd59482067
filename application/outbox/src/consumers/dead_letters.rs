//! The dead-letter drainer: moves each dead letter into the table and marks it DEAD for its consumer, in one transaction.

use std::num::NonZeroU16;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::{ConsumeStatus, TenantId};
use tracing::{debug, error, warn};

use super::Bound;
use super::answered::answered;
use super::inbox::{Identity, Inbox, InboxError, following, identify};
use crate::foreign::hash;
use crate::mutants::{Mutant, planted};
use crate::ports::{
    ConsumeRecord, Consumption, DeadLetter, DeadLetterStatus, Delivery, DeliveryTag, MAX_LETTER_BODY_BYTES,
    OutboxRow, OutboxUnit, StoreError, Subscription,
};
use crate::settings::ConsumerSettings;
use crate::{Outbox, UnitError, texts, with_tx};

/// Dead letters taken at a time.
const PREFETCH: NonZeroU16 = NonZeroU16::MIN.saturating_add(19);
const PAUSE: Duration = Duration::from_millis(500);

/// The row of the log of an event that is to be tried anew, at once and with no attempt counted.
pub fn to_be_tried(
    consumer: &str,
    event: &OutboxRow,
    record: Option<&ConsumeRecord>,
    now: DateTime<Utc>,
) -> Consumption {
    let failed = following(consumer, event, record, ConsumeStatus::Failed, 0, now);
    Consumption { next_retry_time: Some(now), ..failed }
}

/// The row of the log of an event that was applied, as its effect shows, and of which the log knows nothing.
pub fn written_down(consumer: &str, event: &OutboxRow, now: DateTime<Utc>) -> Consumption {
    let applied = following(consumer, event, None, ConsumeStatus::Success, 1, now);
    Consumption {
        consume_result: Some("written down by reconciliation: its effect is there".to_owned()),
        ..applied
    }
}

/// The row of the log of an event that is given up, with what the last failure was.
pub(crate) fn given_up(
    consumer: &str,
    event: &OutboxRow,
    record: Option<&ConsumeRecord>,
    reason: &str,
    now: DateTime<Utc>,
) -> Consumption {
    let attempts = record.map_or(0, |record| record.attempts);
    let dead = following(consumer, event, record, ConsumeStatus::Dead, attempts, now);
    Consumption { error_message: dead.error_message.or_else(|| Some(reason.to_owned())), ..dead }
}

/// Drains the dead-letter queue.
pub struct DeadLetterDrainer {
    outbox: Outbox,
    queue: String,
    inboxes: Vec<Inbox>,
}

impl DeadLetterDrainer {
    /// A drainer that knows these consumers by their queues.
    pub fn new(outbox: Outbox, consumers: &[Bound], settings: &Arc<ConsumerSettings>) -> DeadLetterDrainer {
        let inboxes = consumers.iter().map(|bound| Inbox::new(&outbox, bound, settings, i64::MAX)).collect();
        let queue = outbox.topology.dead_letter_queue.clone();
        DeadLetterDrainer { outbox, queue, inboxes }
    }

    /// Drains until the process stops.
    pub async fn run(self) {
        let this = Arc::new(self);
        let stopping = this.outbox.tx.tasks.stopping().clone();
        let mut told = false;
        while !stopping.is_cancelled() {
            match answered(this.outbox.broker.subscribe(&this.queue, PREFETCH)).await {
                Ok(subscription) => {
                    told = false;
                    this.drain(subscription.as_ref()).await;
                    let _ = tokio::time::timeout(PAUSE, subscription.close()).await;
                }
                Err(error) if !told => {
                    warn!(%error, "[DeadLetters] cannot subscribe; going on to try");
                    told = true;
                }
                Err(error) => debug!(%error, "[DeadLetters] cannot subscribe"),
            }
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = this.outbox.tx.clock.sleep(PAUSE) => {}
            }
        }
    }

    /// Until the subscription ends or the store fails; what is not acked comes again.
    async fn drain(self: &Arc<Self>, subscription: &dyn Subscription) {
        loop {
            let deliveries = tokio::select! {
                biased;
                () = self.outbox.tx.tasks.stopping().cancelled() => return,
                next = subscription.next() => match next {
                    Ok(deliveries) => Arc::new(deliveries),
                    Err(error) => return warn!(%error, "[DeadLetters] the subscription ended"),
                },
            };
            let parked = match self.park_all(&deliveries, 0..deliveries.len()).await {
                Ok(()) => deliveries.iter().collect(),
                Err(error) if error.store_error().is_some_and(StoreError::is_outage) => {
                    return warn!(%error, "[DeadLetters] the store failed; {} dead letters stay queued", deliveries.len());
                }
                Err(error) => {
                    warn!(%error, "[DeadLetters] {} dead letters are parked one by one", deliveries.len());
                    self.park_each(&deliveries).await
                }
            };
            let tags: Vec<DeliveryTag> = parked.iter().map(|delivery| delivery.tag).collect();
            if let Err(error) = answered(subscription.ack(&tags)).await {
                return warn!(%error, "[DeadLetters] {} dead letters were not acked; they come again", tags.len());
            }
            if tags.len() < deliveries.len() {
                return;
            }
        }
    }

    /// Those that could be parked: one that the store refuses keeps no other from it.
    async fn park_each<'a>(self: &Arc<Self>, deliveries: &'a Arc<Vec<Delivery>>) -> Vec<&'a Delivery> {
        let mut parked = Vec::new();
        for (index, delivery) in deliveries.iter().enumerate() {
            let outcome = match self.park_all(deliveries, index..index + 1).await {
                Err(error) if is_refusal(&error) => self.park_refused(delivery, &error).await,
                outcome => outcome,
            };
            match outcome {
                Ok(()) => parked.push(delivery),
                Err(error) => error!(%error, eventId = delivery.message.message_id.as_deref(),
                    traceId = delivery.message.correlation_id.as_deref(),
                    "[DeadLetters] [ALERT] a dead letter cannot be parked; it stays queued"),
            }
        }
        parked
    }

    /// Parks some of the deliveries in one transaction.
    async fn park_all(
        self: &Arc<Self>,
        deliveries: &Arc<Vec<Delivery>>,
        range: Range<usize>,
    ) -> Result<(), InboxError> {
        let (this, deliveries) = (Arc::clone(self), Arc::clone(deliveries));
        let foreign = with_tx(&self.outbox.tx, move |unit, _| {
            let (this, deliveries, range) = (Arc::clone(&this), Arc::clone(&deliveries), range.clone());
            Box::pin(async move {
                let mut foreign = Vec::new();
                for delivery in deliveries.get(range).unwrap_or_default() {
                    foreign.extend(this.park(unit.outbox(), delivery).await?);
                }
                Ok::<_, InboxError>(foreign)
            })
        })
        .await?;
        foreign.iter().for_each(Foreign::log);
        Ok(())
    }

    /// Parks a message that the store refuses to park as what it is: as one that is no event of ours, with the store's
    /// reason; without its body, should that be refused too.
    async fn park_refused(&self, delivery: &Delivery, refusal: &InboxError) -> Result<(), InboxError> {
        let why = format!("{}: the store refused to park it: {refusal}", texts::CONSUME_FAILED);
        let foreign = foreign_letter(self.died_in(delivery), delivery, why, self.outbox.now());
        let mut outcome = Ok(());
        for most in [MAX_LETTER_BODY_BYTES, 0] {
            let letter = Arc::new(foreign.shortened(most));
            let parked = Foreign::of(delivery, &letter);
            outcome = with_tx(&self.outbox.tx, move |unit, _| {
                let letter = Arc::clone(&letter);
                Box::pin(async move { Ok(unit.outbox().park(std::slice::from_ref(letter.as_ref())).await?) })
            })
            .await;
            match &outcome {
                Ok(()) => {
                    parked.log();
                    break;
                }
                Err(error) if is_refusal(error) => {}
                Err(_) => break,
            }
        }
        outcome
    }

    /// Parks one delivery. Returns the letter of a message that is no event of ours, to be logged after the commit.
    async fn park(
        &self,
        unit: &mut dyn OutboxUnit,
        delivery: &Delivery,
    ) -> Result<Option<Foreign>, InboxError> {
        if planted(Mutant::DrainerForgets) {
            return Ok(None);
        }
        let queue = self.died_in(delivery);
        let inbox = self.inboxes.iter().find(|inbox| inbox.queue() == queue);
        let now = self.outbox.now();
        let reason = match (identify(unit, &self.outbox.registry, &delivery.message).await?, inbox) {
            (Identity::Genuine(event), Some(inbox)) => {
                park_event(unit, inbox, &event, now).await?;
                return Ok(None);
            }
            (Identity::Genuine(_), None) => {
                format!("{}: no consumer works on {queue}", texts::CONSUME_FAILED)
            }
            (Identity::Foreign(why), _) => why,
        };
        let letter = foreign_letter(queue, delivery, reason, now).storable();
        unit.park(std::slice::from_ref(&letter)).await?;
        Ok(Some(Foreign::of(delivery, &letter)))
    }

    fn died_in<'a>(&'a self, delivery: &'a Delivery) -> &'a str {
        delivery.died_in.as_deref().unwrap_or(&self.queue)
    }
}

/// Whether the store refuses this very letter: neither an outage nor somebody else's change.
fn is_refusal(error: &InboxError) -> bool {
    matches!(error.store_error(), Some(StoreError::Corrupt { .. } | StoreError::Backend(_)))
}

/// The letter of a message that is no event of ours.
fn foreign_letter(queue: &str, delivery: &Delivery, reason: String, now: DateTime<Utc>) -> DeadLetter {
    let message = &delivery.message;
    DeadLetter {
        queue: queue.to_owned(),
        // Not under its message id: an event of ours may rightly have that.
        key: hash(&message.body),
        tenant: message.headers.get("tenantId").and_then(|id| id.parse().ok()).unwrap_or(TenantId::DEFAULT),
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

/// What the log says of a message that is no event of ours, once that is parked.
struct Foreign {
    message_id: Option<String>,
    trace_id: Option<String>,
    queue: String,
    key: String,
    reason: String,
}

impl Foreign {
    fn of(delivery: &Delivery, letter: &DeadLetter) -> Foreign {
        Foreign {
            message_id: delivery.message.message_id.clone(),
            trace_id: letter.trace_id.clone(),
            queue: letter.queue.clone(),
            key: letter.key.clone(),
            reason: letter.reason.clone(),
        }
    }

    fn log(&self) {
        error!(
            eventId = self.message_id,
            traceId = self.trace_id,
            queue = self.queue,
            key = self.key,
            reason = self.reason,
            "[DeadLetters] [ALERT] a message that is no event of ours is parked"
        );
    }
}

/// Parks an event of ours that came out of the dead-letter queue of its consumer.
async fn park_event(
    unit: &mut dyn OutboxUnit,
    inbox: &Inbox,
    event: &OutboxRow,
    now: DateTime<Utc>,
) -> Result<(), InboxError> {
    let record = unit.consumption(inbox.name(), &event.event_id).await?;
    let letter = unit.dead_letter(inbox.queue(), event.event_id.as_str()).await?.map(|letter| letter.status);
    let reason = record
        .as_ref()
        .and_then(|record| record.error_message.clone())
        .unwrap_or_else(|| format!("{}: the broker dead-lettered it", texts::CONSUME_FAILED));
    match (record.as_ref().map(|record| record.status), letter) {
        // Applied all the same, by the sweep or another delivery: there is nothing to decide.
        (Some(ConsumeStatus::Success), _) => return Ok(()),
        // The log and the letter were written together when it died; a person may have decided since.
        (Some(ConsumeStatus::Dead), Some(_)) => return Ok(()),
        (Some(ConsumeStatus::Dead), None) => {}
        // A copy from before it was replayed: the log has it to be tried.
        (Some(_), Some(DeadLetterStatus::Replaying | DeadLetterStatus::Replayed)) => return Ok(()),
        (Some(ConsumeStatus::Processing | ConsumeStatus::Waiting | ConsumeStatus::Failed) | None, _) => {
            unit.record(&[given_up(inbox.name(), event, record.as_ref(), &reason, now)]).await?;
            // A person gave it up: it is dead, and there is nothing to decide again.
            if letter == Some(DeadLetterStatus::Discarded) {
                return Ok(());
            }
        }
    }
    Ok(unit.park(&[inbox.dead_letter(event, &reason, now)]).await?)
}
