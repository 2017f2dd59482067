//! Brokers with one fault each.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "variants are named after the violated guarantee; a fault handles its own cases only"
)]

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use handover_events::EventId;
use handover_outbox::ports::{
    Broker, BrokerError, Delivery, DeliveryTag, Message, Outgoing, PublishOutcome, QueueDepth, QueueLoad,
    Requeue, Route, Subscription,
};
use handover_outbox::topology::Topology;

use crate::samples::outgoing_with_route;

/// The guarantee that a broker violates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokerFault {
    /// No fault: a correct broker.
    None,
    /// A message that no queue receives is confirmed.
    UnroutableMessageIsConfirmed,
    /// The return of a message is reported for its neighbour in the window.
    ReturnIsAttachedToNeighbour,
    /// The messages of a window of more than 50 enter their queues in reverse order.
    LongWindowsAreReversed,
    /// Messages are delivered without their headers.
    HeadersAreLost,
    /// Routing keys are compared without case.
    RoutingKeysIgnoreCase,
    /// `*` in a binding matches any number of words.
    StarMatchesAnyNumberOfWords,
    /// A subscription gets any number of unsettled deliveries.
    PrefetchIsIgnored,
    /// A message that is requeued is removed.
    RequeuedMessageIsLost,
    /// A repeated delivery is not marked as one.
    RedeliveredFlagIsMissing,
    /// A rejected message is delivered again instead of being dead-lettered.
    RejectedMessageIsRequeued,
    /// A dead letter does not name the queue in which it died.
    DeadLettersLoseTheirOrigin,
    /// Messages of a delay queue stay in it.
    MessagesNeverExpire,
    /// Messages of a delay queue leave it too early. The rig advances its time by [`BrokerFault::ahead`].
    MessagesExpireEarly,
    /// Closing a subscription acknowledges its unsettled deliveries.
    ClosedSubscriptionAcksItsDeliveries,
    /// Dropping a subscription does not return its unsettled deliveries.
    DroppedSubscriptionKeepsItsDeliveries,
    /// A closed subscription reports acknowledgements as successful.
    ClosedSubscriptionAcceptsAcks,
    /// The declaration of an existing queue with other arguments succeeds.
    DifferentArgumentsAreAccepted,
    /// The list of queues is in reverse order.
    QueuesAreListedInReverse,
    /// The time of the first waiting message is not shown.
    OldestReadyIsUnknown,
    /// More ready messages than are asked for are counted as fewer.
    LoadIsCountedBelowLimit,
    /// The load of a queue has no consumers.
    LoadHasNoConsumers,
    /// A queue whose messages are all unsettled has none.
    UnsettledMessagesAreNotSeen,
    /// A message for one queue also reaches queues that are bound to its name.
    MessageForQueueReachesQueuesBoundToItsName,
    /// A message for a queue that does not exist is confirmed.
    MessageForMissingQueueIsConfirmed,
    /// Queues that a message excludes get it.
    ExcludedQueuesGetTheMessage,
    /// A message whose queues are all excluded is returned instead of confirmed.
    MessageForNobodyIsReturned,
}

impl BrokerFault {
    /// Time by which the clock of a rig with this fault runs ahead.
    pub fn ahead(self) -> Duration {
        if self == BrokerFault::MessagesExpireEarly { Duration::from_millis(150) } else { Duration::ZERO }
    }
}

/// A broker that behaves like `inner`, apart from one fault.
///
/// ```ignore
/// let broker = FaultyBroker::new(Arc::new(MyBroker::connect(url).await?), BrokerFault::HeadersAreLost);
/// ```
pub struct FaultyBroker {
    inner: Arc<dyn Broker>,
    fault: BrokerFault,
}

impl FaultyBroker {
    /// Adds the fault to a correct broker.
    pub fn new(inner: Arc<dyn Broker>, fault: BrokerFault) -> FaultyBroker {
        FaultyBroker { inner, fault }
    }
}

fn confirmed(event: &EventId) -> PublishOutcome {
    Outgoing::new(event.clone(), String::new(), Message::default()).confirmed()
}

fn returned(event: &EventId) -> PublishOutcome {
    Outgoing::new(event.clone(), String::new(), Message::default()).returned("no route")
}

#[async_trait]
impl Broker for FaultyBroker {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        let mut topology = topology.clone();
        for queue in &mut topology.queues {
            match self.fault {
                // The TTL is multiplied, not removed, so that the queue still has a TTL argument of the same type.
                BrokerFault::MessagesNeverExpire => queue.ttl = queue.ttl.map(|ttl| ttl * 1_000_000),
                BrokerFault::StarMatchesAnyNumberOfWords => {
                    queue.bindings = queue.bindings.iter().map(|pattern| pattern.replace('*', "#")).collect();
                }
                _ => {}
            }
        }
        match self.inner.declare(&topology).await {
            Err(BrokerError::Refused { .. }) if self.fault == BrokerFault::DifferentArgumentsAreAccepted => {
                Ok(())
            }
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
                    BrokerFault::HeadersAreLost => message.headers.clear(),
                    BrokerFault::RoutingKeysIgnoreCase => {
                        if let Route::Topic(key) = &mut route {
                            *key = key.to_lowercase();
                        }
                    }
                    _ => {}
                }
                let excluded = match self.fault {
                    BrokerFault::ExcludedQueuesGetTheMessage => BTreeSet::new(),
                    _ => outgoing.excluded().clone(),
                };
                outgoing_with_route(outgoing.event_id().clone(), route, message).excluding(excluded)
            })
            .collect();
        if self.fault == BrokerFault::LongWindowsAreReversed && window.len() > 50 {
            window.reverse();
            let mut outcomes = self.inner.publish(window).await?;
            outcomes.reverse();
            return Ok(outcomes);
        }
        if self.fault == BrokerFault::MessageForQueueReachesQueuesBoundToItsName {
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
            BrokerFault::UnroutableMessageIsConfirmed | BrokerFault::MessageForMissingQueueIsConfirmed => {
                let wanted = self.fault == BrokerFault::MessageForMissingQueueIsConfirmed;
                let theirs = outcomes.iter_mut().zip(&addressed).filter(|(_, is)| **is == wanted);
                theirs.for_each(|(outcome, _)| *outcome = confirmed(outcome.event_id()));
            }
            BrokerFault::MessageForNobodyIsReturned => {
                let theirs = outcomes.iter_mut().zip(&excludes).filter(|(_, excludes)| **excludes);
                theirs.for_each(|(outcome, _)| *outcome = returned(outcome.event_id()));
            }
            BrokerFault::ReturnIsAttachedToNeighbour => {
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
        let prefetch = if self.fault == BrokerFault::PrefetchIsIgnored { NonZeroU16::MAX } else { prefetch };
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
        if self.fault == BrokerFault::QueuesAreListedInReverse {
            queues.reverse();
        }
        if self.fault == BrokerFault::OldestReadyIsUnknown {
            queues.iter_mut().for_each(|queue| queue.oldest_ready = None);
        }
        Ok(queues)
    }

    async fn has_messages(&self, queue: &str) -> Result<bool, BrokerError> {
        if self.fault == BrokerFault::UnsettledMessagesAreNotSeen {
            let load = self.inner.load(&[queue.to_owned()], 1).await?;
            return Ok(load.iter().any(|load| load.ready > 0));
        }
        self.inner.has_messages(queue).await
    }

    async fn load(&self, queues: &[String], up_to: u32) -> Result<Vec<QueueLoad>, BrokerError> {
        let mut loads = self.inner.load(queues, up_to).await?;
        for load in &mut loads {
            if self.fault == BrokerFault::LoadIsCountedBelowLimit {
                load.ready = load.ready.min(u64::from(up_to) - 1);
            }
            if self.fault == BrokerFault::LoadHasNoConsumers {
                load.consumers = 0;
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
    fault: BrokerFault,
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
        if self.fault == BrokerFault::DroppedSubscriptionKeepsItsDeliveries
            && !self.closed.load(Ordering::Relaxed)
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
                BrokerFault::RedeliveredFlagIsMissing => delivery.redelivered = false,
                BrokerFault::DeadLettersLoseTheirOrigin => delivery.died_in = None,
                _ => {}
            }
        }
        let tags = deliveries.iter().map(|delivery| delivery.tag);
        self.delivered.lock().unwrap_or_else(PoisonError::into_inner).extend(tags);
        Ok(deliveries)
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        match (self.fault, self.inner().ack(tags).await) {
            (BrokerFault::ClosedSubscriptionAcceptsAcks, Err(_)) => Ok(()),
            (_, outcome) => outcome,
        }
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        match (self.fault, requeue) {
            (BrokerFault::RequeuedMessageIsLost, Requeue::Yes) => self.inner().ack(tags).await,
            (BrokerFault::RejectedMessageIsRequeued, Requeue::No) => {
                self.inner().nack(tags, Requeue::Yes).await
            }
            _ => self.inner().nack(tags, requeue).await,
        }
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.closed.store(true, Ordering::Relaxed);
        if self.fault == BrokerFault::ClosedSubscriptionAcksItsDeliveries {
            let delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.inner().ack(&delivered).await?;
        }
        self.inner().close().await
    }
}
