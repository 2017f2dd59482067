//! The application in one process, whose relay and consumers run only when the test lets them.

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_contract::samples::start;
use handover_contract::within;
use handover_events::{PartitionSet, TenantId, Trace};
use handover_memory::{ManualClock, SeededRandom};
use handover_outbox::ports::{
    Broker, BrokerError, Clock, Delivery, DeliveryTag, Outgoing, PublishOutcome, QueueDepth, RelayId,
    Requeue, Subscription,
};
use handover_outbox::relay::Relay;
use handover_outbox::topology::Topology;
use handover_outbox::{ConsumerSettings, RelaySettings, Tasks, Transactor, WakeupNotifier, runtime};
use marketplace::consumers::INVENTORY_QUEUE;
use marketplace::idempotency::{Call, ClaimOutcome, IdempotentRequest};
use marketplace::ports::{MarketStore, RequestScope, StoredResponse};
use marketplace::queues::{DEAD_LETTER_QUEUE, DEFAULT_TIMEOUT};
use marketplace::use_cases::{ListProduct, PlaceOrder};
use marketplace::{Actor, App, CommandContext, Role, Rules, service};
use marketplace_domain::{FeeRate, Money, Order, PointsRules, ProductId, UserId};
use marketplace_sql::SqlMarket;
use tokio::sync::{Semaphore, watch};

use super::statements::{Recorder, Statement};

/// The queues of the consumers that have work with the events of a new order without assets.
const CONCERNED: [&str; 1] = [INVENTORY_QUEUE];
/// The relay sleeps as long when it has nothing to do; no other sleep is as long.
const RELAY_IDLE: Duration = Duration::from_secs(600);
/// Longer than the test: the relay renews no lease.
const LEASE_MS: u32 = 10_000_000;

/// The parts of the chain, in their sequence.
#[derive(Debug, Clone, Copy)]
pub(super) enum Phase {
    /// The command with its idempotency key.
    Place,
    /// The relay publishes the events, settles them, and finds no other.
    Publish,
    /// The consumers apply the events and find no other.
    Consume,
}

/// What the application runs on.
pub(super) struct Deployment {
    pub(super) clock: Arc<IdleClock>,
    pub(super) store: SqlMarket,
    pub(super) broker: Arc<dyn Broker>,
    /// Whether a consumer polls its queue in the database.
    pub(super) is_polling: bool,
}

pub(super) struct Chain {
    app: App,
    clock: Arc<IdleClock>,
    broker: Arc<dyn Broker>,
    gates: Arc<Gates>,
    relay_wakeup: WakeupNotifier,
    is_polling: bool,
    orders: AtomicI64,
}

impl Chain {
    /// Starts relay and consumers, and waits until they are idle.
    pub(super) async fn start(deployment: Deployment) -> Chain {
        let Deployment { clock, store, broker, is_polling } = deployment;
        let store: Arc<MarketStore> = Arc::new(store);
        let tx = Transactor::new(store, clock.clone(), Arc::new(SeededRandom::new(7)), Tasks::default());
        let rules = Rules {
            pending_timeout: DEFAULT_TIMEOUT,
            max_retry_count: 3,
            points: PointsRules::default(),
            fee_rate: FeeRate::DEFAULT,
        };
        let gates = Arc::new(Gates::default());
        let app = App::new(
            tx,
            Arc::new(GatedBroker { inner: broker.clone(), gates: gates.clone(), clock: clock.clone() }),
            rules,
        );
        service::prepare(&app).await.unwrap();
        let relay_wakeup = WakeupNotifier::default();
        let settings =
            RelaySettings { scan_interval: RELAY_IDLE, lease_ms: LEASE_MS, ..RelaySettings::default() };
        let relay = Relay::new(
            app.outbox.clone(),
            relay_wakeup.clone(),
            RelayId::new(1, app.outbox.topology()),
            settings,
        );
        drop(app.tx.spawn(relay.run()));
        clock.wait_for_idle_relay(1).await;
        runtime::start_consumers(&app.outbox, app.bound(), &ConsumerSettings::default());
        for subscriber in app.subscribers() {
            gates.of(&subscriber.queue).wait_for_arrivals(1).await;
        }
        gates.of(DEAD_LETTER_QUEUE).wait_for_arrivals(1).await;
        Chain { app, clock, broker, gates, relay_wakeup, is_polling, orders: AtomicI64::new(0) }
    }

    pub(super) async fn stop(&self) {
        self.app.tx.tasks().stop().await;
    }

    /// Lists a product for the next order.
    pub(super) async fn list_product(&self) -> ProductId {
        let command = ListProduct {
            title: "desk lamp, hardly used".to_owned().try_into().unwrap(),
            price: Money::from_minor(8_850).unwrap(),
        };
        self.app.ordering.list_product(&by(20), command).await.unwrap().id
    }

    /// Runs the chain of one order. Returns the statements of each phase.
    pub(super) async fn order(
        &self,
        product: ProductId,
        recorder: &Recorder,
    ) -> [(Phase, Vec<Statement>); 3] {
        drop(recorder.take());
        self.place(product).await;
        let place = (Phase::Place, recorder.take());
        let sleeps = self.clock.sleeps.borrow().of_relay;
        self.relay_wakeup.notify(PartitionSet::ALL);
        self.clock.wait_for_idle_relay(sleeps + 1).await;
        let publish = (Phase::Publish, recorder.take());
        for queue in CONCERNED {
            let gate = self.gates.of(queue);
            gate.let_through().await;
            if self.is_polling {
                gate.let_through().await;
            }
        }
        let consume = (Phase::Consume, recorder.take());
        if self.is_polling {
            self.assert_all_is_consumed().await;
        }
        [place, publish, consume]
    }

    /// Every message was acked by its consumer, and none is in the queue of another. Delay queues have no consumer.
    async fn assert_all_is_consumed(&self) {
        let queues = self.broker.queues().await.unwrap();
        let is_left = |queue: &&QueueDepth| queue.consumers > 0 && queue.ready + queue.unacked > 0;
        let left: Vec<&QueueDepth> = queues.iter().filter(is_left).collect();
        assert!(left.is_empty(), "messages are left, as of a consumer that is not in CONCERNED: {left:?}");
    }

    /// Places an order with an idempotency key, as the HTTP adapter does.
    async fn place(&self, product: ProductId) {
        let number = self.orders.fetch_add(1, Ordering::Relaxed);
        let context = by(10);
        let request = IdempotentRequest {
            scope: RequestScope {
                tenant: context.tenant,
                user: context.user().unwrap(),
                route: "POST /api/v1/orders".into(),
                key: format!("order-of-the-cost-test-{number:03}"),
            },
            body_hash: "9f".repeat(32),
            trace_id: context.trace.trace_id.clone(),
        };
        let claim = match self.app.idempotency.begin(request).await.unwrap() {
            ClaimOutcome::New(claim) => claim,
            ClaimOutcome::Replayed(response) => panic!("expected a new claim, not {response:?}"),
        };
        let call = Call::new(&context, Some(&claim), response);
        self.app.ordering.place(call, PlaceOrder::of(product)).await.unwrap();
    }
}

/// A response as long as that of the HTTP adapter.
fn response(order: &Order) -> Result<StoredResponse, serde_json::Error> {
    let view = serde_json::json!({
        "orderId": order.id.get(),
        "orderNo": order.order_no.to_string(),
        "productId": order.product.get(),
        "buyerId": order.buyer.get(),
        "sellerId": order.seller.get(),
        "status": "pending",
        "cancelReason": null,
        "totalAmount": order.total.to_string(),
        "payableAmount": order.payable.to_string(),
        "couponId": null,
        "couponDiscount": null,
        "walletAmount": null,
        "points": null,
        "refundId": null,
        "carrier": null,
        "trackingNo": null,
        "createTime": order.create_time.to_rfc3339(),
        "payTime": null,
        "updateTime": order.update_time.to_rfc3339(),
    });
    Ok(StoredResponse { code: 201, text: serde_json::to_string(&view)? })
}

fn by(user: i64) -> CommandContext {
    CommandContext {
        actor: Actor::User { id: UserId::try_from(user).unwrap(), roles: vec![Role::User] },
        tenant: TenantId::DEFAULT,
        trace: Trace { trace_id: "0123456789abcdef0123456789abcdef".into(), traceparent: None },
        request_id: None,
    }
}

/// Number of sleeps that have begun.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sleeps {
    all: u64,
    /// Those of [`RELAY_IDLE`].
    of_relay: u64,
}

/// A clock that stands still, and reports when a sleep begins: its caller has nothing more to do.
pub(super) struct IdleClock {
    inner: ManualClock,
    sleeps: watch::Sender<Sleeps>,
}

impl Default for IdleClock {
    fn default() -> IdleClock {
        IdleClock { inner: ManualClock::new(start()), sleeps: watch::channel(Sleeps::default()).0 }
    }
}

impl IdleClock {
    /// Waits until the relay has become idle this many times.
    async fn wait_for_idle_relay(&self, times: u64) {
        let mut sleeps = self.sleeps.subscribe();
        within("the relay becomes idle", sleeps.wait_for(|sleeps| sleeps.of_relay >= times)).await.unwrap();
    }
}

#[async_trait]
impl Clock for IdleClock {
    fn now(&self) -> DateTime<Utc> {
        self.inner.now()
    }

    async fn sleep(&self, duration: Duration) {
        self.sleeps.send_modify(|sleeps| {
            sleeps.all += 1;
            sleeps.of_relay += u64::from(duration == RELAY_IDLE);
        });
        self.inner.sleep(duration).await;
    }
}

/// The gates of the subscriptions, by queue.
#[derive(Default)]
struct Gates(Mutex<BTreeMap<String, Arc<Gate>>>);

impl Gates {
    fn of(&self, queue: &str) -> Arc<Gate> {
        let mut gates = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(gates.entry(queue.to_owned()).or_default())
    }
}

/// Where a consumer waits before each request for deliveries.
struct Gate {
    permits: Semaphore,
    arrivals: watch::Sender<u64>,
}

impl Default for Gate {
    fn default() -> Gate {
        Gate { permits: Semaphore::new(0), arrivals: watch::channel(0).0 }
    }
}

impl Gate {
    /// Lets the consumer request deliveries once. It is back when it has processed and acked them, or when there are none.
    async fn let_through(&self) {
        let arrivals = *self.arrivals.borrow();
        self.permits.add_permits(1);
        self.wait_for_arrivals(arrivals + 1).await;
    }

    async fn wait_for_arrivals(&self, count: u64) {
        let mut arrivals = self.arrivals.subscribe();
        within("a consumer has processed its deliveries", arrivals.wait_for(|arrivals| *arrivals >= count))
            .await
            .unwrap();
    }

    async fn pass(&self) {
        self.arrivals.send_modify(|arrivals| *arrivals += 1);
        self.permits.acquire().await.unwrap().forget();
    }
}

/// A broker whose consumers wait at a [`Gate`].
struct GatedBroker {
    inner: Arc<dyn Broker>,
    gates: Arc<Gates>,
    clock: Arc<IdleClock>,
}

#[async_trait]
impl Broker for GatedBroker {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        self.inner.declare(topology).await
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        self.inner.publish(window).await
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        let inner = self.inner.subscribe(queue, prefetch).await?;
        Ok(Box::new(GatedSubscription { inner, gate: self.gates.of(queue), clock: Arc::clone(&self.clock) }))
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        self.inner.queues().await
    }

    async fn has_messages(&self, queue: &str) -> Result<bool, BrokerError> {
        self.inner.has_messages(queue).await
    }

    async fn blocked(&self) -> Option<String> {
        self.inner.blocked().await
    }
}

struct GatedSubscription {
    inner: Box<dyn Subscription>,
    gate: Arc<Gate>,
    clock: Arc<IdleClock>,
}

#[async_trait]
impl Subscription for GatedSubscription {
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError> {
        loop {
            self.gate.pass().await;
            let mut sleeps = self.clock.sleeps.subscribe();
            let before = sleeps.borrow_and_update().all;
            tokio::select! {
                biased;
                next = self.inner.next() => return next,
                // The database broker sleeps when the queue is empty.
                _ = sleeps.wait_for(|sleeps| sleeps.all > before) => {}
            }
        }
    }

    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError> {
        self.inner.ack(tags).await
    }

    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError> {
        self.inner.nack(tags, requeue).await
    }

    async fn close(&self) -> Result<(), BrokerError> {
        self.inner.close().await
    }
}
