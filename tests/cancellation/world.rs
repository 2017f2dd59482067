//! One store, one broker, and processes that are started one after another.

use std::sync::Arc;
use std::time::Duration;

use handover_application::ports::*;
use handover_application::topology::Topology;
use handover_application::use_cases::*;
use handover_application::*;
use handover_domain::*;
use handover_memory::{MemoryBroker, MemoryStore, SeededChance, VirtualClock};
use tokio::time::Instant;

use super::Cut;

pub const TENANT: TenantId = TenantId::DEFAULT;
pub const BUYER: i64 = 10;
pub const SELLER: i64 = 20;
pub const TIMEOUT: Duration = Duration::from_secs(900);

pub struct World {
    clock: VirtualClock,
    store: MemoryStore,
    pub broker: MemoryBroker,
    chance: Arc<SeededChance>,
}

/// Everything that a command may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub products: Vec<(ProductId, ProductStatus, i64)>,
    pub orders: Vec<(OrderId, OrderStatus, i64)>,
    pub payments: Vec<(PaymentId, PaymentStatus, i64)>,
    pub events: Vec<(String, i64)>,
}

impl World {
    pub async fn new() -> World {
        let clock = VirtualClock::new("2026-02-04T10:30:00Z".parse().unwrap());
        let port: Arc<dyn Clock> = Arc::new(clock.clone());
        let store = MemoryStore::new(Arc::clone(&port), Wake::default());
        let broker = MemoryBroker::new(port);
        broker.declare(&Topology::standard(TIMEOUT)).await.unwrap();
        World { clock, store, broker, chance: Arc::new(SeededChance::new(11)) }
    }

    /// A new process.
    pub fn process(&self) -> (App, Wake) {
        let wake = Wake::default();
        let tx = Transactor {
            store: Arc::new(self.store.for_process(wake.clone())),
            tasks: Tasks::default(),
            clock: Arc::new(self.clock.clone()),
            chance: self.chance.clone(),
            policy: TxPolicy::default(),
        };
        let rules = Rules {
            pending_timeout: TIMEOUT,
            max_retry_count: 3,
            on_failed: OnFailed::Hold,
            points: PointsRules::default(),
        };
        (App::new(tx, Arc::new(self.broker.clone()), rules), wake)
    }

    pub async fn view(&self) -> Box<dyn View> {
        self.store.view().await.unwrap()
    }

    pub async fn state(&self) -> State {
        let mut view = self.view().await;
        let all = u32::MAX;
        let products = view.products_page(TENANT, None, None, all).await.unwrap();
        let orders = view.orders_page(TENANT, user(BUYER), OrderSide::Buyer, None, None, all).await.unwrap();
        let mut payments = Vec::new();
        for id in 1..300 {
            let payment = view.payment_by_id(id.try_into().unwrap()).await.unwrap();
            payments.extend(payment.map(|it| (it.id, it.status, it.version)));
        }
        let rows = view.outbox_page(&OutboxFilter::default(), None, all).await.unwrap();
        State {
            products: products.into_iter().map(|it| (it.id, it.status, it.version)).collect(),
            orders: orders.into_iter().map(|it| (it.id, it.status, it.version)).collect(),
            payments,
            events: rows.into_iter().map(|row| (row.event_type, row.aggregate_seq)).collect(),
        }
    }

    pub async fn rows(&self) -> Vec<OutboxRow> {
        let mut rows = self.view().await.outbox_page(&OutboxFilter::default(), None, u32::MAX).await.unwrap();
        rows.reverse();
        rows
    }

    /// What is ready and what is unsettled in a queue.
    pub async fn depth(&self, queue: &str) -> (u64, u64) {
        let depths = self.broker.queues().await.unwrap();
        let depth = depths.iter().find(|depth| depth.name == queue).unwrap();
        (depth.ready, depth.unacked)
    }
}

pub fn user(number: i64) -> UserId {
    number.try_into().unwrap()
}

pub fn by(number: i64) -> CommandContext {
    CommandContext {
        actor: Actor::User { id: user(number), roles: vec![Role::User] },
        tenant: TENANT,
        trace: Trace { trace_id: "trace-xxx".into(), traceparent: None },
        idempotency: None,
    }
}

pub fn gateway() -> CommandContext {
    CommandContext { actor: Actor::Gateway, ..by(1) }
}

pub fn camera() -> ListProduct {
    ListProduct { title: "a camera".to_owned().try_into().unwrap(), price: Money::from_minor(8_850).unwrap() }
}

pub fn card(order: OrderId) -> StartPayment {
    StartPayment { order, method: "card".into() }
}

pub fn success(payment: &Payment) -> SettlePayment {
    let transaction_id = format!("txn-{}", payment.id);
    let report = Settlement { transaction_id, result: PaymentResult::Success, amount: payment.amount };
    SettlePayment { payment: payment.id, report }
}

pub async fn listed(app: &App) -> Product {
    list_product(app, &by(SELLER), camera()).await.unwrap()
}

pub async fn ordered(app: &App) -> Order {
    let product = listed(app).await.id;
    place_order(app, &by(BUYER), PlaceOrder::of(product)).await.unwrap()
}

pub async fn paid(app: &App) -> Order {
    let order = ordered(app).await;
    let payment = start_payment(app, &by(BUYER), card(order.id)).await.unwrap();
    settle_payment(app, &gateway(), success(&payment)).await.unwrap();
    find_order(app, &by(BUYER), order.id).await.unwrap()
}

pub async fn shipped(app: &App) -> Order {
    let order = paid(app).await;
    ship_order(app, &by(SELLER), order.id, Shipment::new("SF".into(), "SF-1".into()).unwrap()).await.unwrap()
}

/// Ends what was cut, waits until nothing of it runs, and gives the process that goes on.
pub async fn after(world: &World, app: &App, cut: Cut) -> App {
    match cut {
        Cut::CallerGoes => {
            app.tx.tasks.ended().await;
            app.clone()
        }
        Cut::ProcessEnds => {
            app.tx.tasks.kill();
            app.tx.tasks.ended().await;
            world.process().0
        }
    }
}

/// Nothing that was cut is in anybody's way: what follows waits for nothing.
pub async fn without_waiting<T>(work: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let output = work.await;
    assert_eq!(begun.elapsed(), Duration::ZERO, "a lock or a permit was left behind");
    output
}
