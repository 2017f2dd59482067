//! A lending library on in-memory adapters: one store, one broker, one virtual clock, one process.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

use handover_events::{AggregateRef, ConsumeStatus, EventId, OutboxStatus, TenantId};
use handover_memory::{MemoryBroker, MemoryStore, MemoryUnit, SeededRandom, VirtualClock};
use handover_outbox::consumers::{Bound, Subscriber};
use handover_outbox::ports::*;
use handover_outbox::relay::envelope_of;
use handover_outbox::topology::Topology;
use handover_outbox::{
    ConsumerSettings, EventSpec, Outbox, RelaySettings, Tasks, Texts, Transactor, WakeupNotifier, append,
    runtime, with_tx,
};

use crate::log;

pub(crate) const QUEUE: &str = "library.loans";

/// Waits in virtual time until the condition is true, at most one minute.
#[allow(clippy::disallowed_methods, reason = "the runtime's clock is paused: no real waiting")]
pub(crate) async fn eventually(mut condition: impl AsyncFnMut() -> bool) {
    let started_at = tokio::time::Instant::now();
    while !condition().await {
        assert!(started_at.elapsed() <= Duration::from_secs(60), "condition not met within a minute");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) struct Library {
    pub(crate) outbox: Outbox,
    pub(crate) tx: Transactor<MemoryUnit, MemoryUnit>,
    store: MemoryStore,
    clock: Arc<VirtualClock>,
    pub(crate) broker: MemoryBroker,
    consumers: Vec<Bound>,
    wake: WakeupNotifier,
}

impl Library {
    pub(crate) fn sending(events: impl IntoIterator<Item = EventSpec>) -> Library {
        log::capture();
        let clock = Arc::new(VirtualClock::new("2026-02-04T10:30:00Z".parse().unwrap()));
        let wake = WakeupNotifier::default();
        let broker = MemoryBroker::new(clock.clone());
        let store = MemoryStore::new(clock.clone(), wake.clone());
        Library::process(store, clock, broker, wake, 7, events)
    }

    fn process(
        store: MemoryStore,
        clock: Arc<VirtualClock>,
        broker: MemoryBroker,
        wake: WakeupNotifier,
        seed: u64,
        events: impl IntoIterator<Item = EventSpec>,
    ) -> Library {
        let random = Arc::new(SeededRandom::new(seed));
        let tx = Transactor::new(Arc::new(store.clone()) as Arc<_>, clock.clone(), random, Tasks::default());
        let topology = Topology::new("library.events", "library.dead-letters", "library.dead");
        let outbox = Outbox::new(tx.outbox(), Arc::new(broker.clone()), topology);
        let outbox = events.into_iter().fold(outbox, Outbox::with_event);
        Library { outbox, tx, store, clock, broker, consumers: Vec::new(), wake }
    }

    /// Another process on the same store and broker, with its own event types and without a consumer.
    pub(crate) fn another_process(&self, events: impl IntoIterator<Item = EventSpec>) -> Library {
        let wake = WakeupNotifier::default();
        let store = self.store.for_process(wake.clone());
        let seed = self.tx.random().next();
        Library::process(store, self.clock.clone(), self.broker.clone(), wake, seed, events)
    }

    /// Adds a consumer of all book events.
    pub(crate) fn with(self, subscriber: &Subscriber<MemoryUnit>) -> Library {
        self.with_bound(subscriber, &["book.*"])
    }

    /// Adds a consumer with these bindings.
    pub(crate) fn with_bound(self, subscriber: &Subscriber<MemoryUnit>, bindings: &[&str]) -> Library {
        let bound = subscriber.bind(self.tx.store());
        let outbox = self.outbox.clone().with_consumer(subscriber, bindings);
        Library { outbox, consumers: vec![bound], ..self }
    }

    /// Adds a consumer that receives the book events of another outbox.
    pub(crate) fn receiving(mut self, subscriber: &Subscriber<MemoryUnit>, exchange: &str) -> Library {
        self.consumers.push(subscriber.bind(self.tx.store()));
        let outbox = self.outbox.clone().with_receiving_consumer(subscriber, exchange, &["book.*"]);
        Library { outbox, ..self }
    }

    /// Adds a consumer whose unit of work has only an outbox.
    pub(crate) fn with_outbox_consumer(self, subscriber: &Subscriber<dyn UnitOfWork>) -> Library {
        let bound = subscriber.bind(self.outbox.tx.store());
        let outbox = self.outbox.clone().with_consumer(subscriber, &["book.*"]);
        Library { outbox, consumers: vec![bound], ..self }
    }

    /// Another process on the same store and broker, with one consumer.
    pub(crate) fn next_process(&self, subscriber: &Subscriber<MemoryUnit>) -> Library {
        let next = self.another_process([]);
        let mut outbox = self.outbox.clone();
        outbox.tx = next.tx.outbox();
        let consumers = vec![subscriber.bind(next.tx.store())];
        Library { outbox, consumers, ..next }
    }

    pub(crate) fn with_texts(self, texts: Texts) -> Library {
        Library { outbox: self.outbox.clone().with_texts(texts), ..self }
    }

    pub(crate) async fn prepare(&self) {
        runtime::prepare(&self.outbox).await.unwrap();
    }

    pub(crate) fn start_relay(&self) {
        self.start_relay_with(&RelaySettings::default());
    }

    pub(crate) fn start_relay_with(&self, settings: &RelaySettings) {
        runtime::start_relay(&self.outbox, &self.wake, settings);
    }

    pub(crate) fn start(&self) {
        self.start_relay();
        self.start_consumers();
    }

    pub(crate) fn start_consumers(&self) {
        runtime::start_consumers(&self.outbox, self.consumers.clone(), &ConsumerSettings::default());
    }

    pub(crate) async fn started(self) -> Library {
        self.prepare().await;
        self.start();
        self
    }

    pub(crate) fn event(&self, id: &str, event_type: &str, book: i64, seq: i64, payload: &str) -> NewEvent {
        NewEvent {
            event_id: event_id(id),
            event_type: event_type.to_owned(),
            aggregate: AggregateRef { tenant: TenantId::DEFAULT, kind: "Book".to_owned(), id: book.into() },
            aggregate_seq: Some(seq),
            payload: payload.to_owned(),
            metadata: EventMetadata::default(),
            occurred_at: self.outbox.now(),
            max_retry_count: 0,
            idle_consumers: IdleConsumers::default(),
            routing_key: None,
            due: None,
        }
    }

    pub(crate) async fn commit(&self, events: Vec<NewEvent>) {
        let appended = with_tx(&self.tx, events, |unit, events, _| {
            Box::pin(async move { append(unit.outbox(), events).await })
        });
        appended.await.unwrap();
    }

    /// Sets the wall clock this long after the time of the runtime. No sleep ends, so that no time passes for tasks.
    pub(crate) fn set_clock_forward(&self, by: Duration) {
        self.clock.set_skew(chrono::TimeDelta::from_std(by).unwrap());
    }

    /// Adds the message of an event to the queue, as relay and broker do.
    pub(crate) async fn deliver(&self, id: &str) {
        let message = self.message(id).await;
        self.inject(message);
    }

    /// The message of an event, as the relay publishes it.
    pub(crate) async fn message(&self, id: &str) -> Message {
        let row = self.row(id).await;
        let headers = [
            ("tenantId", row.aggregate.tenant.to_string()),
            ("aggregateType", row.aggregate.kind.clone()),
            ("aggregateId", row.aggregate.id.to_string()),
        ];
        Message {
            message_id: Some(row.event_id.to_string()),
            kind: Some(row.event_type.clone()),
            correlation_id: None,
            headers: headers.map(|(name, value)| (name.to_owned(), value)).into(),
            body: envelope_of(&row).unwrap().to_json(),
        }
    }

    /// Adds a message to the queue.
    pub(crate) fn inject(&self, message: Message) {
        assert!(self.broker.inject(QUEUE, message));
    }

    /// Redrives a sent event and waits until its message has been processed.
    pub(crate) async fn redrive(&self, id: &str) {
        let again = Redrive { event_id: event_id(id), due: self.outbox.now() };
        let mut unit = self.tx.begin().await.unwrap();
        assert_eq!(unit.outbox().redrive(&[again], self.outbox.now()).await.unwrap().len(), 1);
        unit.commit().await.unwrap();
        eventually(async || self.row(id).await.status == OutboxStatus::Sent && self.is_quiet().await).await;
    }

    /// Whether the queue is empty and has no unsettled delivery.
    pub(crate) async fn is_settled_at(&self, queue: &str) -> bool {
        let queues = self.outbox.broker.queues().await.unwrap();
        queues.iter().all(|depth| depth.name != queue || depth.ready + depth.unacked == 0)
    }

    /// The bodies of the messages in a queue without a consumer.
    pub(crate) async fn bodies_in(&self, queue: &str, count: usize) -> Vec<String> {
        let subscription = self.outbox.broker.subscribe(queue, NonZeroU16::MAX).await.unwrap();
        let mut bodies = Vec::new();
        while bodies.len() < count {
            let deliveries = subscription.next().await.unwrap();
            bodies.extend(deliveries.into_iter().map(|delivery| delivery.message.body));
        }
        bodies
    }

    pub(crate) async fn is_quiet(&self) -> bool {
        let queues = self.outbox.broker.queues().await.unwrap();
        queues.iter().all(|queue| queue.ready + queue.unacked == 0)
    }

    pub(crate) async fn row(&self, id: &str) -> OutboxRow {
        let mut view = self.outbox.view().await.unwrap();
        view.outbox_view().outbox_by_event(&[event_id(id)]).await.unwrap().remove(0)
    }

    /// Ids of the events of this type, in the order in which they were appended.
    pub(crate) async fn ids(&self, event_type: &str) -> Vec<String> {
        let filter = OutboxFilter { event_type: Some(event_type.to_owned()), ..OutboxFilter::default() };
        let mut view = self.outbox.view().await.unwrap();
        let newest_first = view.outbox_view().outbox_page(&filter, None, 100).await.unwrap();
        newest_first.iter().rev().map(|row| row.event_id.to_string()).collect()
    }

    /// Consume-log status and number of attempts of an event.
    pub(crate) async fn consumed(&self, consumer: &str, id: &str) -> Option<(ConsumeStatus, u32)> {
        let mut view = self.outbox.view().await.unwrap();
        let record = view.outbox_view().consumption(consumer, &event_id(id)).await.unwrap();
        record.map(|record| (record.status, record.attempts))
    }

    pub(crate) async fn dead_letters(&self) -> Vec<DeadLetter> {
        let mut view = self.outbox.view().await.unwrap();
        let dead_letters =
            view.outbox_view().dead_letters_page(&DeadLetterFilter::default(), None, 100).await;
        dead_letters.unwrap().into_iter().map(|dead_letter| dead_letter.effect).collect()
    }
}

pub(crate) fn event_id(id: &str) -> EventId {
    id.parse().unwrap()
}
