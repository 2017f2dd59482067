//! Callbacks and jobs continue the trace of the request that they belong to.

use std::sync::Arc;

use handover_events::Trace;
use handover_outbox::ports::OutboxRow;
use marketplace::jobs::{ContinuousReconciliation, LockTimeoutReaper, RefundDispatcher, TimeoutSweep};
use marketplace::ports::MockGateway;
use marketplace::use_cases::*;
use marketplace::{CommandContext, ConsistencySettings, RefundSettings, TimeoutSettings};
use marketplace_domain::*;

use super::market::{Market, refund_report};
use crate::support::{BUYER, SELLER, by, gateway, money, pass, report, secs};

/// The trace of a request, with its own W3C trace context.
fn trace(name: &str) -> Trace {
    let w3c: String = name.bytes().map(|byte| format!("{byte:02x}")).collect();
    Trace { trace_id: name.to_owned(), traceparent: Some(format!("00-{w3c:0<32}-00000000000000aa-01")) }
}

fn traced(context: CommandContext, name: &str) -> CommandContext {
    CommandContext { trace: trace(name), request_id: Some(format!("request-{name}")), ..context }
}

async fn placed(market: &Market) -> Order {
    let product = market.process.listed().await.id;
    market.app().ordering.place(&traced(by(BUYER), "place"), PlaceOrder::of(product)).await.unwrap()
}

async fn started(market: &Market, order: &Order) -> Payment {
    let command = StartPayment { order: order.id, method: Some(PaymentMethod::Card) };
    market.app().payments.start(&traced(by(BUYER), "pay"), command).await.unwrap().payment
}

/// Settles the payment with a report of the gateway; the report has another trace.
async fn settled(market: &Market, payment: &Payment) -> Payment {
    let reported = report(payment, PaymentResult::Success);
    market.app().payments.settle(&traced(gateway(), "payment-callback"), reported).await.unwrap()
}

async fn sweep(market: &Market) {
    pass(market.world.pending_timeout + secs(1)).await;
    let app = market.app();
    let sweep = TimeoutSweep::new(app.tx.clone(), app.handlers.clone(), TimeoutSettings::default());
    assert_eq!(sweep.sweep().await.unwrap(), 1);
}

async fn repair(market: &Market) -> usize {
    // The scan window excludes the current time, so wait until it contains the changes.
    pass(secs(1)).await;
    let settings = ConsistencySettings { scan_window: secs(600), ..ConsistencySettings::default() };
    ContinuousReconciliation::new(market.app().operations.clone(), settings).compare_all().await.unwrap()
}

async fn row(market: &Market, event_type: EventKind) -> OutboxRow {
    let mut rows = market.world.rows().await;
    rows.retain(|row| row.event_type == event_type.as_str());
    assert_eq!(rows.len(), 1, "{event_type}");
    rows.remove(0)
}

async fn request_of(market: &Market, event_type: EventKind) -> Option<String> {
    row(market, event_type).await.metadata.request_id
}

async fn trace_of(market: &Market, event_type: EventKind) -> Trace {
    row(market, event_type).await.trace()
}

#[tokio::test(start_paused = true)]
async fn events_of_a_payment_callback_have_the_trace_of_the_payment_request() {
    let market = Market::new().await;
    let order = placed(&market).await;
    let payment = started(&market, &order).await;
    settled(&market, &payment).await;
    for event_type in [EventKind::PaymentSucceeded, EventKind::OrderPaid] {
        assert_eq!(trace_of(&market, event_type).await, trace("pay"), "{event_type}");
    }
    let operations = market.world.view().await.operations_of(order.tenant, &[order.id]).await.unwrap();
    assert_eq!(operations[0].trace_id.as_deref(), Some("pay"), "the ledger must have the same trace");
}

#[tokio::test(start_paused = true)]
async fn refund_request_and_its_events_have_the_trace_of_the_refund_command() {
    let market = Market::new().await;
    let order = placed(&market).await;
    let payment = started(&market, &order).await;
    settled(&market, &payment).await;
    let command = RequestRefund { order: order.id, reason: "too small".into(), off_shelf: false };
    let refund = market.app().payments.request_refund(&traced(by(BUYER), "refund"), command).await.unwrap();
    let mut mock = MockGateway::new();
    mock.expect_refund().withf(|request| request.trace == trace("refund")).once().returning(|_| Ok(()));
    let dispatcher = RefundDispatcher {
        tx: market.app().tx.clone(),
        gateway: Arc::new(mock),
        settings: RefundSettings::default(),
    };
    assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
    let command = refund_report(refund.id, RefundResult::Success);
    market.app().payments.settle_refund(&traced(gateway(), "refund-callback"), command).await.unwrap();
    for event_type in [EventKind::RefundSucceeded, EventKind::OrderRefunded] {
        assert_eq!(trace_of(&market, event_type).await, trace("refund"), "{event_type}");
    }
}

#[tokio::test(start_paused = true)]
async fn timeout_has_the_trace_of_the_order_and_a_late_payment_refund_that_of_the_payment_request() {
    let market = Market::new().await;
    let order = placed(&market).await;
    let payment = started(&market, &order).await;
    sweep(&market).await;
    assert_eq!(trace_of(&market, EventKind::OrderCancelled).await, trace("place"));
    assert!(settled(&market, &payment).await.refund_due);
    let refunds = market.world.view().await.refunds_of(order.tenant, &[order.id]).await.unwrap();
    assert_eq!(refunds[0].trace, Some(trace("pay")));
    let command = refund_report(refunds[0].id, RefundResult::Failed);
    market.app().payments.settle_refund(&traced(gateway(), "refund-callback"), command).await.unwrap();
    assert_eq!(trace_of(&market, EventKind::RefundFailed).await, trace("pay"));
}

#[tokio::test(start_paused = true)]
async fn timeout_has_a_new_trace_when_the_order_created_event_is_lost() {
    let market = Market::new().await;
    let order = placed(&market).await;
    let created = row(&market, EventKind::OrderCreated).await.event_id;
    market.world.mark_sent_without_message(&[created.as_str()]).await;
    assert!(market.world.store.delete_sent_event(&created));
    sweep(&market).await;
    let new_trace = Trace { trace_id: format!("sweep-{}", order.id), traceparent: None };
    assert_eq!(trace_of(&market, EventKind::OrderCancelled).await, new_trace);
}

#[tokio::test(start_paused = true)]
async fn reaper_closes_order_and_releases_lock_in_the_trace_of_the_order() {
    let market = Market::new().await;
    market.deposit(5_000).await;
    let product = market.process.listed().await.id;
    let place = PlaceOrder { wallet: money(2_000), ..PlaceOrder::of(product) };
    let order = market.app().ordering.place(&traced(by(BUYER), "place"), place).await.unwrap();
    let created = row(&market, EventKind::OrderCreated).await;
    market.apply_event(&market.asset_consumer(Asset::Wallet).handler, &created).await.unwrap();
    pass(secs(30 * 60)).await;
    let reaper = LockTimeoutReaper {
        tx: market.app().tx.clone(),
        events: market.app().handlers.events.clone(),
        settings: ConsistencySettings::default(),
    };
    assert_eq!(reaper.reap().await.unwrap().closed, 1);
    assert_eq!(trace_of(&market, EventKind::OrderCancelled).await, trace("place"));
    assert_eq!(request_of(&market, EventKind::OrderCancelled).await.as_deref(), Some("request-place"));
    let operations = market.world.view().await.operations_of(order.tenant, &[order.id]).await.unwrap();
    let release = operations.iter().find(|it| it.kind == OperationKind::Release).unwrap();
    assert_eq!(release.trace_id.as_deref(), Some("place"));
}

#[tokio::test(start_paused = true)]
async fn lost_event_is_repaired_with_the_trace_of_its_request_if_known() {
    let market = Market::new().await;
    let order = placed(&market).await;
    let payment = started(&market, &order).await;
    settled(&market, &payment).await;
    let shipment = Shipment::new("SF".into(), "SF-1".into()).unwrap();
    market.app().ordering.ship(&traced(by(SELLER), "ship"), order.id, shipment).await.unwrap();
    // The lost events were not consumed, so the consume log cannot provide their traces.
    for event_type in [EventKind::OrderCreated, EventKind::OrderPaid, EventKind::OrderStatusChanged] {
        let lost = row(&market, event_type).await.event_id;
        market.world.mark_sent_without_message(&[lost.as_str()]).await;
        assert!(market.world.store.delete_sent_event(&lost));
    }
    assert_eq!(repair(&market).await, 3);
    assert_eq!(
        trace_of(&market, EventKind::OrderCreated).await,
        trace("place"),
        "expected the trace of the ORDER_TIMEOUT event of the order"
    );
    assert_eq!(request_of(&market, EventKind::OrderCreated).await.as_deref(), Some("request-place"));
    assert_eq!(trace_of(&market, EventKind::OrderPaid).await, trace("pay"));
    let new_trace = Trace { trace_id: format!("repair-{}", order.id), traceparent: None };
    assert_eq!(
        trace_of(&market, EventKind::OrderStatusChanged).await,
        new_trace,
        "expected a new trace, because the request is unknown"
    );
}

#[tokio::test(start_paused = true)]
async fn consumed_lost_event_is_repaired_with_the_trace_of_the_consume_log() {
    let market = Market::running().await;
    let order = placed(&market).await;
    market.process_pending().await;
    for event_type in [EventKind::OrderCreated, EventKind::OrderTimeout] {
        let lost = row(&market, event_type).await.event_id;
        assert!(market.world.store.delete_sent_event(&lost));
    }
    assert_eq!(repair(&market).await, 2);
    assert_eq!(trace_of(&market, EventKind::OrderCreated).await.trace_id, "place");
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Pending);
}
