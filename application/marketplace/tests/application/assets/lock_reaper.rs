//! The lock-timeout reaper: expired locks, locks of paid orders, and expired coupons.

use handover_events::*;
use handover_outbox::ports::OutboxRow;
use handover_outbox::state::StateSource as _;
use marketplace::jobs::{LockTimeoutReaper, ReaperReport};
use marketplace::{ConsistencySettings, MarketState};
use marketplace_domain::*;

use super::market::{Market, SpentAssets};
use crate::support::{BUYER, by, pass, secs};

fn reaper(market: &Market) -> LockTimeoutReaper {
    LockTimeoutReaper {
        tx: market.app().tx.clone(),
        events: market.app().handlers.events.clone(),
        settings: ConsistencySettings::default(),
    }
}

/// A marketplace in which one order has its wallet amount locked; no relay and no consumer runs.
async fn locked_wallet() -> (Market, Order) {
    let market = Market::new().await;
    market.deposit(5_000).await;
    let order = market.order(SpentAssets { wallet: 2_000, ..SpentAssets::default() }).await;
    let created = market.world.rows().await.remove(0);
    market.apply_event(&market.asset_consumer(Asset::Wallet).handler, &created).await.unwrap();
    assert_eq!(market.purse(Purse::Wallet).await, (3_000, 2_000, 0));
    (market, order)
}

#[tokio::test(start_paused = true)]
async fn expired_lock_of_a_cancelled_order_is_released_once() {
    let (market, order) = locked_wallet().await;
    market.app().ordering.cancel(&by(BUYER), order.id).await.unwrap();
    pass(secs(29 * 60)).await;
    assert_eq!(reaper(&market).reap().await.unwrap(), ReaperReport::default());
    pass(secs(60)).await;
    let one = reaper(&market);
    let two = reaper(&market);
    let (one, two) = tokio::join!(one.reap(), two.reap());
    assert_eq!(one.unwrap().released + two.unwrap().released, 1);
    assert_eq!(market.purse(Purse::Wallet).await, (5_000, 0, 0));
    assert_eq!(market.hold_status(order.id, Asset::Wallet).await, Some(HoldStatus::Released));
    assert!(market.keys(order.id).await.contains(&format!("wallet:{}:release", order.id)));
    // The event that should have released the lock is delivered late.
    let cancelled = market.world.rows().await.pop().unwrap();
    market.apply_event(&market.asset_consumer(Asset::Wallet).handler, &cancelled).await.unwrap();
    assert_eq!(market.purse(Purse::Wallet).await, (5_000, 0, 0));
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn overdue_locks_are_counted_until_the_reaper_releases_them() {
    let (market, order) = locked_wallet().await;
    market.app().ordering.cancel(&by(BUYER), order.id).await.unwrap();
    let state = MarketState::of(market.app(), &ConsistencySettings::default());
    let overdue = async || {
        let samples = state.read().await.unwrap();
        samples.iter().find(|sample| sample.metric.name == "handover.holds.overdue").unwrap().value
    };
    pass(secs(29 * 60)).await;
    assert_eq!(overdue().await, 0.0);
    pass(secs(60)).await;
    assert_eq!(overdue().await, 1.0);
    reaper(&market).reap().await.unwrap();
    assert_eq!(overdue().await, 0.0);
}

#[tokio::test(start_paused = true)]
async fn pending_order_with_an_expired_lock_is_closed_and_its_lock_is_released() {
    let (market, order) = locked_wallet().await;
    pass(secs(30 * 60)).await;
    let reaped = reaper(&market).reap().await.unwrap();
    assert_eq!((reaped.released, reaped.closed), (1, 1));
    let order = market.world.order(order.id).await;
    assert_eq!((order.status, order.cancel_reason), (OrderStatus::Cancelled, Some(CancelReason::Timeout)));
    assert_eq!(market.purse(Purse::Wallet).await, (5_000, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn lock_of_a_paid_order_is_not_released_and_its_unconsumed_event_is_redriven() {
    let (market, order) = locked_wallet().await;
    let payment = market.process.started_payment(order.id).await;
    market.process.settle(&payment, PaymentResult::Success).await.unwrap();
    let paid = market.world.rows().await.into_iter().find(|row| row.event_type == "ORDER_PAID").unwrap();
    market.world.mark_sent_without_message(&[paid.event_id.as_str()]).await;
    pass(secs(3_600)).await;
    let reaped = reaper(&market).reap().await.unwrap();
    assert_eq!((reaped.released, reaped.redriven), (0, 1));
    assert_eq!(market.world.status(paid.event_id.as_str()).await, OutboxStatus::Retry);
    assert_eq!(market.purse(Purse::Wallet).await, (3_000, 2_000, 0));
    assert_eq!(
        reaper(&market).reap().await.unwrap(),
        ReaperReport::default(),
        "the second run must not redrive the pending event again"
    );
}

/// The outbox contains two ORDER_PAID rows. The older row was inserted with SQL and contradicts the order, so it cannot
/// commit the lock; only the genuine event is redriven.
#[tokio::test(start_paused = true)]
async fn reaper_redrives_only_the_event_that_matches_the_order() {
    let (market, order) = locked_wallet().await;
    let contradicting = EventBody::OrderPaid(OrderPaid {
        order: order.facts(),
        pay_time: market.world.now(),
        amount: Money::from_minor(1).unwrap(),
        product: order.product,
    });
    market.process.commit(vec![market.world.event("manual", 0, &contradicting)]).await;
    let payment = market.process.started_payment(order.id).await;
    market.process.settle(&payment, PaymentResult::Success).await.unwrap();
    let rows = market.world.rows().await;
    let is_genuine = |row: &&OutboxRow| row.event_type == "ORDER_PAID" && row.event_id.as_str() != "manual";
    let paid = rows.iter().find(is_genuine).unwrap().event_id.as_str();
    market.world.mark_sent_without_message(&["manual", paid]).await;
    pass(secs(3_600)).await;
    assert_eq!(reaper(&market).reap().await.unwrap().redriven, 1);
    assert_eq!(market.world.status(paid).await, OutboxStatus::Retry);
    assert_eq!(market.world.status("manual").await, OutboxStatus::Sent);
}

#[tokio::test(start_paused = true)]
async fn coupon_after_its_expiry_time_is_set_to_expired() {
    let market = Market::new().await;
    let coupon = market.coupon(100).await;
    pass(secs(31 * 24 * 3_600)).await;
    assert_eq!(reaper(&market).reap().await.unwrap().expired, 1);
    assert_eq!(market.coupon_status(coupon).await, CouponStatus::Expired);
    assert_eq!(reaper(&market).reap().await.unwrap().expired, 0);
}
