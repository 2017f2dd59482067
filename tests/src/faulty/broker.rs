//! A broker with one fault.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::rigs::MemoryBrokerRig;
use async_trait::async_trait;
use handover_contract::broker::BrokerRig;
use handover_contract::samples::outgoing_with_route;
use handover_outbox::ports::{
    Broker, BrokerError, Delivery, DeliveryTag, Message, Outgoing, PublishOutcome, QueueDepth, QueueLoad,
    Requeue, Route, Subscription,
};
use handover_outbox::topology::Topology;

/// The guarantee that the broker violates; `None` is a correct broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    UnroutableMessageIsConfirmed,
    ReturnIsAttachedToNeighbour,
    LongWindowsAreReversed,
    HeadersAreLost,
    RoutingKeysIgnoreCase,
    StarMatchesAnyNumberOfWords,
    PrefetchIsIgnored,
    RequeuedMessageIsLost,
    RedeliveredFlagIsMissing,
    RejectedMessageIsRequeued,
    DeadLettersLoseTheirOrigin,
    MessagesNeverExpire,
    MessagesExpireEarly,
    ClosedSubscriptionAcksItsDeliveries,
    DroppedSubscriptionKeepsItsDeliveries,
    ClosedSubscriptionAcceptsAcks,
    DifferentArgumentsAreAccepted,
    QueuesAreListedInReverse,
    OldestReadyIsUnknown,
    LoadIsCountedBelowLimit,
    LoadHasNoConsumers,
    MessageForQueueReachesQueuesBoundToItsName,
    MessageForMissingQueueIsConfirmed,
    ExcludedQueuesGetTheMessage,
    MessageForNobodyIsReturned,
}

/// Rig of the in-memory broker with one fault.
pub struct FaultyBrokerRig {
    sound: MemoryBrokerRig,
    fault: Fault,
}

impl FaultyBrokerRig {
    /// A fresh rig with the given fault.
    pub fn new(fault: Fault) -> FaultyBrokerRig {
        FaultyBrokerRig { sound: MemoryBrokerRig::new(), fault }
    }
}

#[async_trait]
impl BrokerRig for FaultyBrokerRig {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::new(Faulty { inner: self.sound.broker(), fault: self.fault })
    }

    async fn advance(&self, by: Duration) {
        let ahead = if self.fault == Fault::MessagesExpireEarly {
            Duration::from_millis(150)
        } else {
            Duration::ZERO
        };
        self.sound.advance(by + ahead).await;
    }
}

struct Faulty {
    inner: Arc<dyn Broker>,
    fault: Fault,
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
                // The TTL is multiplied, not removed, so that the queue still has a TTL argument of the same type.
                Fault::MessagesNeverExpire => queue.ttl = queue.ttl.map(|ttl| ttl * 1_000_000),
                Fault::StarMatchesAnyNumberOfWords => {
                    queue.bindings = queue.bindings.iter().map(|pattern| pattern.replace('*', "#")).collect();
                }
                _ => {}
            }
        }
        match self.inner.declare(&topology).await {
            Err(BrokerError::Refused { .. }) if self.fault == Fault::DifferentArgumentsAreAccepted => Ok(()),
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
                    Fault::HeadersAreLost => message.headers.clear(),
                    Fault::RoutingKeysIgnoreCase => {
                        if let Route::Topic(key) = &mut route {
                            *key = key.to_lowercase();
                        }
                    }
                    _ => {}
                }
                let excluded = match self.fault {
                    Fault::ExcludedQueuesGetTheMessage => BTreeSet::new(),
                    _ => outgoing.excluded().clone(),
                };
                outgoing_with_route(outgoing.event_id().clone(), route, message).excluding(excluded)
            })
            .collect();
        if self.fault == Fault::LongWindowsAreReversed && window.len() > 50 {
            window.reverse();
            let mut outcomes = self.inner.publish(window).await?;
            outcomes.reverse();
            return Ok(outcomes);
        }
        if self.fault == Fault::MessageForQueueReachesQueuesBoundToItsName {
            let copies = window.iter().filter_map(|outgoing| match outgoing.route() {
                Route::Topic(_) => None,
                Route::Queue(name) => Some(outgoing_with_route(
                    outgoing.event_id().clone(),
                    Route::Topic(name.clone()),
                    outgoing.message().clone(),
                )),
            });
            self.inner.publish(copies.collect()).await?;
        }
        let excludes: Vec<bool> = window.iter().map(|outgoing| outgoing.excluded().len() > 1).collect();
        let addressed: Vec<bool> =
            window.iter().map(|outgoing| matches!(outgoing.route(), Route::Queue(_))).collect();
        let mut outcomes = self.inner.publish(window).await?;
        let is_returned = |outcome: &PublishOutcome| matches!(outcome, PublishOutcome::Returned { .. });
        match self.fault {
            Fault::UnroutableMessageIsConfirmed | Fault::MessageForMissingQueueIsConfirmed => {
                let wanted = self.fault == Fault::MessageForMissingQueueIsConfirmed;
                let theirs = outcomes.iter_mut().zip(&addressed).filter(|(_, is)| **is == wanted);
                theirs.for_each(|(outcome, _)| *outcome = confirmed(outcome.event_id()));
            }
            Fault::MessageForNobodyIsReturned => {
                let theirs = outcomes.iter_mut().zip(&excludes).filter(|(_, excludes)| **excludes);
                theirs.for_each(|(outcome, _)| *outcome = returned(outcome.event_id()));
            }
            Fault::ReturnIsAttachedToNeighbour => {
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
        let prefetch = if self.fault == Fault::PrefetchIsIgnored { NonZeroU16::MAX } else { prefetch };
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
        if self.fault == Fault::QueuesAreListedInReverse {
            queues.reverse();
        }
        if self.fault == Fault::OldestReadyIsUnknown {
            queues.iter_mut().for_each(|queue| queue.oldest_ready = None);
        }
        Ok(queues)
    }

    async fn load(&self, queues: &[String], up_to: u32) -> Result<Vec<QueueLoad>, BrokerError> {
        let mut loads = self.inner.load(queues, up_to).await?;
        for load in &mut loads {
            match self.fault {
                Fault::LoadIsCountedBelowLimit => load.ready = load.ready.min(u64::from(up_to) - 1),
                Fault::LoadHasNoConsumers => load.consumers = 0,
                _ => {}
            }
        }
        Ok(loads)
    }

    async fn blocked(&self) -> Option<String> {
        self.inner.blocked().await
    }
}

struct FaultySubscription {
    inner: Option<Box<dyn Subscription>>,
    fault: Fault,
    closed: AtomicBool,
    delivered: Mutex<Vec<DeliveryTag>>,
}

impl FaultySubscription {
    fn inner(&self) -> &dyn Subscription {
        self.inner.as_deref().expect("the subscription was used after its drop")
    }
}

impl Drop for FaultySubscription {
    fn drop(&mut self) {
        if self.fault == Fault::DroppedSubscriptionKeepsItsDeliveries && !self.closed.load(Ordering::Relaxed)
        {
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
                Fault::RedeliveredFlagIsMissing => delivery.redelivered = false,
                Fault::DeadLettersLoseTheirOrigin => delivery.died_in = None,
                _ => {}
            }
        }
        let tags = deliveries.iter().map(|delivery| delivery.tag);
        self.delivered.lock().unwrap_or_else(PoisonError::into_inner).extend(tags);
        Ok(deliveries)
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        match (self.fault, self.inner().ack(tags).await) {
            (Fault::ClosedSubscriptionAcceptsAcks, Err(_)) => Ok(()),
            (_, outcome) => outcome,
        }
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        match (self.fault, requeue) {
            (Fault::RequeuedMessageIsLost, Requeue::Yes) => self.inner().ack(tags).await,
            (Fault::RejectedMessageIsRequeued, Requeue::No) => self.inner().nack(tags, Requeue::Yes).await,
            _ => self.inner().nack(tags, requeue).await,
        }
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.closed.store(true, Ordering::Relaxed);
        if self.fault == Fault::ClosedSubscriptionAcksItsDeliveries {
            let delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.inner().ack(&delivered).await?;
        }
        self.inner().close().await
    }
}
