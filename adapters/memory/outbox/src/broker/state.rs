//! State of the broker: exchange, queues and subscriptions. Every change is atomic.
//!
//! **Invariant:** a confirmed message is ready in a queue or delivered and unsettled, until it is acknowledged, purged,
//! deleted with its queue, dead-lettered without a target queue, or dropped as a dead-letter cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use handover_outbox::ports::{
    BrokerError, Delivery, DeliveryTag, Message, Outgoing, PublishOutcome, QueueDepth, Requeue, Route,
};

use super::queue::{Queue, Stored};

/// A delivery that the consumer has not settled.
#[derive(Debug)]
struct Unsettled {
    position: u64,
    stored: Stored,
}

#[derive(Debug)]
pub(super) struct Subscriber {
    pub(super) queue: String,
    prefetch: usize,
    unsettled: BTreeMap<DeliveryTag, Unsettled>,
    next_tag: u64,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) reachable: bool,
    pub(super) blocked: Option<String>,
    pub(super) nacks_left: usize,
    pub(super) exchange: Option<String>,
    pub(super) queues: BTreeMap<String, Queue>,
    pub(super) subscribers: BTreeMap<u64, Subscriber>,
    next_subscriber: u64,
    /// Cache of the queues per routing key; cleared when a binding changes.
    pub(super) routes: BTreeMap<String, Arc<[String]>>,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Settlement {
    Ack,
    Nack(Requeue),
}

pub(super) fn refused(what: String) -> BrokerError {
    BrokerError::Refused { what }
}

impl State {
    pub(super) fn new() -> State {
        State {
            reachable: true,
            blocked: None,
            nacks_left: 0,
            exchange: None,
            queues: BTreeMap::new(),
            subscribers: BTreeMap::new(),
            next_subscriber: 0,
            routes: BTreeMap::new(),
        }
    }

    pub(super) fn check_reachable(&self) -> Result<(), BrokerError> {
        if self.reachable { Ok(()) } else { Err(BrokerError::Unreachable("switched off".into())) }
    }

    pub(super) fn publish(
        &mut self,
        window: Vec<Outgoing>,
        now: DateTime<Utc>,
    ) -> Result<Vec<PublishOutcome>, BrokerError> {
        self.check_reachable()?;
        if let Some(reason) = &self.blocked {
            return Err(BrokerError::Unreachable(format!("publishing is blocked: {reason}").into()));
        }
        if self.exchange.is_none() {
            return Err(BrokerError::Unreachable("the topology is not declared yet".into()));
        }
        self.expire(now);
        Ok(window.into_iter().map(|outgoing| self.publish_one(outgoing, now)).collect())
    }

    #[allow(clippy::disallowed_methods, reason = "this adapter is the broker that confirms the message")]
    fn publish_one(&mut self, outgoing: Outgoing, now: DateTime<Utc>) -> PublishOutcome {
        if self.nacks_left > 0 {
            self.nacks_left -= 1;
            return outgoing.nacked("the broker rejected the message");
        }
        let stored = Stored::new(Arc::new(outgoing.message().clone()));
        let routed = match outgoing.route() {
            Route::Topic(key) => self.route(key, stored, outgoing.excluded(), now),
            Route::Queue(name) => self.enter(name, stored, now),
        };
        if routed { outgoing.confirmed() } else { outgoing.returned("312 NO_ROUTE") }
    }

    /// Adds a message to each queue bound to its routing key that it does not exclude; returns whether a queue is bound.
    fn route(&mut self, key: &str, stored: Stored, excluded: &BTreeSet<String>, now: DateTime<Utc>) -> bool {
        let names = self.queues_of(key);
        for name in names.iter().filter(|name| !excluded.contains(*name)) {
            // As in RabbitMQ, a message that returns to a queue only because it expired is dropped: it would circulate
            // forever.
            if !stored.expired_in.contains(name) {
                self.enter(name, stored.clone(), now);
            }
        }
        !names.is_empty()
    }

    fn queues_of(&mut self, key: &str) -> Arc<[String]> {
        if let Some(names) = self.routes.get(key) {
            return names.clone();
        }
        let bound = self.queues.iter().filter(|(_, queue)| queue.is_bound_to(key));
        let names: Arc<[String]> = bound.map(|(name, _)| name.clone()).collect();
        self.routes.insert(key.to_owned(), names.clone());
        names
    }

    /// Adds a message to a queue; returns whether the queue exists.
    pub(super) fn enter(&mut self, name: &str, stored: Stored, now: DateTime<Utc>) -> bool {
        let Some(queue) = self.queues.get_mut(name) else { return false };
        queue.enter(stored, now);
        if queue.spec.ttl.is_some() && queue.len() == 1 {
            // Wakes the consumers of the dead-letter queue: they wait for the next expiry in this queue, which has
            // changed.
            for target in queue
                .spec
                .dead_letter_key
                .clone()
                .map(|key| self.queues_of(&key))
                .iter()
                .flat_map(|it| it.iter())
            {
                if let Some(target) = self.queues.get(target) {
                    target.changed.notify_waiters();
                }
            }
        }
        true
    }

    /// Dead-letters expired messages.
    pub(super) fn expire(&mut self, now: DateTime<Utc>) {
        let delaying: Vec<String> = self
            .queues
            .values()
            .filter(|queue| queue.next_expiry().is_some_and(|at| at <= now))
            .map(|queue| queue.spec.name.clone())
            .collect();
        for name in delaying {
            while let Some(mut expired) = self.queues.get_mut(&name).and_then(|queue| queue.take_expired(now))
            {
                expired.expired_in.push(name.clone());
                self.dead_letter(&name, expired, now);
            }
        }
    }

    /// Dead-letters a message with the dead-letter key of its queue; drops it if the queue has none.
    fn dead_letter(&mut self, queue: &str, message: Stored, now: DateTime<Utc>) {
        let key = self.queues.get(queue).and_then(|queue| queue.spec.dead_letter_key.clone());
        if let Some(key) = key {
            let message = Stored { redelivered: false, expires_at: None, ..message };
            self.route(&key, message, &BTreeSet::new(), now);
        }
    }

    /// The earliest time at which a message of another queue expires and is dead-lettered to this queue.
    pub(super) fn next_expiry_for(&mut self, queue: &str) -> Option<DateTime<Utc>> {
        let expiring = self
            .queues
            .values()
            .filter_map(|from| Some((from.next_expiry()?, from.spec.dead_letter_key.clone())));
        let expiring: Vec<_> = expiring.collect();
        let reaching = expiring.into_iter().filter(|(_, key)| {
            key.as_ref().is_some_and(|key| self.queues_of(key).iter().any(|name| name == queue))
        });
        reaching.map(|(at, _)| at).min()
    }

    pub(super) fn subscribe(&mut self, queue: &str, prefetch: u16) -> Result<u64, BrokerError> {
        self.check_reachable()?;
        if !self.queues.contains_key(queue) {
            return Err(refused(format!("queue {queue} does not exist: declare the topology first")));
        }
        let id = self.next_subscriber;
        self.next_subscriber += 1;
        let queue = queue.to_owned();
        let prefetch = usize::from(prefetch);
        self.subscribers.insert(id, Subscriber { queue, prefetch, unsettled: BTreeMap::new(), next_tag: 1 });
        Ok(id)
    }

    /// Delivers as many ready messages as the prefetch limit allows; `None` if the subscription has ended.
    pub(super) fn deliver(&mut self, subscriber: u64) -> Option<Vec<Delivery>> {
        let subscriber = self.subscribers.get_mut(&subscriber)?;
        let queue = self.queues.get_mut(&subscriber.queue)?;
        let mut deliveries = Vec::new();
        while subscriber.unsettled.len() < subscriber.prefetch {
            let Some((position, stored)) = queue.take() else { break };
            let tag = DeliveryTag(subscriber.next_tag);
            subscriber.next_tag += 1;
            deliveries.push(Delivery {
                tag,
                redelivered: stored.redelivered,
                died_in: stored.died_in.clone(),
                message: Message::clone(&stored.message),
            });
            subscriber.unsettled.insert(tag, Unsettled { position, stored });
        }
        Some(deliveries)
    }

    /// Notifies the subscription when more messages may be available to it. `None` after the subscription has ended.
    pub(super) fn changed(&self, subscriber: u64) -> Option<Arc<tokio::sync::Notify>> {
        let subscriber = self.subscribers.get(&subscriber)?;
        Some(self.queues.get(&subscriber.queue)?.changed.clone())
    }

    /// Settles deliveries; returns `false` if the subscription has ended.
    pub(super) fn settle(
        &mut self,
        id: u64,
        tags: &[DeliveryTag],
        settlement: Settlement,
        now: DateTime<Utc>,
    ) -> bool {
        let Some(subscriber) = self.subscribers.get_mut(&id) else { return false };
        let settled: Vec<Unsettled> =
            tags.iter().filter_map(|tag| subscriber.unsettled.remove(tag)).collect();
        let name = subscriber.queue.clone();
        for Unsettled { position, mut stored } in settled {
            match settlement {
                Settlement::Ack => {}
                Settlement::Nack(Requeue::Yes) => {
                    if let Some(queue) = self.queues.get_mut(&name) {
                        queue.requeue(position, stored);
                    }
                }
                Settlement::Nack(Requeue::No) => {
                    // As in RabbitMQ, only expiries without a rejection in between are a dead-letter cycle.
                    stored.expired_in.clear();
                    // Only a rejection sets `died_in`; an expiry leaves it unchanged.
                    stored.died_in = Some(name.clone());
                    self.dead_letter(&name, stored, now);
                }
            }
        }
        if let Some(queue) = self.queues.get(&name) {
            queue.changed.notify_waiters();
        }
        true
    }

    /// Ends a subscription and requeues its unsettled deliveries.
    pub(super) fn unsubscribe(&mut self, id: u64) {
        let Some(subscriber) = self.subscribers.remove(&id) else { return };
        if let Some(queue) = self.queues.get_mut(&subscriber.queue) {
            for Unsettled { position, stored } in subscriber.unsettled.into_values() {
                queue.requeue(position, stored);
            }
            queue.changed.notify_waiters();
        }
    }

    pub(super) fn depths(&self) -> Vec<QueueDepth> {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let depth = |(name, queue): (&String, &Queue)| {
            let of = || self.subscribers.values().filter(|subscriber| subscriber.queue == *name);
            QueueDepth {
                name: name.clone(),
                ready: count(queue.len()),
                unacked: count(of().map(|subscriber| subscriber.unsettled.len()).sum()),
                consumers: count(of().count()),
                oldest_ready: queue.oldest_ready(),
            }
        };
        self.queues.iter().map(depth).collect()
    }
}
