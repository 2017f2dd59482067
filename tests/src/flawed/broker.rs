//! A broker that keeps every promise but one.

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

/// The promise that is broken; `None` is none.
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

/// The broker in memory with one flaw.
pub struct FlawedBrokerRig {
    sound: MemoryBrokerRig,
    flaw: Flaw,
}

impl FlawedBrokerRig {
    /// A fresh rig with this flaw.
    pub fn new(flaw: Flaw) -> FlawedBrokerRig {
        FlawedBrokerRig { sound: MemoryBrokerRig::new(), flaw }
    }
}

#[async_trait]
impl BrokerRig for FlawedBrokerRig {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::new(Flawed { inner: self.sound.broker(), flaw: self.flaw })
    }

    async fn advance(&self, by: Duration) {
        let ahead =
            if self.flaw == Flaw::ExpiryIsEarly { Duration::from_millis(150) } else { Duration::ZERO };
        self.sound.advance(by + ahead).await;
    }
}

struct Flawed {
    inner: Arc<dyn Broker>,
    flaw: Flaw,
}

fn confirmed(event: &handover_events::EventId) -> PublishOutcome {
    Outgoing::new(event.clone(), String::new(), Message::default()).confirmed()
}

fn returned(event: &handover_events::EventId) -> PublishOutcome {
    Outgoing::new(event.clone(), String::new(), Message::default()).returned("no route")
}

#[async_trait]
impl Broker for Flawed {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        let mut topology = topology.clone();
        for queue in &mut topology.queues {
            match self.flaw {
                // The digits of the number stay as they were.
                Flaw::ExpiryNeverComes => queue.ttl = queue.ttl.map(|ttl| ttl * 1_000_000),
                Flaw::AStarTakesAnyNumberOfWords => {
                    queue.bindings = queue.bindings.iter().map(|pattern| pattern.replace('*', "#")).collect();
                }
                _ => {}
            }
        }
        match self.inner.declare(&topology).await {
            Err(BrokerError::Refused { .. }) if self.flaw == Flaw::OtherArgumentsAreAccepted => Ok(()),
            outcome => outcome,
        }
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let mut window: Vec<_> = window
            .into_iter()
            .map(|outgoing| {
                let mut message = outgoing.message().clone();
                let mut route = outgoing.route().clone();
                match self.flaw {
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
        if self.flaw == Flaw::LongWindowsLoseTheirOrder && window.len() > 50 {
            window.reverse();
            let mut outcomes = self.inner.publish(window).await?;
            outcomes.reverse();
            return Ok(outcomes);
        }
        if self.flaw == Flaw::MessagesForOneQueueReachThoseBoundToItsNameToo {
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
        match self.flaw {
            Flaw::UnroutableIsConfirmed | Flaw::MessagesForNoQueueAreConfirmed => {
                let wanted = self.flaw == Flaw::MessagesForNoQueueAreConfirmed;
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
        let prefetch = if self.flaw == Flaw::PrefetchIsIgnored { NonZeroU16::MAX } else { prefetch };
        let inner = Some(self.inner.subscribe(queue, prefetch).await?);
        Ok(Box::new(FlawedSubscription {
            inner,
            flaw: self.flaw,
            closed: AtomicBool::new(false),
            delivered: Mutex::default(),
        }))
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        let mut queues = self.inner.queues().await?;
        if self.flaw == Flaw::QueuesAreListedBackwards {
            queues.reverse();
        }
        Ok(queues)
    }

    async fn blocked(&self) -> Option<String> {
        self.inner.blocked().await
    }
}

struct FlawedSubscription {
    inner: Option<Box<dyn Subscription>>,
    flaw: Flaw,
    closed: AtomicBool,
    delivered: Mutex<Vec<DeliveryTag>>,
}

impl FlawedSubscription {
    fn inner(&self) -> &dyn Subscription {
        self.inner.as_deref().expect("it is used until it is dropped")
    }
}

impl Drop for FlawedSubscription {
    fn drop(&mut self) {
        if self.flaw == Flaw::DroppedSubscriptionsKeepWhatTheyHad && !self.closed.load(Ordering::Relaxed) {
            std::mem::forget(self.inner.take());
        }
    }
}

#[async_trait]
impl Subscription for FlawedSubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        let mut deliveries = self.inner().next().await?;
        for delivery in &mut deliveries {
            match self.flaw {
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
        match (self.flaw, self.inner().ack(tags).await) {
            (Flaw::ClosedSubscriptionsAckOn, Err(_)) => Ok(()),
            (_, outcome) => outcome,
        }
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        match (self.flaw, requeue) {
            (Flaw::RequeuedIsLost, Requeue::Yes) => self.inner().ack(tags).await,
            (Flaw::RejectedIsRequeued, Requeue::No) => self.inner().nack(tags, Requeue::Yes).await,
            _ => self.inner().nack(tags, requeue).await,
        }
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.closed.store(true, Ordering::Relaxed);
        if self.flaw == Flaw::ClosedSubscriptionsLoseWhatTheyHad {
            let delivered = self.delivered.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.inner().ack(&delivered).await?;
        }
        self.inner().close().await
    }
}
