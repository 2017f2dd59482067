//! The loop of one consumer: receives deliveries, applies them in groups, and settles the remaining ones in lanes.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesOrdered;
use handover_events::AggregateRef;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument, debug, error, warn};

use super::attempt::Attempts;
use super::bound::Bound;
use super::broker_timeout::broker_timeout;
use super::counted_attempt::CountedAttempt;
use super::event_processor::{EventProcessor, LOCK_WAIT_LIMIT};
use super::group::{GroupOutcome, Groups};
use super::identity::{Identity, ParsedDelivery, identify};
use super::intake::Intake;
use super::lanes::Lanes;
use super::outage::{FIRST_PAUSE, LAST_PAUSE, outage};
use super::outcome::SingleOutcome;
use super::reception::are_received;
use super::single::{CountFirst, SingleEvents};
use super::sweep;
use crate::event_line::{EventFields, event_line};
use crate::message::{REQUEST_ID, TRACEPARENT};
use crate::metrics::DELIVERIES;
use crate::outbox::Outbox;
use crate::ports::{BrokerError, Delivery, DeliveryTag, OutboxRow, Requeue, StoreError, Subscription};
use crate::settings::ConsumerSettings;
use crate::spans::failed;
use crate::supervision::restarting;
use crate::transaction::with_tx;

/// Time during which deliveries are processed one by one after a slow group.
const UNGROUPED_FOR: Duration = Duration::from_secs(10);

/// One consumer in one process.
pub struct Consumer {
    outbox: Outbox,
    bound: Bound,
    settings: Arc<ConsumerSettings>,
}

impl Consumer {
    /// Creates a consumer. Its handler MUST be bound to the store that contains the outbox, because an event and its
    /// effects are committed in one transaction.
    pub fn new(outbox: Outbox, bound: Bound, settings: Arc<ConsumerSettings>) -> Consumer {
        Consumer { outbox, bound, settings }
    }

    /// Consumes until the process stops; then settles the deliveries in progress and returns the others to the queue.
    pub async fn run(self) {
        let Some(processor) = self.processor().await else { return };
        let name = format!("{}, sweep", processor.name());
        let sweeping = restarting(&self.outbox.tx, &name, || sweep::run(processor.clone()));
        tokio::join!(sweeping, self.receive(&processor));
    }

    /// Subscribes again whenever a subscription ends, until the process stops.
    async fn receive(&self, processor: &EventProcessor) {
        let stopping = self.outbox.stopping().clone();
        let mut pause = FIRST_PAUSE;
        while !stopping.is_cancelled() {
            let subscribing = self.outbox.broker.subscribe(&self.bound.queue, processor.settings.prefetch);
            match broker_timeout(subscribing).await {
                Ok(subscription) => {
                    pause = FIRST_PAUSE;
                    self.outbox.outage.reachable();
                    let subscription: Arc<dyn Subscription> = Arc::from(subscription);
                    let error = Worker::new(processor.clone(), Arc::clone(&subscription)).run().await;
                    if let Some(error) = error {
                        debug!(code = "consumer.subscription.ended", %error, queue = &*self.bound.queue, consumer = processor.name(),
                            "[{}] subscription ended; subscribing again", processor.name());
                    }
                    // If `close` fails, dropping the subscription returns the unsettled deliveries to the queue.
                    let _ = tokio::time::timeout(LAST_PAUSE, subscription.close()).await;
                }
                // An outage has one set of lines per process, not one per consumer.
                Err(error @ BrokerError::Unreachable(_)) => self.outbox.outage.stops_consumers(&error),
                Err(error) if pause == FIRST_PAUSE => {
                    warn!(code = "consumer.not-subscribed", %error, queue = &*self.bound.queue, consumer = processor.name(),
                        "[{}] cannot subscribe; retrying", processor.name());
                }
                Err(error) => {
                    debug!(code = "consumer.not-subscribed", %error, queue = &*self.bound.queue, consumer = processor.name(),
                        "[{}] cannot subscribe; retrying", processor.name());
                }
            }
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = self.outbox.sleep(pause) => {}
            }
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Creates the processor with the start position of this consumer. After an error it retries until the process
    /// stops.
    async fn processor(&self) -> Option<EventProcessor> {
        let mut pause = FIRST_PAUSE;
        loop {
            match subscribe(&self.outbox, &self.bound.name).await {
                Ok(after_id) => {
                    return Some(EventProcessor::new(&self.outbox, &self.bound, &self.settings, after_id));
                }
                Err(error) => {
                    warn!(code = "consumer.position-unreadable", %error, "[{}] cannot read the consumer's position; retrying in {pause:?}", self.bound.name)
                }
            }
            tokio::select! {
                biased;
                () = self.outbox.stopping().cancelled() => return None,
                () = self.outbox.sleep(pause) => {}
            }
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
}

/// Subscribes a consumer permanently under its name. Returns the outbox id after which the consumer handles events.
pub(crate) async fn subscribe(outbox: &Outbox, consumer: &str) -> Result<i64, StoreError> {
    let now = outbox.now();
    let subscription = with_tx(&outbox.tx, consumer.to_owned(), move |unit, consumer, _| {
        Box::pin(async move { unit.outbox().subscribe_consumer(consumer, now).await })
    })
    .await?;
    Ok(subscription.after_id)
}

/// Processes the deliveries of one subscription.
#[derive(Clone)]
struct Worker {
    processor: EventProcessor,
    subscription: Arc<dyn Subscription>,
    lanes: Lanes,
    tasks: TaskTracker,
    /// This token is cancelled when the process stops, the subscription ends or a settlement fails: unsettled
    /// deliveries must not be processed further.
    closing: CancellationToken,
}

impl Worker {
    fn new(processor: EventProcessor, subscription: Arc<dyn Subscription>) -> Worker {
        let closing = processor.outbox.stopping().child_token();
        let lanes = Lanes::new(processor.bound.settings.order);
        Worker { processor, subscription, lanes, tasks: TaskTracker::new(), closing }
    }

    /// Runs until the process stops, the subscription ends or a settlement fails; then waits for the deliveries in
    /// progress.
    async fn run(self) -> Option<BrokerError> {
        let mut ungrouped_until = Instant::now();
        let mut intake = Intake::new(&self.processor, self.subscription.as_ref());
        // The groups end in the order in which they began: a broker can then ack the deliveries of each with few frames.
        let mut groups = FuturesOrdered::new();
        let end = loop {
            let deliveries = tokio::select! {
                biased;
                () = self.closing.cancelled() => break None,
                Some(group) = groups.next() => {
                    let is_slow = self.end_group(group).await;
                    if is_slow && !intake.slowed_down() {
                        ungrouped_until = Instant::now() + UNGROUPED_FOR;
                    }
                    intake.end();
                    continue;
                }
                next = intake.next() => match next {
                    Ok(next) => next,
                    Err(error) => break Some(error),
                },
            };
            if !are_received(&self.processor, &deliveries, &self.closing).await {
                break None;
            }
            let fresh = self.lanes.join(deliveries);
            let is_ungrouped = self.processor.bound.external.is_some()
                || self.processor.breaker.is_open()
                || Instant::now() < ungrouped_until;
            let (processor, closing) = (&self.processor, &self.closing);
            groups.push_back(async move {
                if closing.is_cancelled() {
                    // Closing the subscription returns the deliveries to the queue.
                    GroupOutcome::default()
                } else if is_ungrouped {
                    GroupOutcome { single: fresh, ..GroupOutcome::default() }
                } else {
                    Groups::of(processor).apply(fresh).await
                }
            });
        };
        self.closing.cancel();
        while let Some(group) = groups.next().await {
            self.end_group(group).await;
        }
        drop(groups);
        self.tasks.close();
        self.tasks.wait().await;
        end
    }

    /// Acks the deliveries that the group has settled, and opens lanes for the others. Returns whether the group was slow.
    async fn end_group(&self, group: GroupOutcome) -> bool {
        self.settle(&group.done, Settle::Ack).await;
        self.open_lanes(group.single);
        group.is_slow
    }

    /// Opens a lane for each aggregate. The lanes run concurrently.
    fn open_lanes(&self, deliveries: Vec<ParsedDelivery>) {
        for parsed in deliveries {
            let Some(key) = self.lanes.push(parsed) else { continue };
            let worker = self.clone();
            let lane = self.tasks.track_future(async move {
                // A lane that panics ends the subscription: nobody else would take its deliveries.
                let end = worker.closing.clone().drop_guard();
                worker.drain_lane(key).await;
                end.disarm();
            });
            drop(self.processor.outbox.spawn(lane));
        }
    }

    async fn drain_lane(self, key: AggregateRef) {
        while let Some(ParsedDelivery { delivery, .. }) = self.lanes.next(&key) {
            if self.closing.is_cancelled() {
                // The delivery is not processed: closing the subscription returns it to the queue.
                continue;
            }
            self.settle_one(delivery).await;
        }
    }

    /// Settles one delivery. During an outage of the database the delivery stays unsettled and no attempt is counted.
    async fn settle_one(&self, delivery: Delivery) {
        let count = if delivery.redelivered { CountFirst::Yes } else { CountFirst::No };
        let mut pause = FIRST_PAUSE;
        let mut counted = None;
        while !self.closing.is_cancelled() {
            let mut is_paused = false;
            let until = match self.process(&delivery, count, &mut counted).await {
                Ok(SingleOutcome::Done) => return self.settle(&[delivery.tag], Settle::Ack).await,
                Ok(SingleOutcome::Dead) => {
                    return self.settle(&[delivery.tag], Settle::Nack(Requeue::No)).await;
                }
                Ok(SingleOutcome::Failed(until) | SingleOutcome::Busy(until)) if self.is_long(until) => {
                    // The sweep applies the event: unsettled, the delivery would occupy a slot of the prefetch until then.
                    return self.settle(&[delivery.tag], Settle::Ack).await;
                }
                Ok(SingleOutcome::Failed(due)) => {
                    // The lane does not wait for the retry: it records later events of the aggregate as WAITING.
                    return self.requeue_at(delivery.tag, due);
                }
                Ok(SingleOutcome::Busy(until)) => self.until(until),
                Ok(SingleOutcome::Paused(wait)) => {
                    is_paused = true;
                    wait
                }
                Err(error) => {
                    warn!(code = "consumer.database-outage", %error, queue = self.processor.queue(), "[{}] {}; consumption paused, retrying",
                        self.processor.name(), outage(&error));
                    pause = (pause * 2).min(LAST_PAUSE);
                    pause
                }
            };
            tokio::select! {
                biased;
                () = self.closing.cancelled() => {}
                () = self.processor.breaker.closed(), if is_paused => {}
                () = self.processor.outbox.sleep(until) => {}
            }
        }
    }

    async fn process(
        &self,
        delivery: &Delivery,
        count: CountFirst,
        counted: &mut Option<CountedAttempt>,
    ) -> Result<SingleOutcome, StoreError> {
        let outbox = &self.processor.outbox;
        let mut view = outbox.view().await?;
        let queue = self.processor.queue();
        let identity = match identify(view.outbox_view(), outbox, queue, &delivery.message).await {
            // The outbox row stays unreadable until an operator corrects it, so the message is dead-lettered.
            Err(error @ StoreError::Corrupt { .. }) => Identity::Unknown(error.to_string()),
            other => other?,
        };
        drop(view);
        let request_id = delivery.message.headers.get(REQUEST_ID).map(String::as_str);
        match identity {
            Identity::Known(row) => {
                let traceparent = delivery.message.headers.get(TRACEPARENT);
                let published = traceparent.map(|traceparent| (row.event_id.clone(), traceparent.clone()));
                let processor = self.processor.with_published(published.into_iter().collect());
                let span = processor.span(&[(&row.event_id, &row.event_type)]);
                let outcome =
                    self.apply_single(&processor, &row, count, counted).instrument(span.clone()).await;
                match &outcome {
                    Ok(SingleOutcome::Failed(_)) => failed(&span, "retryable"),
                    Ok(SingleOutcome::Dead) => failed(&span, "permanent"),
                    Ok(SingleOutcome::Done | SingleOutcome::Busy(_) | SingleOutcome::Paused(_)) => {}
                    Err(_) => failed(&span, "interrupted"),
                }
                outcome
            }
            Identity::Archived(envelope) => {
                let event = EventFields::of_envelope(&outbox.registry, &envelope, request_id);
                self.processor.log_duplicate(event);
                Ok(SingleOutcome::Done)
            }
            Identity::Unknown(why) => {
                error!(code = "consumer.message.unknown", eventId = delivery.message.message_id.as_deref(), queue = self.processor.queue(),
                    eventType = delivery.message.kind.as_deref(), traceId = delivery.message.correlation_id.as_deref(),
                    requestId = request_id, consumer = self.processor.name(), error = %why, "[{}] [ALERT] unknown message received; it is dead-lettered", self.processor.name());
                Ok(SingleOutcome::Dead)
            }
        }
    }

    /// Applies one event, or leaves it to the sweep if another transaction holds a lock that the event needs: an
    /// unsettled delivery would occupy a slot of the prefetch.
    async fn apply_single(
        &self,
        processor: &EventProcessor,
        row: &OutboxRow,
        count: CountFirst,
        counted: &mut Option<CountedAttempt>,
    ) -> Result<SingleOutcome, StoreError> {
        let event = &row.event_id;
        let started_at = self.processor.outbox.now();
        match SingleEvents::of(processor).apply(event, count, counted).await {
            // An effect outside the database is recorded as soon as possible, so that it is not repeated.
            Err(error) if counted.as_ref().is_some_and(|counted| counted.effect.is_some()) => Err(error),
            Err(StoreError::Transient(error))
                if (self.processor.outbox.now() - started_at)
                    .to_std()
                    .is_ok_and(|elapsed| elapsed >= LOCK_WAIT_LIMIT) =>
            {
                event_line!(WARN, self.processor.fields(row), code = "consumer.event.lock-wait-timed-out", %error,
                    queue = self.processor.queue(), consumer = self.processor.name(),
                    "[{}] lock wait timed out; the sweep applies the event later", self.processor.name());
                Attempts::of(&self.processor).postpone(event, counted.as_ref()).await?;
                Ok(SingleOutcome::Done)
            }
            end => end,
        }
    }

    /// Waits for the backoff outside of the lane, then returns the delivery to the queue. If the worker is
    /// closing, returns the delivery immediately.
    fn requeue_at(&self, tag: DeliveryTag, due: DateTime<Utc>) {
        let worker = self.clone();
        let wait = self.until(due);
        let task = self.tasks.track_future(async move {
            tokio::select! {
                biased;
                () = worker.closing.cancelled() => {}
                () = worker.processor.outbox.sleep(wait) => {}
            }
            worker.settle(&[tag], Settle::Nack(Requeue::Yes)).await;
        });
        drop(self.processor.outbox.spawn(task));
    }

    /// Settles deliveries. A failed settlement ends the subscription: closing it returns the unsettled deliveries to
    /// the queue, and they are redelivered. Without this, they would permanently occupy slots of the prefetch.
    async fn settle(&self, tags: &[DeliveryTag], how: Settle) {
        if tags.is_empty() {
            return;
        }
        let result = match how {
            Settle::Ack => broker_timeout(self.subscription.ack(tags)).await,
            Settle::Nack(requeue) => broker_timeout(self.subscription.nack(tags, requeue)).await,
        };
        match result {
            Ok(()) => self.count(how, tags.len()),
            Err(error) => {
                warn!(code = "consumer.not-settled", %error, queue = self.processor.queue(), "[{}] cannot settle {} deliveries; they will be redelivered", self.processor.name(), tags.len());
                self.closing.cancel();
            }
        }
    }

    fn count(&self, how: Settle, deliveries: usize) {
        let result = match how {
            Settle::Ack => "acked",
            Settle::Nack(Requeue::Yes) => "requeued",
            Settle::Nack(Requeue::No) => "rejected",
        };
        metrics::counter!(DELIVERIES, "consumer" => Arc::clone(&self.processor.bound.name), "result" => result)
            .increment(deliveries as u64);
    }

    /// Whether this moment is so far away that the event can be left to the sweep.
    fn is_long(&self, moment: DateTime<Utc>) -> bool {
        self.until(moment) > self.processor.settings.sweep_interval
    }

    fn until(&self, moment: DateTime<Utc>) -> Duration {
        (moment - self.processor.outbox.now()).to_std().unwrap_or_default().max(Duration::from_millis(1))
    }
}

#[derive(Debug, Clone, Copy)]
enum Settle {
    Ack,
    Nack(Requeue),
}
