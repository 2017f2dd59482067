//! The broker with everything that brokers do: lost and doubled messages, lost confirms, closed channels.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use handover_application::ports::{
    Broker, BrokerError, Delivery, DeliveryTag, Message, Outgoing, PublishOutcome, QueueDepth, Requeue,
    Store, Subscription,
};
use handover_application::topology::Topology;
use handover_tests::samples::sent_by;

use super::faults::Faults;
use super::mutants::Mutant;

/// A broker whose faults come from the run's dice.
#[derive(Clone)]
pub struct FaultyBroker {
    pub inner: Arc<dyn Broker>,
    pub faults: Faults,
    /// To see past all faults what is committed.
    pub plain: Arc<dyn Store>,
    /// Which consumer works on which queue.
    pub consumers: Arc<BTreeMap<&'static str, &'static str>>,
}

/// What is to happen to one message of a window.
enum Fate {
    Publish,
    Nack,
    Return,
    Lose,
    LoseAfterConfirm,
    LoseConfirm,
    Double,
    Late,
}

impl FaultyBroker {
    fn fate(&self) -> Fate {
        let rates = &self.faults.rates;
        let strikes = |rate| self.faults.strikes(rate);
        if self.faults.is_unroutable() {
            Fate::Return
        } else if strikes(rates.nacked) {
            Fate::Nack
        } else if strikes(rates.publish_lost) {
            Fate::Lose
        } else if strikes(rates.confirm_lost) {
            Fate::LoseConfirm
        } else if strikes(rates.dropped_after_confirm) {
            Fate::LoseAfterConfirm
        } else if strikes(rates.doubled) {
            Fate::Double
        } else if strikes(rates.late) {
            Fate::Late
        } else {
            Fate::Publish
        }
    }

    async fn publish_one(&self, outgoing: Outgoing) -> Result<PublishOutcome, BrokerError> {
        let copy =
            || sent_by(outgoing.event_id().clone(), outgoing.route().clone(), outgoing.message().clone());
        match self.fate() {
            Fate::Publish => self.send(outgoing).await,
            Fate::Nack => Ok(outgoing.nacked("the disk is full")),
            Fate::Return => Ok(outgoing.returned("NO_ROUTE")),
            Fate::Lose => Ok(outgoing.unknown("the connection was lost before the confirm")),
            Fate::LoseConfirm => {
                self.send(copy()).await?;
                Ok(outgoing.unknown("the connection was lost before the confirm"))
            }
            Fate::LoseAfterConfirm => {
                self.faults.broker_confirmed(outgoing.event_id());
                Ok(outgoing.confirmed())
            }
            Fate::Double => {
                self.send(copy()).await?;
                self.send(outgoing).await
            }
            Fate::Late => {
                let (broker, late, wait) = (self.clone(), copy(), self.faults.dice.millis(10..4_000));
                tokio::spawn(async move {
                    tokio::time::sleep(wait).await;
                    let _ = broker.send(late).await;
                });
                self.faults.broker_confirmed(outgoing.event_id());
                Ok(outgoing.confirmed())
            }
        }
    }

    async fn send(&self, outgoing: Outgoing) -> Result<PublishOutcome, BrokerError> {
        let mut outcomes = self.inner.publish(vec![outgoing]).await?;
        let outcome = outcomes.pop().ok_or_else(|| BrokerError::Unreachable("no answer".into()))?;
        if let PublishOutcome::Confirmed(confirmed) = &outcome {
            self.faults.broker_confirmed(confirmed.event_id());
        }
        Ok(outcome)
    }
}

#[async_trait]
impl Broker for FaultyBroker {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        self.inner.declare(topology).await
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        self.faults.delay().await;
        let mut outcomes = Vec::with_capacity(window.len());
        for outgoing in window {
            let claimed = Outgoing::new(outgoing.event_id().clone(), String::new(), Message::default());
            let outcome = if self.faults.is(Mutant::MarkSentBeforeConfirm) {
                let _ = self.publish_one(outgoing).await;
                claimed.confirmed()
            } else {
                match self.publish_one(outgoing).await? {
                    PublishOutcome::Returned { .. } if self.faults.is(Mutant::IgnoreReturns) => {
                        claimed.confirmed()
                    }
                    outcome @ (PublishOutcome::Confirmed(_)
                    | PublishOutcome::Returned { .. }
                    | PublishOutcome::Nacked { .. }
                    | PublishOutcome::Unknown { .. }) => outcome,
                }
            };
            outcomes.push(outcome);
        }
        self.faults.delay().await;
        Ok(outcomes)
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        self.faults.delay().await;
        let inner = self.inner.subscribe(queue, prefetch).await?;
        let broker = self.clone();
        Ok(Box::new(FaultySubscription { inner, queue: queue.to_owned(), broker, held: Mutex::default() }))
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        self.faults.asks_store("the depths of the queues");
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
    held: Mutex<BTreeMap<DeliveryTag, String>>,
}

impl FaultySubscription {
    async fn cut(&self) -> BrokerError {
        let _ = self.inner.close().await;
        BrokerError::Closed { queue: self.queue.clone() }
    }

    /// A settlement that fails: with the connection, or alone while the subscription lives on.
    async fn unsettled(&self) -> BrokerError {
        if self.broker.faults.dice.permille(500) {
            return self.cut().await;
        }
        BrokerError::Unreachable("no answer in time".into())
    }

    fn remember(&self, deliveries: &[Delivery]) {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.extend(deliveries.iter().map(|d| (d.tag, d.message.message_id.clone().unwrap_or_default())));
    }

    /// Whoever acks must have committed what became of the event: the log knows it.
    async fn check_acked(&self, tags: &[DeliveryTag]) {
        let Some(consumer) = self.broker.consumers.get(self.queue.as_str()) else { return };
        let ids: Vec<String> = {
            let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
            tags.iter().filter_map(|tag| held.get(tag).cloned()).collect()
        };
        let Ok(mut view) = self.broker.plain.view().await else { return };
        for id in ids {
            let Ok(event) = id.parse() else { continue };
            if matches!(view.consumption(consumer, &event).await, Ok(None)) {
                self.broker.faults.violation(format!("{consumer} acked {id} before anything was committed"));
            }
        }
    }
}

#[async_trait]
impl Subscription for FaultySubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        let faults = &self.broker.faults;
        if faults.strikes(faults.rates.channel_closed) {
            return Err(self.cut().await);
        }
        let deliveries = self.inner.next().await?;
        self.remember(&deliveries);
        if faults.is(Mutant::AckBeforeCommit) {
            let tags: Vec<DeliveryTag> = deliveries.iter().map(|delivery| delivery.tag).collect();
            self.ack(&tags).await?;
        }
        faults.delay().await;
        Ok(deliveries)
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        let faults = &self.broker.faults;
        self.check_acked(tags).await;
        faults.delay().await;
        if faults.strikes(faults.rates.ack_lost) {
            return Err(self.unsettled().await);
        }
        self.inner.ack(tags).await
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        let faults = &self.broker.faults;
        faults.delay().await;
        if faults.strikes(faults.rates.ack_lost) {
            return Err(self.unsettled().await);
        }
        self.inner.nack(tags, requeue).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.inner.close().await
    }
}
