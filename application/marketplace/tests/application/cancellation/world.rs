//! One store, one broker, and processes that are created one after another.

use std::time::Duration;

use handover_memory::MemoryBroker;
use handover_outbox::ports::*;
use handover_outbox::*;
use marketplace::ports::*;
use marketplace::use_cases::*;
use marketplace::*;
use marketplace_domain::*;
use tokio::time::Instant;

use super::Interruption;
use crate::support;
pub(crate) use crate::support::{BUYER, SELLER, TENANT, by, gateway, report};

/// A deployment in which FAILED events block later ones.
pub(crate) struct World(support::World);

/// The state that the tested commands change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) products: Vec<(ProductId, ProductStatus, i64)>,
    pub(crate) orders: Vec<(OrderId, OrderStatus, i64)>,
    pub(crate) payments: Vec<(PaymentId, PaymentStatus, i64)>,
    pub(crate) events: Vec<(String, i64)>,
}

impl World {
    pub(crate) async fn new() -> World {
        let mut world = support::World::new().await;
        world.on_failed = OnFailed::Hold;
        World(world)
    }

    pub(crate) fn process(&self) -> (App, WakeupNotifier) {
        let process = self.0.process();
        (process.app, process.wake)
    }

    pub(crate) fn broker(&self) -> &MemoryBroker {
        &self.0.broker
    }

    pub(crate) async fn view(&self) -> Box<dyn MarketView> {
        self.0.view().await
    }

    pub(crate) async fn state(&self) -> State {
        let mut view = self.view().await;
        let all = u32::MAX;
        let products = view.products_page(TENANT, None, None, all).await.unwrap();
        let orders = view.orders_page(TENANT, user(BUYER), OrderSide::Buyer, None, None, all).await.unwrap();
        let mut payments = Vec::new();
        for id in 1..300 {
            let payment = view.payment_by_id(id.try_into().unwrap()).await.unwrap();
            payments.extend(payment.map(|it| (it.id, it.status, it.version)));
        }
        let rows = view.outbox_view().outbox_page(&OutboxFilter::default(), None, all).await.unwrap();
        State {
            products: products.into_iter().map(|it| (it.id, it.status, it.version)).collect(),
            orders: orders.into_iter().map(|it| (it.id, it.status, it.version)).collect(),
            payments,
            events: rows.into_iter().map(|row| (row.event_type, row.aggregate_seq)).collect(),
        }
    }

    pub(crate) async fn rows(&self) -> Vec<OutboxRow> {
        self.0.rows().await
    }

    /// Number of ready and of unacked messages in a queue.
    pub(crate) async fn depth(&self, queue: &str) -> (u64, u64) {
        let depth = self.0.depth(queue).await;
        (depth.ready, depth.unacked)
    }
}

pub(crate) fn user(number: i64) -> UserId {
    number.try_into().unwrap()
}

pub(crate) fn camera() -> ListProduct {
    ListProduct { title: "a camera".to_owned().try_into().unwrap(), price: Money::from_minor(8_850).unwrap() }
}

pub(crate) fn card(order: OrderId) -> StartPayment {
    StartPayment { order, method: Some(PaymentMethod::Card) }
}

pub(crate) fn success(payment: &Payment) -> SettlePayment {
    report(payment, PaymentResult::Success)
}

pub(crate) async fn listed(app: &App) -> Product {
    app.ordering.list_product(&by(SELLER), camera()).await.unwrap()
}

pub(crate) async fn ordered(app: &App) -> Order {
    let product = listed(app).await.id;
    app.ordering.place(&by(BUYER), PlaceOrder::of(product)).await.unwrap()
}

pub(crate) async fn paid(app: &App) -> Order {
    let order = ordered(app).await;
    let payment = app.payments.start(&by(BUYER), card(order.id)).await.unwrap().payment;
    app.payments.settle(&gateway(), success(&payment)).await.unwrap();
    app.queries.find_order(&by(BUYER), order.id).await.unwrap()
}

pub(crate) async fn shipped(app: &App) -> Order {
    let order = paid(app).await;
    app.ordering
        .ship(&by(SELLER), order.id, Shipment::new("SF".into(), "SF-1".into()).unwrap())
        .await
        .unwrap()
}

/// Waits until no interrupted work is running and returns the process that continues.
pub(crate) async fn continuing_app(world: &World, app: &App, interruption: Interruption) -> App {
    match interruption {
        Interruption::CallerCancelled => {
            app.tx.tasks().ended().await;
            app.clone()
        }
        Interruption::ProcessKilled => {
            app.tx.tasks().kill();
            app.tx.tasks().ended().await;
            world.process().0
        }
    }
}

/// Runs work after an interruption and checks that it takes no virtual time: it does not wait for a lock or permit that
/// the interrupted work left behind.
pub(crate) async fn without_waiting<T>(work: impl Future<Output = T>) -> T {
    let started = Instant::now();
    let output = work.await;
    assert_eq!(started.elapsed(), Duration::ZERO, "a lock or a permit was left behind");
    output
}
