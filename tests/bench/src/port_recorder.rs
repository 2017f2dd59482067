//! Records the calls of the ports `Store` and `Broker` with their times, and forwards them unchanged.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use handover_outbox::ports::{
    Broker, BrokerError, Delivery, DeliveryTag, Outgoing, PublishOutcome, QueueDepth, QueueLoad, Requeue,
    Store, StoreError, Subscription,
};
use handover_outbox::topology::Topology;
use marketplace::ports::{MarketStore, MarketView, Work};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::statement_counter::in_broker;

/// Records the calls of one application. Clones share the record.
#[derive(Clone, Default)]
pub(crate) struct PortRecorder(Arc<Record>);

#[derive(Default)]
struct Record {
    first_view: OnceLock<Instant>,
    subscribed: OnceLock<Instant>,
    confirms: AtomicU64,
    acks: AtomicU64,
    publishing_us: AtomicU64,
    waiting_us: AtomicU64,
    acking_us: AtomicU64,
    event_times: Mutex<HashMap<String, EventTimes>>,
    changed: Notify,
}

/// Times at which an event passed the broker port.
#[derive(Debug, Clone, Copy, Default)]
pub struct EventTimes {
    pub published: Option<Instant>,
    pub confirmed: Option<Instant>,
    pub delivered: Option<Instant>,
    pub acked: Option<Instant>,
}

/// Total time of the calls of a broker.
pub(crate) struct BrokerTime {
    pub(crate) publishing: Duration,
    /// Time spent waiting for deliveries.
    pub(crate) waiting: Duration,
    pub(crate) acking: Duration,
}

impl PortRecorder {
    /// Time at which the relay first queried the outbox for events.
    pub(crate) fn first_view(&self) -> Option<Instant> {
        self.0.first_view.get().copied()
    }

    /// Time at which the first consumer subscribed.
    pub(crate) fn subscribed(&self) -> Option<Instant> {
        self.0.subscribed.get().copied()
    }

    pub(crate) fn broker_time(&self) -> BrokerTime {
        let total = |us: &AtomicU64| Duration::from_micros(us.load(Ordering::Relaxed));
        BrokerTime {
            publishing: total(&self.0.publishing_us),
            waiting: total(&self.0.waiting_us),
            acking: total(&self.0.acking_us),
        }
    }

    /// Waits until `count` messages were confirmed.
    pub(crate) async fn wait_for_confirms(&self, count: u64) {
        self.wait_for(&self.0.confirms, count).await
    }

    /// Waits until `count` messages were acked; if a queue was named in [`PortRecorder::broker`], of that queue.
    pub(crate) async fn wait_for_acks(&self, count: u64) {
        self.wait_for(&self.0.acks, count).await
    }

    async fn wait_for(&self, counter: &AtomicU64, count: u64) {
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

    /// Times by event id; empty unless a queue was named in [`PortRecorder::broker`].
    pub(crate) fn event_times(&self) -> HashMap<String, EventTimes> {
        lock(&self.0.event_times).clone()
    }

    pub(crate) fn store(&self, store: Arc<MarketStore>) -> Arc<MarketStore> {
        Arc::new(RecordedStore { inner: store, recorder: self.clone() })
    }

    /// Times of single events are recorded only if `event_queue` is given, and their deliveries only from that queue.
    pub(crate) fn broker(
        &self,
        broker: Arc<dyn Broker>,
        event_queue: Option<&'static str>,
    ) -> Arc<dyn Broker> {
        Arc::new(RecordedBroker { inner: broker, recorder: self.clone(), event_queue })
    }

    fn add_acks(&self, count: usize) {
        self.0.acks.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Release);
        self.0.changed.notify_waiters();
    }

    fn add_confirms(&self, count: usize) {
        self.0.confirms.fetch_add(u64::try_from(count).unwrap_or(0), Ordering::Release);
        self.0.changed.notify_waiters();
    }
}

fn add_elapsed(counter: &AtomicU64, since: Instant) {
    counter.fetch_add(u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

struct RecordedStore {
    inner: Arc<MarketStore>,
    recorder: PortRecorder,
}

#[async_trait]
impl Store for RecordedStore {
    type Unit = Work;
    type View = dyn MarketView;

    async fn begin(&self) -> Result<Box<Work>, StoreError> {
        self.inner.begin().await
    }

    async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        self.recorder.0.first_view.get_or_init(Instant::now);
        self.inner.view().await
    }

    fn has_single_writer(&self) -> bool {
        self.inner.has_single_writer()
    }
}

struct RecordedBroker {
    inner: Arc<dyn Broker>,
    recorder: PortRecorder,
    event_queue: Option<&'static str>,
}

#[async_trait]
impl Broker for RecordedBroker {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        self.inner.declare(topology).await
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let started = Instant::now();
        let published: Vec<String> = match self.event_queue {
            Some(_) => window.iter().map(|outgoing| outgoing.event_id().to_string()).collect(),
            None => Vec::new(),
        };
        let outcomes = in_broker(self.inner.publish(window)).await?;
        add_elapsed(&self.recorder.0.publishing_us, started);
        let now = Instant::now();
        if !published.is_empty() {
            let mut event_times = lock(&self.recorder.0.event_times);
            for event in published {
                event_times.entry(event).or_default().published = Some(started);
            }
            for outcome in &outcomes {
                if let PublishOutcome::Confirmed(confirmed) = outcome {
                    event_times.entry(confirmed.event_id().to_string()).or_default().confirmed = Some(now);
                }
            }
        }
        let confirmed = outcomes.iter().filter(|outcome| matches!(outcome, PublishOutcome::Confirmed(_)));
        self.recorder.add_confirms(confirmed.count());
        Ok(outcomes)
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        self.recorder.0.subscribed.get_or_init(Instant::now);
        let inner = in_broker(self.inner.subscribe(queue, prefetch)).await?;
        let events = (self.event_queue == Some(queue)).then(Mutex::default);
        let counts_acks = self.event_queue.is_none_or(|named| named == queue);
        Ok(Box::new(RecordedSubscription { inner, recorder: self.recorder.clone(), events, counts_acks }))
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        self.inner.queues().await
    }

    async fn load(&self, queues: &[String], up_to: u32) -> Result<Vec<QueueLoad>, BrokerError> {
        self.inner.load(queues, up_to).await
    }

    async fn has_messages(&self, queue: &str) -> Result<bool, BrokerError> {
        self.inner.has_messages(queue).await
    }

    async fn blocked(&self) -> Option<String> {
        self.inner.blocked().await
    }
}

struct RecordedSubscription {
    inner: Box<dyn Subscription>,
    recorder: PortRecorder,
    /// The event of each unsettled delivery, if times of single events are recorded.
    events: Option<Mutex<HashMap<DeliveryTag, String>>>,
    counts_acks: bool,
}

#[async_trait]
impl Subscription for RecordedSubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        let started = Instant::now();
        let deliveries = in_broker(self.inner.next()).await?;
        add_elapsed(&self.recorder.0.waiting_us, started);
        if let Some(events) = &self.events {
            let now = Instant::now();
            let mut events = lock(events);
            let mut event_times = lock(&self.recorder.0.event_times);
            for delivery in &deliveries {
                let Some(event) = &delivery.message.message_id else { continue };
                events.insert(delivery.tag, event.clone());
                event_times.entry(event.clone()).or_default().delivered.get_or_insert(now);
            }
        }
        Ok(deliveries)
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        let started = Instant::now();
        if let Some(events) = &self.events {
            let mut events = lock(events);
            let mut event_times = lock(&self.recorder.0.event_times);
            for event in tags.iter().filter_map(|tag| events.remove(tag)) {
                event_times.entry(event).or_default().acked.get_or_insert(started);
            }
        }
        in_broker(self.inner.ack(tags)).await?;
        add_elapsed(&self.recorder.0.acking_us, started);
        if self.counts_acks {
            self.recorder.add_acks(tags.len());
        }
        Ok(())
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        self.inner.nack(tags, requeue).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.inner.close().await
    }
}
