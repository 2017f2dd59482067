//! In-memory deployment: one store, one broker, one virtual clock, and any number of processes.

mod faulty_store;
mod samples;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::*;
use handover_memory::{MemoryBroker, SeededRandom, VirtualClock};
use handover_outbox::consumers::{Consumer, DeadLetterDrainer, Subscriber};
use handover_outbox::ports::*;
use handover_outbox::relay::Relay;
use handover_outbox::*;
use marketplace::consumers::{self, CREDIT_QUEUE, STATUS_SYNC_QUEUE, WEBHOOK_QUEUE};
use marketplace::ports::*;
use marketplace::queues::DEFAULT_TIMEOUT;
use marketplace::use_cases::*;
use marketplace::*;
use marketplace_domain::*;
use marketplace_memory::MemoryStore;

pub(crate) use faulty_store::{CommitFault, FaultyStore, StoreFaults, UNSTORABLE};
pub(crate) use samples::{by, event_id, gateway, message, money, report, sample};

pub(crate) const TENANT: TenantId = TenantId::DEFAULT;
pub(crate) const SELLER: i64 = 20;
pub(crate) const BUYER: i64 = 10;

pub(crate) const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Sleeps in virtual time. Tasks that become due during the sleep run.
#[allow(clippy::disallowed_methods, reason = "the time of the runtime is paused: no real time passes")]
pub(crate) async fn pass(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Waits in virtual time until the condition is true and returns the elapsed time. Panics after `within`.
pub(crate) async fn eventually(within: Duration, mut condition: impl AsyncFnMut() -> bool) -> Duration {
    let started = tokio::time::Instant::now();
    while !condition().await {
        assert!(started.elapsed() <= within, "condition not true within {within:?}");
        pass(millis(10)).await;
    }
    started.elapsed()
}

/// The parts of a deployment that all its processes share.
pub(crate) struct World {
    pub(crate) clock: VirtualClock,
    pub(crate) store: MemoryStore,
    pub(crate) broker: MemoryBroker,
    pub(crate) pending_timeout: Duration,
    /// Whether FAILED events block later ones. A change applies to processes created afterwards.
    pub(crate) on_failed: OnFailed,
    /// A change applies to processes created afterwards.
    pub(crate) points: PointsRules,
    random: Arc<SeededRandom>,
}

/// One process.
#[derive(Clone)]
pub(crate) struct Process {
    pub(crate) app: App,
    pub(crate) wake: WakeupNotifier,
    pub(crate) faults: StoreFaults,
}

impl World {
    /// Creates a deployment and declares its topology.
    pub(crate) async fn new() -> World {
        World::with_timeout(DEFAULT_TIMEOUT).await
    }

    pub(crate) async fn with_timeout(pending_timeout: Duration) -> World {
        let clock = VirtualClock::new("2026-02-04T10:30:00Z".parse().unwrap());
        let port: Arc<dyn Clock> = Arc::new(clock.clone());
        let store = MemoryStore::new(Arc::clone(&port), WakeupNotifier::default());
        let broker = MemoryBroker::new(port);
        broker.declare(&consumers::topology(pending_timeout)).await.unwrap();
        let on_failed = OnFailed::Continue;
        let points = PointsRules::default();
        let random = Arc::new(SeededRandom::new(7));
        World { clock, store, broker, pending_timeout, on_failed, points, random }
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    pub(crate) fn process(&self) -> Process {
        self.process_on(Arc::new(self.broker.clone()))
    }

    /// Creates a process whose broker is `broker`.
    pub(crate) fn process_on(&self, broker: Arc<dyn Broker>) -> Process {
        let wake = WakeupNotifier::default();
        let faults = StoreFaults::default();
        let inner: Arc<MarketStore> = Arc::new(self.store.for_process(wake.clone()));
        let tx = Transactor::new(
            Arc::new(FaultyStore { inner, faults: faults.clone() }),
            Arc::new(self.clock.clone()),
            self.random.clone(),
            Tasks::default(),
        );
        let pending_timeout = self.pending_timeout;
        let points = self.points;
        let rules = Rules { pending_timeout, max_retry_count: 3, points, fee_rate: FeeRate::DEFAULT };
        Process { app: App::new(tx, broker, rules).with_on_failed(self.on_failed), wake, faults }
    }

    pub(crate) async fn view(&self) -> Box<dyn MarketView> {
        self.store.view().await.unwrap()
    }

    pub(crate) async fn row(&self, id: &str) -> OutboxRow {
        let id = event_id(id);
        let rows = self.view().await.outbox_view().outbox_by_event(std::slice::from_ref(&id)).await.unwrap();
        rows.into_iter().next().unwrap_or_else(|| panic!("no outbox row for event {id}"))
    }

    pub(crate) async fn status(&self, id: &str) -> OutboxStatus {
        self.row(id).await.status
    }

    /// All outbox rows, oldest first.
    pub(crate) async fn rows(&self) -> Vec<OutboxRow> {
        let mut rows = self
            .view()
            .await
            .outbox_view()
            .outbox_page(&OutboxFilter::default(), None, 10_000)
            .await
            .unwrap();
        rows.reverse();
        rows
    }

    /// Sequence numbers and types of the events of an order, oldest row first.
    pub(crate) async fn history(&self, order: OrderId) -> Vec<(i64, String)> {
        let rows = self.rows().await;
        let of_order =
            rows.into_iter().filter(|row| row.aggregate.kind == "Order" && row.aggregate.id == order.get());
        of_order.map(|row| (row.aggregate_seq, row.event_type)).collect()
    }

    pub(crate) async fn order(&self, id: OrderId) -> Order {
        self.view().await.order_by_id(TENANT, id).await.unwrap().unwrap()
    }

    pub(crate) async fn product(&self, id: ProductId) -> Product {
        self.view().await.product_by_id(TENANT, id).await.unwrap().unwrap()
    }

    /// Removes the bindings of `order.status.changed`: its messages become unroutable. Other events are still routed.
    pub(crate) fn unbind_changed(&self) {
        for queue in [STATUS_SYNC_QUEUE, CREDIT_QUEUE, WEBHOOK_QUEUE] {
            assert!(self.broker.unbind(queue, "order.status.changed"), "{queue}");
        }
    }

    pub(crate) async fn depth(&self, queue: &str) -> QueueDepth {
        let depths = self.broker.queues().await.unwrap();
        depths.into_iter().find(|depth| depth.name == queue).unwrap()
    }

    /// The consume-log record of an event at a consumer.
    pub(crate) async fn log(&self, consumer: &str, id: &str) -> Option<ConsumeRecord> {
        self.view().await.outbox_view().consumption(consumer, &event_id(id)).await.unwrap()
    }

    pub(crate) async fn log_status(&self, consumer: &str, id: &str) -> Option<ConsumeStatus> {
        self.log(consumer, id).await.map(|record| record.status)
    }

    /// All dead letters, oldest first.
    pub(crate) async fn dead_letters(&self) -> Vec<DeadLetter> {
        let filter = DeadLetterFilter::default();
        let newest_first =
            self.view().await.outbox_view().dead_letters_page(&filter, None, 1_000).await.unwrap();
        newest_first.into_iter().rev().map(|dead_letter| dead_letter.effect).collect()
    }

    /// Puts the message of an outbox row into a queue, as the relay and the broker do.
    pub(crate) async fn deliver(&self, queue: &str, id: &str) {
        let row = self.row(id).await;
        assert!(self.broker.inject(queue, message(&row)));
    }

    /// Marks rows SENT without a message, as if the broker had lost the messages after it confirmed them.
    pub(crate) async fn mark_sent_without_message(&self, ids: &[&str]) {
        let proofs: Vec<Confirmed> = ids.iter().map(|id| proof(id)).collect();
        let mut unit = self.store.begin().await.unwrap();
        unit.outbox().mark_sent(&proofs.iter().collect::<Vec<_>>(), self.now()).await.unwrap();
        unit.commit().await.unwrap();
    }
}

#[allow(clippy::disallowed_methods, reason = "simulates a broker that confirms the message")]
fn proof(id: &str) -> Confirmed {
    match Outgoing::new(event_id(id), String::new(), Message::default()).confirmed() {
        PublishOutcome::Confirmed(proof) => proof,
        PublishOutcome::Returned { .. } | PublishOutcome::Nacked { .. } | PublishOutcome::Unknown { .. } => {
            unreachable!("confirmed() returns Confirmed")
        }
    }
}

impl Process {
    /// Commits events, as a use case does.
    pub(crate) async fn commit(&self, events: Vec<NewEvent>) {
        with_tx(&self.app.tx, events, |unit, events, _| {
            Box::pin(async move { unit.outbox().append(events).await })
        })
        .await
        .unwrap();
    }

    pub(crate) fn start_relay(&self, name: &str, settings: RelaySettings) {
        let relay =
            Relay::new(self.app.outbox.clone(), self.wake.clone(), RelayId(name.to_owned()), settings);
        drop(self.app.tx.spawn(relay.run()));
    }

    /// Starts a consumer and waits until it accepts deliveries.
    pub(crate) async fn start_consumer(&self, subscriber: &Subscriber<Work>, settings: ConsumerSettings) {
        let consumer =
            Consumer::new(self.app.outbox.clone(), subscriber.bind(self.app.tx.store()), Arc::new(settings));
        drop(self.app.tx.spawn(consumer.run()));
        pass(millis(1)).await;
    }

    pub(crate) fn start_drainer(&self, subscribers: &[Subscriber<Work>]) {
        let bound: Vec<_> = subscribers.iter().map(|it| it.bind(self.app.tx.store())).collect();
        let drainer = DeadLetterDrainer::new(self.app.outbox.clone(), &bound, &Arc::default());
        drop(self.app.tx.spawn(drainer.run()));
    }

    /// Simulates a crash of the process and waits until its tasks have ended.
    pub(crate) async fn kill(&self) {
        self.app.tx.tasks().kill();
        self.app.tx.tasks().ended().await;
    }

    pub(crate) async fn listed(&self) -> Product {
        let command = ListProduct { title: "a camera".to_owned().try_into().unwrap(), price: money(8_850) };
        self.app.ordering.list_product(&by(SELLER), command).await.unwrap()
    }

    pub(crate) async fn ordered(&self) -> Order {
        let product = self.listed().await.id;
        self.app.ordering.place(&by(BUYER), PlaceOrder::of(product)).await.unwrap()
    }

    pub(crate) async fn started_payment(&self, order: OrderId) -> Payment {
        let command = StartPayment { order, method: Some(PaymentMethod::Card) };
        self.app.payments.start(&by(BUYER), command).await.unwrap().payment
    }

    /// Settles a payment with this report of the gateway.
    pub(crate) async fn settle(
        &self,
        payment: &Payment,
        result: PaymentResult,
    ) -> Result<Payment, UseCaseError<PaymentCommandRefusal>> {
        self.app.payments.settle(&gateway(), report(payment, result)).await
    }

    pub(crate) async fn paid(&self) -> Order {
        let order = self.ordered().await;
        let payment = self.started_payment(order.id).await;
        self.settle(&payment, PaymentResult::Success).await.unwrap();
        self.app.queries.find_order(&by(BUYER), order.id).await.unwrap()
    }
}

/// The first consume-log record of this event at a consumer.
pub(crate) fn first_record(
    row: OutboxRow,
    consumer: &str,
    status: ConsumeStatus,
    at: DateTime<Utc>,
) -> Consumption {
    Consumption {
        consumer: consumer.into(),
        event_id: row.event_id,
        event_type: row.event_type,
        aggregate: row.aggregate,
        aggregate_seq: row.aggregate_seq,
        expected: Expected::Absent,
        status,
        attempts: 0,
        next_retry_time: None,
        lease_until: None,
        error_message: None,
        idempotency_key: None,
        consume_result: None,
        payload_hash: String::new(),
        trace_id: String::new(),
        cost_ms: 0,
        consume_time: at,
    }
}
