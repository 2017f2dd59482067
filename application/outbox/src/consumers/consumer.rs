//! The loop of one consumer: take deliveries, apply them in groups, settle the rest in lanes, one per aggregate.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{AggregateRef, EventId};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{debug, error, warn};

use super::alone::{AloneEnd, CountFirst, Counted};
use super::answered::answered;
use super::group::GroupEnd;
use super::inbox::{Identity, Inbox, LOCK_PATIENCE, Taken, identify};
use super::{Bound, sweep};
use crate::mutants::{Mutant, planted};
use crate::ports::{BrokerError, Delivery, DeliveryTag, Requeue, StoreError, Subscription};
use crate::settings::ConsumerSettings;
use crate::{Outbox, with_tx};

/// The first pause after a failure of store or broker.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// The longest.
const LAST_PAUSE: Duration = Duration::from_secs(2);
/// How long no groups are formed after one delivery held up its group.
const ALONE_FOR: TimeDelta = TimeDelta::seconds(10);

/// One consumer of one process.
pub struct Consumer {
    outbox: Outbox,
    bound: Bound,
    settings: Arc<ConsumerSettings>,
}

/// Deliveries of aggregates that are being settled one by one.
type Lanes = Arc<Mutex<BTreeMap<AggregateRef, VecDeque<Taken>>>>;

impl Consumer {
    /// A consumer on its queue. It must be bound to the very store that the outbox is in: an event and what is done about
    /// it are committed together there.
    pub fn new(outbox: Outbox, bound: Bound, settings: Arc<ConsumerSettings>) -> Consumer {
        Consumer { outbox, bound, settings }
    }

    /// Consumes until the process stops, then settles what it has begun and returns the rest to the queue.
    pub async fn run(self) {
        let Some(inbox) = self.inbox().await else { return };
        let sweeper = self.outbox.tx.tasks.spawn(sweep::run(inbox.clone()));
        let stopping = self.outbox.tx.tasks.stopping().clone();
        let mut pause = FIRST_PAUSE;
        while !stopping.is_cancelled() {
            let subscribing = self.outbox.broker.subscribe(self.bound.queue, self.settings.prefetch);
            match answered(subscribing).await {
                Ok(subscription) => {
                    pause = FIRST_PAUSE;
                    let subscription: Arc<dyn Subscription> = Arc::from(subscription);
                    let error = Worker::new(inbox.clone(), Arc::clone(&subscription)).run().await;
                    if let Some(error) = error {
                        warn!(%error, queue = self.bound.queue, "[{}] the subscription ended", inbox.name());
                    }
                    // What is unsettled returns to the queue also when this fails: the subscription is dropped.
                    let _ = tokio::time::timeout(LAST_PAUSE, subscription.close()).await;
                }
                // Told once: in an outage every consumer would tell it again and again.
                Err(error) if pause == FIRST_PAUSE => {
                    warn!(%error, queue = self.bound.queue, "[{}] cannot subscribe; going on to try", inbox.name());
                }
                Err(error) => {
                    debug!(%error, queue = self.bound.queue, "[{}] cannot subscribe", inbox.name());
                }
            }
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = self.outbox.tx.clock.sleep(pause) => {}
            }
            pause = (pause * 2).min(LAST_PAUSE);
        }
        let _ = sweeper.await;
    }

    /// Reads from where on this consumer takes events; waits out an outage of the store.
    async fn inbox(&self) -> Option<Inbox> {
        let mut pause = FIRST_PAUSE;
        loop {
            match subscribe(&self.outbox, self.bound.name).await {
                Ok(after_id) => {
                    return Some(Inbox::new(&self.outbox, &self.bound, &self.settings, after_id));
                }
                Err(error) => warn!(%error, "[{}] cannot begin", self.bound.name),
            }
            tokio::select! {
                biased;
                () = self.outbox.tx.tasks.stopping().cancelled() => return None,
                () = self.outbox.tx.clock.sleep(pause) => {}
            }
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
}

/// Subscribes a consumer by name, once for all time; returns the outbox id after which it takes events.
pub(crate) async fn subscribe(outbox: &Outbox, consumer: &'static str) -> Result<i64, StoreError> {
    let now = outbox.now();
    let subscription = with_tx(&outbox.tx, move |unit, _| {
        Box::pin(async move { unit.outbox().subscribe_consumer(consumer, now).await })
    })
    .await?;
    Ok(subscription.after_id)
}

/// One subscription's worth of work.
#[derive(Clone)]
struct Worker {
    inbox: Inbox,
    subscription: Arc<dyn Subscription>,
    lanes: Lanes,
    tasks: TaskTracker,
    /// Rung when the process stops, or when a settlement failed: what is in hand is not to be trusted any more.
    over: CancellationToken,
}

impl Worker {
    fn new(inbox: Inbox, subscription: Arc<dyn Subscription>) -> Worker {
        let over = inbox.outbox.tx.tasks.stopping().child_token();
        Worker { inbox, subscription, lanes: Lanes::default(), tasks: TaskTracker::new(), over }
    }

    /// Until the process stops or the subscription ends; what was begun is settled first.
    async fn run(self) -> Option<BrokerError> {
        let mut alone_until = DateTime::UNIX_EPOCH;
        let end = loop {
            let deliveries = tokio::select! {
                biased;
                () = self.over.cancelled() => break None,
                next = self.subscription.next() => match next {
                    Ok(deliveries) => deliveries,
                    Err(error) => break Some(error),
                },
            };
            if planted(Mutant::AckBeforeCommit) {
                let tags: Vec<DeliveryTag> = deliveries.iter().map(|delivery| delivery.tag).collect();
                self.settle(&tags, Settle::Ack).await;
            }
            let fresh = self.join_lanes(deliveries.into_iter().map(Taken::of).collect());
            let group = if self.inbox.outbox.now() < alone_until {
                GroupEnd { alone: fresh, ..GroupEnd::default() }
            } else {
                self.inbox.apply_group(fresh).await
            };
            if group.held_up {
                alone_until = self.inbox.outbox.now() + ALONE_FOR;
            }
            self.settle(&group.done, Settle::Ack).await;
            self.open_lanes(group.alone);
        };
        self.over.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        end
    }

    /// Hands deliveries of an aggregate that has a lane to that lane; returns the others.
    fn join_lanes(&self, deliveries: Vec<Taken>) -> Vec<Taken> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        let mut fresh = Vec::with_capacity(deliveries.len());
        for taken in deliveries {
            match lanes.get_mut(&taken.lane()) {
                Some(lane) => lane.push_back(taken),
                None => fresh.push(taken),
            }
        }
        fresh
    }

    /// Opens a lane for each aggregate and lets it run beside the others.
    fn open_lanes(&self, deliveries: Vec<Taken>) {
        for taken in deliveries {
            let key = taken.lane();
            let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(lane) = lanes.get_mut(&key) {
                lane.push_back(taken);
                continue;
            }
            lanes.insert(key.clone(), VecDeque::from([taken]));
            drop(lanes);
            let worker = self.clone();
            let lane = self.tasks.track_future(async move { worker.drain_lane(key).await });
            drop(self.inbox.outbox.tx.tasks.spawn(lane));
        }
    }

    async fn drain_lane(self, key: AggregateRef) {
        loop {
            let next = {
                let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
                let next = lanes.get_mut(&key).and_then(VecDeque::pop_front);
                if next.is_none() {
                    lanes.remove(&key);
                }
                next
            };
            let Some(Taken { delivery, .. }) = next else { return };
            if self.over.is_cancelled() {
                // Not begun: closing the subscription returns it.
                continue;
            }
            self.settle_one(delivery).await;
        }
    }

    /// Settles one delivery. An outage of the store is waited out with the delivery in hand: nobody's attempt.
    async fn settle_one(&self, delivery: Delivery) {
        let count = if delivery.redelivered { CountFirst::Yes } else { CountFirst::No };
        let (mut pause, mut counted) = (FIRST_PAUSE, None);
        while !self.over.is_cancelled() {
            let until = match self.look(&delivery, count, &mut counted).await {
                Ok(AloneEnd::Done) => return self.settle(&[delivery.tag], Settle::Ack).await,
                Ok(AloneEnd::Dead) => return self.settle(&[delivery.tag], Settle::Nack(Requeue::No)).await,
                Ok(AloneEnd::Failed(_)) if planted(Mutant::AckWhatFailed) => {
                    return self.settle(&[delivery.tag], Settle::Ack).await;
                }
                Ok(AloneEnd::Failed(due)) => {
                    // The lane goes on: what comes behind is recorded as WAITING.
                    return self.requeue_at(delivery.tag, due);
                }
                Ok(AloneEnd::Busy(until)) => self.until(until),
                Err(error) => {
                    warn!(%error, queue = self.inbox.queue(), "[{}] the store failed; consumption pauses",
                        self.inbox.name());
                    pause = (pause * 2).min(LAST_PAUSE);
                    pause
                }
            };
            tokio::select! {
                biased;
                () = self.over.cancelled() => {}
                () = self.inbox.outbox.tx.clock.sleep(until) => {}
            }
        }
    }

    async fn look(
        &self,
        delivery: &Delivery,
        count: CountFirst,
        counted: &mut Option<Counted>,
    ) -> Result<AloneEnd, StoreError> {
        let outbox = &self.inbox.outbox;
        let identity =
            match identify(outbox.view().await?.outbox_view(), &outbox.registry, &delivery.message).await {
                // The outbox row cannot be read until a person corrects it, so the message is parked.
                Err(error @ StoreError::Corrupt { .. }) => Identity::Foreign(error.to_string()),
                other => other?,
            };
        match identity {
            Identity::Genuine(row) => self.apply_alone(&row.event_id, count, counted).await,
            Identity::Foreign(why) => {
                error!(eventId = delivery.message.message_id.as_deref(), queue = self.inbox.queue(),
                    traceId = delivery.message.correlation_id.as_deref(), consumer = self.inbox.name(), error = %why,
                    "[{}] [ALERT] a message is no event of ours", self.inbox.name());
                Ok(if planted(Mutant::StrayMessageDropped) { AloneEnd::Done } else { AloneEnd::Dead })
            }
        }
    }

    /// Applies one event, or leaves it to the sweep if somebody else keeps a lock that it needs: with its delivery in hand
    /// it would take the place of others.
    async fn apply_alone(
        &self,
        event: &EventId,
        count: CountFirst,
        counted: &mut Option<Counted>,
    ) -> Result<AloneEnd, StoreError> {
        let begun = self.inbox.outbox.now();
        match self.inbox.apply_alone(event, count, counted).await {
            Err(StoreError::Transient(error))
                if (self.inbox.outbox.now() - begun).to_std().is_ok_and(|took| took >= LOCK_PATIENCE) =>
            {
                warn!(%error, eventId = %event, queue = self.inbox.queue(), consumer = self.inbox.name(),
                    "[{}] waited for a lock; the sweep applies the event later", self.inbox.name());
                self.inbox.postpone(event, counted.as_ref()).await?;
                Ok(AloneEnd::Done)
            }
            end => end,
        }
    }

    /// Waits the backoff beside the lane, then returns the delivery to the queue (000 §9.2); at once when stopping.
    fn requeue_at(&self, tag: DeliveryTag, due: DateTime<Utc>) {
        let worker = self.clone();
        let wait = self.until(due);
        let task = self.tasks.track_future(async move {
            tokio::select! {
                biased;
                () = worker.over.cancelled() => {}
                () = worker.inbox.outbox.tx.clock.sleep(wait) => {}
            }
            worker.settle(&[tag], Settle::Nack(Requeue::Yes)).await;
        });
        drop(self.inbox.outbox.tx.tasks.spawn(task));
    }

    /// A settlement that fails ends the subscription: closing it returns what is still held, which comes again as a
    /// duplicate. Going on would keep its place in the prefetch for ever.
    async fn settle(&self, tags: &[DeliveryTag], how: Settle) {
        if tags.is_empty() {
            return;
        }
        let result = match how {
            Settle::Ack => answered(self.subscription.ack(tags)).await,
            Settle::Nack(requeue) => answered(self.subscription.nack(tags, requeue)).await,
        };
        if let Err(error) = result {
            warn!(%error, queue = self.inbox.queue(), "[{}] {} deliveries were not settled", self.inbox.name(), tags.len());
            self.over.cancel();
        }
    }

    fn until(&self, moment: DateTime<Utc>) -> Duration {
        (moment - self.inbox.outbox.now()).to_std().unwrap_or_default().max(Duration::from_millis(1))
    }
}

#[derive(Debug, Clone, Copy)]
enum Settle {
    Ack,
    Nack(Requeue),
}
