//! The broker with everything that brokers do: lost and doubled messages, lost confirms, closed channels.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use handover_outbox::ports::{
    Broker, BrokerError, Delivery, DeliveryTag, Outgoing, PublishOutcome, QueueDepth, Requeue, Route,
    Subscription,
};
use handover_outbox::topology::Topology;
use marketplace::ports::MarketStore;
use marketplace::queues::{DEAD_LETTER_QUEUE, TIMEOUT_QUEUE};

use super::Process;
use crate::faults::{CrashPoint, Fault};

/// A broker whose faults come from the run's dice.
#[derive(Clone)]
pub(crate) struct FaultyBroker {
    pub(crate) inner: Arc<dyn Broker>,
    pub(crate) process: Process,
    /// To see past all faults what is committed.
    pub(crate) plain: Arc<MarketStore>,
}

/// The same message once more.
fn copy(outgoing: &Outgoing) -> Outgoing {
    let (event, message) = (outgoing.event_id().clone(), outgoing.message().clone());
    match outgoing.route().clone() {
        Route::Topic(key) => Outgoing::new(event, key, message),
        Route::Queue(queue) => Outgoing::to_queue(event, queue, message),
    }
}

impl FaultyBroker {
    fn strikes(&self, fault: Fault) -> bool {
        self.process.faults.strikes(fault)
    }

    #[allow(clippy::disallowed_methods, reason = "this is the broker that took the message")]
    async fn publish_one(&self, outgoing: Outgoing) -> Result<PublishOutcome, BrokerError> {
        let faults = &self.process.faults;
        if faults.is_unroutable() {
            return Ok(outgoing.returned("NO_ROUTE"));
        }
        if self.strikes(Fault::Nacked) {
            return Ok(outgoing.nacked("the disk is full"));
        }
        if self.strikes(Fault::PublishLost) {
            return Ok(outgoing.unknown("the connection was lost before the confirm"));
        }
        if self.strikes(Fault::ConfirmLost) {
            self.inner.publish(vec![copy(&outgoing)]).await?;
            return Ok(outgoing.unknown("the connection was lost before the confirm"));
        }
        if self.strikes(Fault::LateAfterGivingUp) {
            self.send_late(&outgoing, 2_000..20_000);
            return Ok(outgoing.unknown("no confirm in time"));
        }
        if self.strikes(Fault::LostAfterConfirm) {
            faults.seen(|seen| seen.confirmed.insert(outgoing.event_id().clone()));
            return Ok(outgoing.confirmed());
        }
        if self.strikes(Fault::LateAfterConfirm) {
            self.send_late(&outgoing, 10..4_000);
            faults.seen(|seen| seen.confirmed.insert(outgoing.event_id().clone()));
            return Ok(outgoing.confirmed());
        }
        if self.strikes(Fault::Doubled) {
            self.send(copy(&outgoing)).await?;
        }
        self.forge(&outgoing).await?;
        self.send(outgoing).await
    }

    /// Messages that nobody of ours sent at this time or with this body.
    async fn forge(&self, outgoing: &Outgoing) -> Result<(), BrokerError> {
        let (event, mut message) = (outgoing.event_id().clone(), outgoing.message().clone());
        let Route::Topic(key) = outgoing.route().clone() else { return Ok(()) };
        if key.starts_with("order.timeout.delay") {
            if self.strikes(Fault::Early) {
                self.inner
                    .publish(vec![Outgoing::to_queue(event, TIMEOUT_QUEUE.to_owned(), message)])
                    .await?;
            }
        } else if self.strikes(Fault::Corrupted) {
            message.body = message.body.replacen("\"payload\":{", "\"payload\":{\"forged\":1,", 1);
            let body = message.body.clone();
            let outcomes = self.inner.publish(vec![Outgoing::new(event, key, message)]).await?;
            if matches!(outcomes.as_slice(), [PublishOutcome::Confirmed(_)]) {
                self.process.faults.seen(|seen| seen.strays.push(body));
            }
        }
        Ok(())
    }

    async fn send(&self, outgoing: Outgoing) -> Result<PublishOutcome, BrokerError> {
        let mut outcomes = self.inner.publish(vec![outgoing]).await?;
        let outcome = outcomes.pop().ok_or_else(|| BrokerError::Unreachable("no answer".into()))?;
        if let PublishOutcome::Confirmed(confirmed) = &outcome {
            self.process.faults.seen(|seen| seen.confirmed.insert(confirmed.event_id().clone()));
        }
        Ok(outcome)
    }

    /// What is on its way arrives also when its publisher is dead.
    #[allow(clippy::disallowed_methods, reason = "it is no task of a process")]
    fn send_late(&self, outgoing: &Outgoing, wait: std::ops::Range<u64>) {
        let (inner, late) = (Arc::clone(&self.inner), copy(outgoing));
        let (faults, wait) = (self.process.faults.clone(), self.process.faults.dice.millis(wait));
        tokio::spawn(async move {
            faults.sleep(wait).await;
            let _ = inner.publish(vec![late]).await;
        });
    }

    /// What was refused is left alone until it is due. Where clocks go wrong, so do deadlines.
    fn check_rests(&self, window: &[Outgoing]) {
        let faults = &self.process.faults;
        if [Fault::Skew, Fault::Step, Fault::Freeze].into_iter().any(|fault| faults.has(fault)) {
            return;
        }
        for outgoing in window.iter().filter(|outgoing| matches!(outgoing.route(), Route::Topic(_))) {
            let event = outgoing.event_id();
            if let Some(left) = faults.seen(|seen| seen.rest_of(event)) {
                faults.violation(format!("{event} was published again {left:?} before its time"));
            }
        }
    }

    fn tell(&self, outcome: &PublishOutcome, route: &Route) {
        self.process.faults.seen(|seen| match (outcome, route) {
            // A replay that is refused costs the event no rest: its letter stays open.
            (PublishOutcome::Returned { .. } | PublishOutcome::Nacked { .. }, Route::Topic(_)) => {
                seen.refuses(outcome.event_id())
            }
            (PublishOutcome::Confirmed(confirmed), Route::Queue(queue)) => {
                seen.sent_back.insert((queue.clone(), confirmed.event_id().clone()));
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
        self.check_rests(&window);
        self.process.faults.delay().await;
        if self.strikes(Fault::WindowRefused) {
            if let [alone] = window.as_slice()
                && matches!(alone.route(), Route::Topic(_))
            {
                self.process.faults.seen(|seen| seen.refuses(alone.event_id()));
            }
            return Err(BrokerError::Refused { what: "a message of the window".into() });
        }
        let mut outcomes = Vec::with_capacity(window.len());
        let mut replay = false;
        for outgoing in window {
            let route = outgoing.route().clone();
            replay |= matches!(route, Route::Queue(_));
            let outcome = self.publish_one(outgoing).await?;
            self.tell(&outcome, &route);
            outcomes.push(outcome);
        }
        let point =
            if replay { CrashPoint::InReplayAfterSending } else { CrashPoint::AfterPublishBeforeConfirm };
        self.process.may_die(point).await;
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
        Ok(Box::new(FaultySubscription { inner, queue: queue.to_owned(), broker, held: Mutex::default() }))
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        self.process.faults.asks_store("the depths of the queues");
        self.inner.queues().await
    }

    async fn blocked(&self) -> Option<String> {
        self.inner.blocked().await
    }
}

struct FaultySubscription {
    inner: Box<dyn Subscription>,
    queue: String,
    broker: FaultyBroker,
    held: Mutex<BTreeMap<DeliveryTag, Delivery>>,
}

impl FaultySubscription {
    async fn cut(&self) -> BrokerError {
        let _ = self.inner.close().await;
        BrokerError::Closed { queue: self.queue.clone() }
    }

    /// A settlement that fails: with the connection, or alone while the subscription lives on.
    async fn unsettled(&self) -> BrokerError {
        if self.broker.process.faults.dice.permille(500) {
            return self.cut().await;
        }
        BrokerError::Unreachable("no answer in time".into())
    }

    fn of(&self, tags: &[DeliveryTag]) -> Vec<Delivery> {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        tags.iter().filter_map(|tag| held.get(tag).cloned()).collect()
    }

    /// Whoever acks must have committed what became of the event, and whoever acks what is no event of ours must have
    /// parked it.
    async fn check_acked(&self, tags: &[DeliveryTag]) {
        let Ok(mut view) = self.broker.plain.view().await else { return };
        let faults = &self.broker.process.faults;
        for delivery in self.of(tags) {
            let id = delivery.message.message_id.clone().unwrap_or_default();
            let Some(consumer) = self.broker.process.consumers.get(self.queue.as_str()) else { continue };
            let Ok(event) = id.parse() else {
                faults.violation(format!("{consumer} acked a stray message as if it were an event"));
                continue;
            };
            if matches!(view.outbox_view().consumption(consumer, &event).await, Ok(None)) {
                faults.violation(format!("{consumer} acked {id} before anything was committed"));
            }
        }
    }

    fn shuffle(&self, deliveries: &mut [Delivery]) {
        let faults = &self.broker.process.faults;
        if deliveries.len() > 1 && faults.strikes(Fault::Reordered) {
            for left in (1..deliveries.len()).rev() {
                deliveries.swap(left, faults.dice.index(left + 1));
            }
        }
    }
}

#[async_trait]
impl Subscription for FaultySubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        let process = &self.broker.process;
        if process.faults.strikes(Fault::ChannelClosed) {
            return Err(self.cut().await);
        }
        let mut deliveries = self.inner.next().await?;
        self.shuffle(&mut deliveries);
        process.note(|| {
            let ids = deliveries.iter().map(|it| it.message.message_id.as_deref().unwrap_or("a stray"));
            format!("{} delivers {}", self.queue, ids.collect::<Vec<_>>().join(" "))
        });
        {
            let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            held.extend(deliveries.iter().map(|delivery| (delivery.tag, delivery.clone())));
        }
        process.faults.delay().await;
        Ok(deliveries)
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        let process = &self.broker.process;
        self.check_acked(tags).await;
        let drains = self.queue == DEAD_LETTER_QUEUE;
        let point = if drains { CrashPoint::AfterParkBeforeAck } else { CrashPoint::AfterEffectBeforeAck };
        process.may_die(point).await;
        process.faults.delay().await;
        if process.faults.strikes(Fault::SettlementLost) {
            return Err(self.unsettled().await);
        }
        self.inner.ack(tags).await
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        let faults = &self.broker.process.faults;
        faults.delay().await;
        if faults.strikes(Fault::SettlementLost) {
            return Err(self.unsettled().await);
        }
        self.inner.nack(tags, requeue).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.inner.close().await
    }
}
