//! A broker with faults: lost and duplicated messages, lost confirms, closed channels.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use handover_outbox::ports::{
    Broker, BrokerError, Delivery, DeliveryTag, Outgoing, PublishOutcome, QueueDepth, Requeue, Route,
    Subscription,
};
use handover_outbox::topology::Topology;
use marketplace::consumers::TIMEOUT_QUEUE;
use marketplace::ports::MarketStore;
use marketplace::queues::DEAD_LETTER_QUEUE;

use super::Process;
use crate::fault_kinds::{CrashPoint, Fault};

/// A broker that injects the faults of the run.
#[derive(Clone)]
pub(crate) struct FaultyBroker {
    pub(crate) inner: Arc<dyn Broker>,
    pub(crate) process: Process,
    /// The store without faults, to read committed data.
    pub(crate) plain: Arc<MarketStore>,
    pub(crate) windows: WindowsInProgress,
}

/// Number of windows that the relay of a process is publishing. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct WindowsInProgress(Arc<AtomicU32>);

impl WindowsInProgress {
    /// Counts a window until the result is dropped, also if its process crashes.
    fn begin(&self) -> Window {
        Window { others: self.0.fetch_add(1, Ordering::Relaxed), windows: self.clone() }
    }
}

struct Window {
    /// Number of windows that were in progress when this one began.
    others: u32,
    windows: WindowsInProgress,
}

impl Drop for Window {
    fn drop(&mut self) {
        self.windows.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A copy of a message to publish; `Outgoing` is not `Clone`.
pub(super) fn copy(outgoing: &Outgoing) -> Outgoing {
    let (event, message) = (outgoing.event_id().clone(), outgoing.message().clone());
    let copy = match outgoing.route().clone() {
        Route::Topic(key) => Outgoing::new(event, key, message),
        Route::Queue(queue) => Outgoing::to_queue(event, queue, message),
    };
    copy.excluding(outgoing.excluded().clone())
}

impl FaultyBroker {
    fn occurs(&self, fault: Fault) -> bool {
        self.process.faults.occurs(fault)
    }

    #[allow(clippy::disallowed_methods, reason = "the simulated broker creates the confirms")]
    async fn publish_one(&self, outgoing: Outgoing) -> Result<PublishOutcome, BrokerError> {
        let faults = &self.process.faults;
        if faults.is_unroutable() {
            return Ok(outgoing.returned("NO_ROUTE"));
        }
        if self.occurs(Fault::Nacked) {
            return Ok(outgoing.nacked("the disk is full"));
        }
        if self.occurs(Fault::PublishLost) {
            return Ok(outgoing.unknown("the connection was lost before the confirm"));
        }
        if self.occurs(Fault::ConfirmLost) {
            self.inner.publish(vec![copy(&outgoing)]).await?;
            return Ok(outgoing.unknown("the connection was lost before the confirm"));
        }
        if self.occurs(Fault::LateAfterTimeout) {
            self.send_late(&outgoing, 2_000..20_000);
            return Ok(outgoing.unknown("no confirm in time"));
        }
        if self.occurs(Fault::LostAfterConfirm) {
            faults.observed(|observed| observed.confirmed.insert(outgoing.event_id().clone()));
            return Ok(outgoing.confirmed());
        }
        if self.occurs(Fault::LateAfterConfirm) {
            self.send_late(&outgoing, 10..4_000);
            faults.observed(|observed| observed.confirmed.insert(outgoing.event_id().clone()));
            return Ok(outgoing.confirmed());
        }
        if self.occurs(Fault::Duplicated) {
            self.send(copy(&outgoing)).await?;
        }
        self.forge(&outgoing).await?;
        self.send(outgoing).await
    }

    /// Publishes forged messages: a copy of a delayed message too early, or a message with another body.
    async fn forge(&self, outgoing: &Outgoing) -> Result<(), BrokerError> {
        let (event, mut message) = (outgoing.event_id().clone(), outgoing.message().clone());
        let Route::Topic(key) = outgoing.route().clone() else { return Ok(()) };
        if key.starts_with("order.timeout.delay") {
            if self.occurs(Fault::Early) {
                self.inner
                    .publish(vec![Outgoing::to_queue(event, TIMEOUT_QUEUE.to_owned(), message)])
                    .await?;
            }
        } else if self.occurs(Fault::Corrupted) {
            message.body = message.body.replacen("\"payload\":{", "\"payload\":{\"forged\":1,", 1);
            let body = message.body.clone();
            let outcomes = self.inner.publish(vec![Outgoing::new(event, key, message)]).await?;
            if matches!(outcomes.as_slice(), [PublishOutcome::Confirmed(_)]) {
                self.process.faults.observed(|observed| observed.foreign_bodies.push(body));
            }
        }
        Ok(())
    }

    async fn send(&self, outgoing: Outgoing) -> Result<PublishOutcome, BrokerError> {
        let mut outcomes = self.inner.publish(vec![outgoing]).await?;
        let outcome = outcomes.pop().ok_or_else(|| BrokerError::Unreachable("no response".into()))?;
        if let PublishOutcome::Confirmed(confirmed) = &outcome {
            self.process.faults.observed(|observed| observed.confirmed.insert(confirmed.event_id().clone()));
        }
        Ok(outcome)
    }

    /// Publishes the message later, even if the publisher has crashed meanwhile.
    #[allow(clippy::disallowed_methods, reason = "the task does not belong to a simulated process")]
    fn send_late(&self, outgoing: &Outgoing, wait: std::ops::Range<u64>) {
        let (inner, late) = (Arc::clone(&self.inner), copy(outgoing));
        let (faults, wait) = (self.process.faults.clone(), self.process.faults.random.millis(wait));
        tokio::spawn(async move {
            faults.sleep(wait).await;
            let _ = inner.publish(vec![late]).await;
        });
    }

    /// A refused event must not be published again before its backoff ends. This is not checked if clocks may be wrong.
    fn check_backoff(&self, window: &[Outgoing]) {
        let faults = &self.process.faults;
        if [Fault::Skew, Fault::Step, Fault::Freeze].into_iter().any(|fault| faults.has(fault)) {
            return;
        }
        for outgoing in window.iter().filter(|outgoing| matches!(outgoing.route(), Route::Topic(_))) {
            let event = outgoing.event_id();
            if let Some(left) = faults.observed(|observed| observed.remaining_backoff(event)) {
                faults
                    .violation(format!("{event} was published again {left:?} before the end of its backoff"));
            }
        }
    }

    fn record_outcome(&self, outcome: &PublishOutcome, route: &Route) {
        self.process.faults.observed(|observed| match (outcome, route) {
            // A refused replay causes no backoff of the event: its dead letter stays open.
            (PublishOutcome::Returned { .. } | PublishOutcome::Nacked { .. }, Route::Topic(_)) => {
                observed.record_refusal(outcome.event_id())
            }
            (PublishOutcome::Confirmed(confirmed), Route::Queue(queue)) => {
                observed.replayed.insert((queue.clone(), confirmed.event_id().clone()));
            }
            _ => {}
        });
        self.process.note(|| {
            let to = match route {
                Route::Topic(key) => format!("as {key}"),
                Route::Queue(queue) => format!("to {queue}"),
            };
            let end = match outcome {
                PublishOutcome::Confirmed(_) => "confirmed".to_owned(),
                PublishOutcome::Returned { reason, .. } => format!("returned: {reason}"),
                PublishOutcome::Nacked { reason, .. } => format!("nacked: {reason}"),
                PublishOutcome::Unknown { reason, .. } => format!("unknown: {reason}"),
            };
            format!("publishes {} {to}: {end}", outcome.event_id())
        });
    }
}

#[async_trait]
impl Broker for FaultyBroker {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        self.process.faults.delay().await;
        self.inner.declare(topology).await
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        self.check_backoff(&window);
        let is_of_relay = window.iter().any(|outgoing| matches!(outgoing.route(), Route::Topic(_)));
        let in_progress = is_of_relay.then(|| self.windows.begin());
        if in_progress.as_ref().is_some_and(|window| window.others > 0) {
            self.process.faults.cover(|coverage| coverage.situation("two windows of a relay in flight"));
        }
        self.process.faults.delay().await;
        if self.occurs(Fault::WindowRefused) {
            if let [single] = window.as_slice()
                && matches!(single.route(), Route::Topic(_))
            {
                self.process.faults.observed(|observed| observed.record_refusal(single.event_id()));
            }
            return Err(BrokerError::Refused { what: "a message of the window".into() });
        }
        let mut outcomes = Vec::with_capacity(window.len());
        let mut replay = false;
        for outgoing in window {
            let route = outgoing.route().clone();
            replay |= matches!(route, Route::Queue(_));
            let outcome = self.publish_one(outgoing).await?;
            self.record_outcome(&outcome, &route);
            outcomes.push(outcome);
        }
        let point =
            if replay { CrashPoint::InReplayAfterSending } else { CrashPoint::AfterPublishBeforeConfirm };
        self.process.maybe_crash(point).await;
        self.process.faults.delay().await;
        Ok(outcomes)
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        self.process.faults.delay().await;
        let inner = self.inner.subscribe(queue, prefetch).await?;
        let broker = self.clone();
        Ok(Box::new(FaultySubscription {
            inner,
            queue: queue.to_owned(),
            broker,
            unsettled: Mutex::default(),
            arriving: tokio::sync::Mutex::default(),
        }))
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        self.process.faults.needs_connection("the depths of the queues");
        self.inner.queues().await
    }

    async fn has_messages(&self, queue: &str) -> Result<bool, BrokerError> {
        self.process.faults.needs_connection("the messages of a queue");
        self.inner.has_messages(queue).await
    }

    async fn blocked(&self) -> Option<String> {
        self.inner.blocked().await
    }
}

struct FaultySubscription {
    inner: Box<dyn Subscription>,
    queue: String,
    broker: FaultyBroker,
    unsettled: Mutex<BTreeMap<DeliveryTag, Delivery>>,
    /// Deliveries that were received, but not returned yet.
    arriving: tokio::sync::Mutex<Vec<Delivery>>,
}

impl FaultySubscription {
    async fn close_channel(&self) -> BrokerError {
        let _ = self.inner.close().await;
        BrokerError::Closed { queue: self.queue.clone() }
    }

    /// Makes an ack or nack fail: closes the channel, or only loses the response.
    async fn fail_settlement(&self) -> BrokerError {
        if self.broker.process.faults.random.permille(500) {
            return self.close_channel().await;
        }
        BrokerError::Unreachable("no response in time".into())
    }

    fn of(&self, tags: &[DeliveryTag]) -> Vec<Delivery> {
        let unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
        tags.iter().filter_map(|tag| unsettled.get(tag).cloned()).collect()
    }

    /// A delivery may be acknowledged only after its consume-log record is committed; a message without an event id
    /// must be dead-lettered instead.
    async fn check_acked(&self, tags: &[DeliveryTag]) {
        let Ok(mut view) = self.broker.plain.view().await else { return };
        let faults = &self.broker.process.faults;
        for delivery in self.of(tags) {
            let id = delivery.message.message_id.clone().unwrap_or_default();
            let Some(subscribed) = self.broker.process.consumers.get(self.queue.as_str()) else { continue };
            let consumer = &subscribed.consumer;
            let Ok(event) = id.parse() else {
                faults.violation(format!("{consumer} acknowledged a message without an event id"));
                continue;
            };
            if !matches!(view.outbox_view().consumption(consumer, &event).await, Ok(None)) {
                continue;
            }
            // The records of an archived event are in the archive.
            let archived = view.outbox_view().archived_by_event(std::slice::from_ref(&event)).await;
            if archived.is_ok_and(|archived| !archived.is_empty()) {
                faults.cover(|coverage| coverage.situation("message of an archived event"));
            } else if matches!(view.outbox_view().consumption(consumer, &event).await, Ok(None)) {
                // The event was not restored between the reads.
                faults.violation(format!("{consumer} acknowledged {id} before its record was committed"));
            }
        }
    }

    fn maybe_reorder(&self, deliveries: &mut [Delivery]) {
        let faults = &self.broker.process.faults;
        if deliveries.len() > 1 && faults.occurs(Fault::Reordered) {
            for left in (1..deliveries.len()).rev() {
                deliveries.swap(left, faults.random.index(left + 1));
            }
        }
    }
}

#[async_trait]
impl Subscription for FaultySubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        let process = &self.broker.process;
        if process.faults.occurs(Fault::ChannelClosed) {
            return Err(self.close_channel().await);
        }
        // A call that is cancelled during the delay loses nothing: the next one returns these deliveries.
        let mut arriving = self.arriving.lock().await;
        if arriving.is_empty() {
            let mut deliveries = self.inner.next().await?;
            self.maybe_reorder(&mut deliveries);
            process.note(|| {
                let ids = deliveries
                    .iter()
                    .map(|it| it.message.message_id.as_deref().unwrap_or("a foreign message"));
                format!("{} delivers {}", self.queue, ids.collect::<Vec<_>>().join(" "))
            });
            let mut unsettled = self.unsettled.lock().unwrap_or_else(PoisonError::into_inner);
            unsettled.extend(deliveries.iter().map(|delivery| (delivery.tag, delivery.clone())));
            *arriving = deliveries;
        }
        process.faults.delay().await;
        Ok(std::mem::take(&mut *arriving))
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        let process = &self.broker.process;
        self.check_acked(tags).await;
        let drains = self.queue == DEAD_LETTER_QUEUE;
        let point = if drains { CrashPoint::AfterParkBeforeAck } else { CrashPoint::AfterEffectBeforeAck };
        process.maybe_crash(point).await;
        process.faults.delay().await;
        if process.faults.occurs(Fault::SettlementLost) {
            return Err(self.fail_settlement().await);
        }
        self.inner.ack(tags).await
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        let faults = &self.broker.process.faults;
        faults.delay().await;
        if faults.occurs(Fault::SettlementLost) {
            return Err(self.fail_settlement().await);
        }
        self.inner.nack(tags, requeue).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.inner.close().await
    }
}
