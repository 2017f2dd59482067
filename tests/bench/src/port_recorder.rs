//! Where a measurement listens: around the ports, changing nothing.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use handover_application::ports::{
    Broker, BrokerError, Delivery, DeliveryTag, Outgoing, PublishOutcome, QueueDepth, Requeue, Store,
    StoreError, Subscription, UnitOfWork, View,
};
use handover_application::topology::Topology;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::statement_counter::of_the_broker;

/// What was heard. Clones hear together.
#[derive(Clone, Default)]
pub(super) struct Tap(Arc<Heard>);

#[derive(Default)]
struct Heard {
    first_look: OnceLock<Instant>,
    subscribed: OnceLock<Instant>,
    confirmed: AtomicU64,
    acked: AtomicU64,
    publishing_us: AtomicU64,
    waiting_us: AtomicU64,
    acking_us: AtomicU64,
    moments: Mutex<HashMap<String, Moments>>,
    changed: Notify,
}

/// When what happened to an event.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Moments {
    pub(super) handed_over: Option<Instant>,
    pub(super) confirmed: Option<Instant>,
    pub(super) delivered: Option<Instant>,
    pub(super) acked: Option<Instant>,
}

impl Tap {
    /// When the relay first looked for something to do.
    pub(super) fn first_look(&self) -> Option<Instant> {
        self.0.first_look.get().copied()
    }

    /// When a consumer subscribed.
    pub(super) fn subscribed(&self) -> Option<Instant> {
        self.0.subscribed.get().copied()
    }

    /// How long was spent in publishing, in waiting for deliveries and in acking.
    pub(super) fn broker_time(&self) -> (Duration, Duration, Duration) {
        let of = |us: &AtomicU64| Duration::from_micros(us.load(Ordering::Relaxed));
        (of(&self.0.publishing_us), of(&self.0.waiting_us), of(&self.0.acking_us))
    }

    /// Waits until so many were confirmed.
    pub(super) async fn confirmed(&self, count: u64) {
        self.reached(&self.0.confirmed, count).await
    }

    /// Waits until so many were acked.
    pub(super) async fn acked(&self, count: u64) {
        self.reached(&self.0.acked, count).await
    }

    async fn reached(&self, counter: &AtomicU64, count: u64) {
        loop {
            let changed = self.0.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if counter.load(Ordering::Acquire) >= count {
                return;
            }
            changed.await;
        }
    }

    /// What happened to each event, if that was asked for.
    pub(super) fn moments(&self) -> HashMap<String, Moments> {
        lock(&self.0.moments).clone()
    }

    /// A store that is listened to.
    pub(super) fn store(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(TappedStore { inner: store, tap: self.clone() })
    }

    /// A broker that is listened to; `queue` is the one whose deliveries are noted one by one.
    pub(super) fn broker(&self, broker: Arc<dyn Broker>, noted: Option<&'static str>) -> Arc<dyn Broker> {
        Arc::new(TappedBroker { inner: broker, tap: self.clone(), noted })
    }
}

fn add(counter: &AtomicU64, since: Instant) {
    counter.fetch_add(u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct TappedStore {
    inner: Arc<dyn Store>,
    tap: Tap,
}

#[async_trait]
impl Store for TappedStore {
    async fn begin(&self) -> Result<Box<dyn UnitOfWork>, StoreError> {
        self.inner.begin().await
    }

    async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        self.tap.0.first_look.get_or_init(Instant::now);
        self.inner.view().await
    }
}

struct TappedBroker {
    inner: Arc<dyn Broker>,
    tap: Tap,
    noted: Option<&'static str>,
}

#[async_trait]
impl Broker for TappedBroker {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        self.inner.declare(topology).await
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let begun = Instant::now();
        let handed_over: Vec<String> = match self.noted {
            Some(_) => window.iter().map(|outgoing| outgoing.event_id().to_string()).collect(),
            None => Vec::new(),
        };
        let outcomes = of_the_broker(self.inner.publish(window)).await?;
        add(&self.tap.0.publishing_us, begun);
        let now = Instant::now();
        if !handed_over.is_empty() {
            let mut moments = lock(&self.tap.0.moments);
            for event in handed_over {
                moments.entry(event).or_default().handed_over = Some(begun);
            }
            for outcome in &outcomes {
                if let PublishOutcome::Confirmed(confirmed) = outcome {
                    moments.entry(confirmed.event_id().to_string()).or_default().confirmed = Some(now);
                }
            }
        }
        let confirmed =
            outcomes.iter().filter(|outcome| matches!(outcome, PublishOutcome::Confirmed(_))).count();
        self.tap.0.confirmed.fetch_add(u64::try_from(confirmed).unwrap_or(0), Ordering::Release);
        self.tap.0.changed.notify_waiters();
        Ok(outcomes)
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        self.tap.0.subscribed.get_or_init(Instant::now);
        let inner = of_the_broker(self.inner.subscribe(queue, prefetch)).await?;
        let noted = match self.noted {
            Some(noted) if noted == queue => Some(Mutex::default()),
            Some(_) | None => None,
        };
        Ok(Box::new(TappedSubscription { inner, tap: self.tap.clone(), noted }))
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        self.inner.queues().await
    }

    async fn blocked(&self) -> Option<String> {
        self.inner.blocked().await
    }
}

struct TappedSubscription {
    inner: Box<dyn Subscription>,
    tap: Tap,
    /// Which event is behind which tag.
    noted: Option<Mutex<HashMap<DeliveryTag, String>>>,
}

#[async_trait]
impl Subscription for TappedSubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        let begun = Instant::now();
        let deliveries = of_the_broker(self.inner.next()).await?;
        add(&self.tap.0.waiting_us, begun);
        if let Some(noted) = &self.noted {
            let now = Instant::now();
            let (mut noted, mut moments) = (lock(noted), lock(&self.tap.0.moments));
            for delivery in &deliveries {
                let Some(event) = &delivery.message.message_id else { continue };
                noted.insert(delivery.tag, event.clone());
                moments.entry(event.clone()).or_default().delivered.get_or_insert(now);
            }
        }
        Ok(deliveries)
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        let begun = Instant::now();
        if let Some(noted) = &self.noted {
            let (mut noted, mut moments) = (lock(noted), lock(&self.tap.0.moments));
            for event in tags.iter().filter_map(|tag| noted.remove(tag)) {
                moments.entry(event).or_default().acked.get_or_insert(begun);
            }
        }
        of_the_broker(self.inner.ack(tags)).await?;
        add(&self.tap.0.acking_us, begun);
        self.tap.0.acked.fetch_add(u64::try_from(tags.len()).unwrap_or(0), Ordering::Release);
        self.tap.0.changed.notify_waiters();
        Ok(())
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        self.inner.nack(tags, requeue).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.inner.close().await
    }
}
