//! The consistency repair appends events that are missing in the outbox.

use handover_outbox::ports::{NewEvent, OutboxRow, Store};
use marketplace::ConsistencySettings;
use marketplace::jobs::ConsistencyRepair;
use marketplace_domain::*;

use super::market::{Market, SpentAssets};
use crate::support::{pass, report, secs};

fn repair(market: &Market) -> ConsistencyRepair {
    let settings = ConsistencySettings { scan_window: secs(600), ..ConsistencySettings::default() };
    ConsistencyRepair { payments: market.app().payments.clone(), settings }
}

/// Settles the payment of an order and marks the order paid without appending ORDER_PAID, as a bug might.
async fn pay_without_event(market: &Market, order: &Order) {
    let payment = market.process.started_payment(order.id).await;
    let now = market.world.now();
    let report = report(&payment, PaymentResult::Success).report;
    let (settled, event) = payment.decide(&report, &order.clone().into(), 0, None, now).settled.unwrap();
    let (paid, _) = order.apply(&OrderAction::Pay, OrderActor::Gateway, now).unwrap();
    let event = market.world.event(&format!("settled-{}", payment.id), settled.version, &event);
    let mut unit = market.world.store.begin().await.unwrap();
    let _ = unit.advance_payment(&settled).await.unwrap();
    let _ = unit.advance_order(&paid).await.unwrap();
    unit.outbox().append(&[event]).await.unwrap();
    unit.commit().await.unwrap();
    pass(secs(1)).await;
}

async fn paid_rows(market: &Market) -> Vec<OutboxRow> {
    let rows = market.world.rows().await;
    rows.into_iter().filter(|row| row.event_type == "ORDER_PAID").collect()
}

#[tokio::test(start_paused = true)]
async fn order_paid_without_an_event_is_repaired_and_takes_effect_once() {
    let market = Market::running().await;
    market.deposit(5_000).await;
    let order = market.locked(SpentAssets { wallet: 2_000, ..SpentAssets::default() }).await;
    pay_without_event(&market, &order).await;
    assert_eq!(repair(&market).repair().await.unwrap(), 1);
    assert_eq!(repair(&market).repair().await.unwrap(), 0);
    market.process_pending().await;
    let rows = paid_rows(&market).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].aggregate_seq, rows[0].event_id.as_str()),
        (2, &*format!("repair:ORDER_PAID:{}:2", order.id))
    );
    assert_eq!(market.purse(Purse::Wallet).await, (3_000, 0, 0));
    assert_eq!(market.purse(Purse::Points).await, (68, 0, 0));
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn concurrent_repairs_append_the_event_once() {
    let market = Market::running().await;
    let order = market.locked(SpentAssets::default()).await;
    pay_without_event(&market, &order).await;
    let one = repair(&market);
    let two = repair(&market);
    let (one, two) = tokio::join!(one.repair(), two.repair());
    assert_eq!(one.unwrap() + two.unwrap(), 1);
    assert_eq!(paid_rows(&market).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn consistent_orders_and_orders_outside_the_window_are_not_repaired() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let rows = market.world.rows().await.len();
    assert_eq!(repair(&market).repair().await.unwrap(), 0);
    assert_eq!(market.world.rows().await.len(), rows);
    let old = market.locked(SpentAssets::default()).await;
    pay_without_event(&market, &old).await;
    pass(secs(601)).await;
    assert_eq!(repair(&market).repair().await.unwrap(), 0);
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Paid);
}

#[tokio::test(start_paused = true)]
async fn row_that_no_consumer_applies_does_not_replace_a_lost_event() {
    let market = Market::running().await;
    let order = market.locked(SpentAssets::default()).await;
    pay_without_event(&market, &order).await;
    let wrong_amount = EventBody::OrderPaid(OrderPaid {
        order: order.facts(),
        pay_time: market.world.now(),
        amount: Money::from_minor(1).unwrap(),
        product: order.product,
    });
    let contradicting = market.world.event("manual-1", 0, &wrong_amount);
    let unreadable = NewEvent {
        event_id: "manual-2".parse().unwrap(),
        payload: format!("{{\"orderId\":{}}}", order.id),
        ..contradicting.clone()
    };
    market.process.commit(vec![contradicting, unreadable]).await;
    assert_eq!(repair(&market).repair().await.unwrap(), 1);
    assert_eq!(repair(&market).repair().await.unwrap(), 0);
    assert_eq!(paid_rows(&market).await.len(), 3);
}
