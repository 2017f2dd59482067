//! A broker with one fault.

use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::rigs::MemoryBrokerRig;
use async_trait::async_trait;
use handover_contract::broker::BrokerRig;
use handover_contract::samples::sent_by;
use handover_outbox::ports::{
    Broker, BrokerError, Delivery, DeliveryTag, Message, Outgoing, PublishOutcome, QueueDepth, Requeue,
    Route, Subscription,
};
use handover_outbox::topology::Topology;

/// The broken promise; `None` is a correct broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    None,
    UnroutableIsConfirmed,
    ReturnsAreAttachedToANeighbour,
    LongWindowsLoseTheirOrder,
    HeadersAreLost,
    KeysIgnoreCase,
    AStarTakesAnyNumberOfWords,
    PrefetchIsIgnored,
    RequeuedIsLost,
    RequeuedGoesUnmarked,
    RejectedIsRequeued,
    DeadLettersForgetWhereTheyDied,
    ExpiryNeverComes,
    ExpiryIsEarly,
    ClosedSubscriptionsLoseWhatTheyHad,
    DroppedSubscriptionsKeepWhatTheyHad,
    ClosedSubscriptionsAckOn,
    OtherArgumentsAreAccepted,
    QueuesAreListedBackwards,
    MessagesForOneQueueReachThoseBoundToItsNameToo,
    MessagesForNoQueueAreConfirmed,
}

/// Rig of the in-memory broker with one fault.
pub struct FlawedBrokerRig {
    sound: MemoryBrokerRig,
    fault: Flaw,
}

impl FlawedBrokerRig {
    /// A fresh rig with this fault.
    pub fn new(fault: Flaw) -> FlawedBrokerRig {
        FlawedBrokerRig { sound: MemoryBrokerRig::new(), fault }
    }
}

#[async_trait]
impl BrokerRig for FlawedBrokerRig {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::new(Faulty { inner: self.sound.broker(), fault: self.fault })
    }

    async fn advance(&self, by: Duration) {
        let ahead =
            if self.fault == Flaw::ExpiryIsEarly { Duration::from_millis(150) } else { Duration::ZERO };
        self.sound.advance(by + ahead).await;
    }
}

struct Faulty {
    inner: Arc<dyn Broker>,
    fault: Flaw,
}

fn confirmed(event: &handover_events::EventId) -> PublishOutcome {
    Outgoing::new(event.clone(), String::new(), Message::default()).confirmed()
}

fn returned(event: &handover_events::EventId) -> PublishOutcome {
    Outgoing::new(event.clone(), String::new(), Message::default()).returned("no route")
}

#[async_trait]
impl Broker for Faulty {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        let mut topology = topology.clone();
        for queue in &mut topology.queues {
            match self.fault {
                // Only the value changes; the type of the argument stays the same.
                Flaw::ExpiryNeverComes => queue.ttl = queue.ttl.map(|ttl| ttl * 1_000_000),
                Flaw::AStarTakesAnyNumberOfWords => {
                    queue.bindings = queue.bindings.iter().map(|pattern| pattern.replace('*', "#")).collect();
                }
                _ => {}
            }
        }
        match self.inner.declare(&topology).await {
            Err(BrokerError::Refused { .. }) if self.fault == Flaw::OtherArgumentsAreAccepted => Ok(()),
            outcome => outcome,
        }
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let mut window: Vec<_> = window
            .into_iter()
            .map(|outgoing| {
                let mut message = outgoing.message().clone();
                let mut route = outgoing.route().clone();
                match self.fault {
                    Flaw::HeadersAreLost => message.headers.clear(),
                    Flaw::KeysIgnoreCase => {
                        if let Route::Topic(key) = &mut route {
                            *key = key.to_lowercase();
                        }
                    }
                    _ => {}
                }
                sent_by(outgoing.event_id().clone(), route, message)
            })
            .collect();
        if self.fault == Flaw::LongWindowsLoseTheirOrder && window.len() > 50 {
            window.reverse();
            let mut outcomes = self.inner.publish(window).await?;
            outcomes.reverse();
            return Ok(outcomes);
        }
        if self.fault == Flaw::MessagesForOneQueueReachThoseBoundToItsNameToo {
            let copies = window.iter().filter_map(|outgoing| match outgoing.route() {
                Route::Topic(_) => None,
                Route::Queue(name) => Some(sent_by(
                    outgoing.event_id().clone(),
                    Route::Topic(name.clone()),
                    outgoing.message().clone(),
                )),
            });
            self.inner.publish(copies.collect()).await?;
        }
        let addressed: Vec<bool> =
            window.iter().map(|outgoing| matches!(outgoing.route(), Route::Queue(_))).collect();
        let mut outcomes = self.inner.publish(window).await?;
        let is_returned = |outcome: &PublishOutcome| matches!(outcome, PublishOutcome::Returned { .. });
        match self.fault {
            Flaw::UnroutableIsConfirmed | Flaw::MessagesForNoQueueAreConfirmed => {
                let wanted = self.fault == Flaw::MessagesForNoQueueAreConfirmed;
                let theirs = outcomes.iter_mut().zip(&addressed).filter(|(_, is)| **is == wanted);
                theirs.for_each(|(outcome, _)| *outcome = confirmed(outcome.event_id()));
            }
            Flaw::ReturnsAreAttachedToANeighbour => {
                if let Some(first) = outcomes.iter().position(is_returned) {
                    let neighbour = if first > 0 { first - 1 } else { outcomes.len() - 1 };
                    if !is_returned(&outcomes[neighbour]) {
                        outcomes[first] = confirmed(outcomes[first].event_id());
                        outcomes[neighbour] = returned(outcomes[neighbour].event_id());
                    }
                }
            }
            _ => {}
        }
        Ok(outcomes)
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        let prefetch = if self.fault == Flaw::PrefetchIsIgnored { NonZeroU16::MAX } else { prefetch };
        let inner = Some(self.inner.subscribe(queue, prefetch).await?);
        Ok(Box::new(FaultySubscription {
            inner,
            fault: self.fault,
            closed: AtomicBool::new(false),
            delivered: Mutex::default(),
        }))
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        let mut queues = self.inner.queues().await?;
        if self.fault == Flaw::QueuesAreListedBackwards {
            queues.reverse();
        }
        Ok(queues)
    }

    async fn blocked(&self) -> Option<String> {
        self.inner.blocked().await
    }
}

struct FaultySubscription {
    inner: Option<Box<dyn Subscription>>,
    fault: Flaw,
    closed: AtomicBool,
    delivered: Mutex<Vec<DeliveryTag>>,
}

impl FaultySubscription {
    fn inner(&self) -> &dyn Subscription {
        self.inner.as_deref().expect("not used after drop")
    }
}

impl Drop for FaultySubscription {
    fn drop(&mut self) {
        if self.fault == Flaw::DroppedSubscriptionsKeepWhatTheyHad && !self.closed.load(Ordering::Relaxed) {
            std::mem::forget(self.inner.take());
        }
    }
}

#[async_trait]
impl Subscription for FaultySubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        let mut deliveries = self.inner().next().await?;
        for delivery in &mut deliveries {
            match self.fault {
                Flaw::RequeuedGoesUnmarked => delivery.redelivered = false,
                Flaw::DeadLettersForgetWhereTheyDied => delivery.died_in = None,
                _ => {}
            }
        }
        let tags = deliveries.iter().map(|delivery| delivery.tag);
        self.delivered.lock().unwrap_or_else(PoisonError::into_inner).extend(tags);
        Ok(deliveries)
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        match (self.fault, self.inner().ack(tags).await) {
            (Flaw::ClosedSubscriptionsAckOn, Err(_)) => Ok(()),
            (_, outcome) => outcome,
        }
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        match (self.fault, requeue) {
            (Flaw::RequeuedIsLost, Requeue::Yes) => self.inner().ack(tags).await,
            (Flaw::RejectedIsRequeued, Requeue::No) => self.inner().nack(tags, Requeue::Yes).await,
            _ => self.inner().nack(tags, requeue).await,
        }
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.closed.store(true, Ordering::Relaxed);
        if self.fault == Flaw::ClosedSubscriptionsLoseWhatTheyHad {
            let delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.inner().ack(&delivered).await?;
        }
        self.inner().close().await
    }
}
