//! The consistency repair appends events that are missing in the outbox.

use handover_outbox::ports::{NewEvent, OutboxRow, Store};
use marketplace::ConsistencySettings;
use marketplace::jobs::ConsistencyRepair;
use marketplace_domain::*;

use super::market::{Market, With};
use crate::support::{pass, secs};

fn repair(market: &Market) -> ConsistencyRepair {
    let settings = ConsistencySettings { scan_window: secs(600), ..ConsistencySettings::default() };
    ConsistencyRepair::new(market.app().clone(), settings)
}

/// Marks an order paid without appending its event, as a bug might.
async fn pay_without_event(market: &Market, order: &Order) {
    let (paid, _) = order.apply(&OrderAction::Pay, OrderActor::Gateway, market.world.now()).unwrap();
    let mut unit = market.world.store.begin().await.unwrap();
    let _ = unit.advance_order(&paid).await.unwrap();
    unit.commit().await.unwrap();
    pass(secs(1)).await;
}

async fn paid_rows(market: &Market) -> Vec<OutboxRow> {
    let rows = market.world.rows().await;
    rows.into_iter().filter(|row| row.event_type == "ORDER_PAID").collect()
}

#[tokio::test(start_paused = true)]
async fn an_order_that_was_paid_without_a_word_is_announced_and_takes_effect_once() {
    let market = Market::open().await;
    market.deposit(5_000).await;
    let order = market.locked(With { wallet: 2_000, ..With::default() }).await;
    pay_without_event(&market, &order).await;
    assert_eq!(repair(&market).repair().await.unwrap(), 1);
    assert_eq!(repair(&market).repair().await.unwrap(), 0);
    market.settle_down().await;
    let rows = paid_rows(&market).await;
    assert_eq!(rows.len(), 1);
    assert_eq!(
        (rows[0].aggregate_seq, rows[0].event_id.as_str()),
        (2, &*format!("repair:ORDER_PAID:{}:2", order.id))
    );
    assert_eq!(market.purse(Purse::Wallet).await, (3_000, 0, 0));
    assert_eq!(market.purse(Purse::Points).await, (68, 0, 0));
    market.adds_up().await;
}

#[tokio::test(start_paused = true)]
async fn two_that_repair_at_once_announce_it_once() {
    let market = Market::open().await;
    let order = market.locked(With::default()).await;
    pay_without_event(&market, &order).await;
    let (one, two) = (repair(&market), repair(&market));
    let (one, two) = tokio::join!(one.repair(), two.repair());
    assert_eq!(one.unwrap() + two.unwrap(), 1);
    assert_eq!(paid_rows(&market).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_sound_market_is_left_alone_and_so_are_orders_beyond_the_window() {
    let market = Market::open().await;
    let order = market.paid(With::default()).await;
    let rows = market.world.rows().await.len();
    assert_eq!(repair(&market).repair().await.unwrap(), 0);
    assert_eq!(market.world.rows().await.len(), rows);
    let old = market.locked(With::default()).await;
    pay_without_event(&market, &old).await;
    pass(secs(601)).await;
    assert_eq!(repair(&market).repair().await.unwrap(), 0);
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Paid);
}

/// A row inserted with SQL that no consumer applies does not replace the genuine event, which is still missing.
#[tokio::test(start_paused = true)]
async fn a_row_that_no_consumer_applies_hides_no_lost_event() {
    let market = Market::open().await;
    let order = market.locked(With::default()).await;
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
