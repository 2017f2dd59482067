//! Payment of orders with assets.

use marketplace::use_cases::*;
use marketplace_domain::*;

use super::market::{Market, With};
use crate::support::{TENANT, money};

#[tokio::test(start_paused = true)]
async fn a_paid_order_commits_its_assets_and_earns_points_for_the_money() {
    let market = Market::open().await;
    market.deposit(5_000).await;
    market.grant(300).await;
    let coupon = market.coupon(1_000).await;
    let order = market.paid(With { coupon: Some(coupon), wallet: 2_000, points: 150 }).await;
    assert_eq!(order.status, OrderStatus::Paid);
    assert_eq!(market.purse(Purse::Wallet).await, (3_000, 0, 0));
    // A money amount of 57.00 earns 57 points.
    assert_eq!(market.purse(Purse::Points).await, (150 + 57, 0, 0));
    assert_eq!(market.coupon_status(coupon).await, CouponStatus::Used);
    assert_eq!(market.total(Account::Platform).await, 5_700 + 2_000);
    let keys = market.keys(order.id).await;
    for key in [format!("points:{}:earn", order.id), format!("wallet:{}:commit", order.id)] {
        assert!(keys.contains(&key), "{key} in {keys:?}");
    }
    market.adds_up().await;
}

#[tokio::test(start_paused = true)]
async fn a_payment_waits_for_every_lock_and_changes_nothing_before() {
    let market = Market::new().await;
    market.deposit(5_000).await;
    let order = market.order(With { wallet: 2_000, ..With::default() }).await;
    let payment = market.process.started_payment(order.id).await;
    for result in [PaymentResult::Success, PaymentResult::Failed] {
        let refused = market.process.settle(&payment, result).await;
        assert!(matches!(refused, Err(UseCaseError::AssetsNotLocked)), "{refused:?}");
    }
    assert_eq!(market.world.order(order.id).await, order);
    let stored = market.world.view().await.payment_by_id(payment.id).await.unwrap();
    assert_eq!(stored, Some(payment.clone()));
    let wallet = market.keeper(Asset::Wallet);
    let created = market.world.rows().await.remove(0);
    market.hand(&wallet.handler, &created).await.unwrap();
    let settled = market.process.settle(&payment, PaymentResult::Success).await.unwrap();
    assert_eq!(settled.status, PaymentStatus::Success);
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Paid);
}

#[tokio::test(start_paused = true)]
async fn an_order_that_assets_pay_whole_is_paid_without_the_gateway() {
    let market = Market::open().await;
    market.deposit(8_850).await;
    let order = market.locked(With { wallet: 8_850, ..With::default() }).await;
    assert_eq!(order.payable, Money::ZERO);
    let payment = market.process.started_payment(order.id).await;
    assert_eq!((payment.status, payment.amount), (PaymentStatus::Success, Money::ZERO));
    market.settle_down().await;
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Paid);
    assert_eq!(market.purse(Purse::Wallet).await, (0, 0, 0));
    assert_eq!(market.purse(Purse::Points).await, (0, 0, 0), "only money earns points");
    market.adds_up().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_paid_before_its_locks_without_the_gateway_either() {
    let market = Market::new().await;
    market.deposit(8_850).await;
    let order = market.order(With { wallet: 8_850, ..With::default() }).await;
    let command = StartPayment { order: order.id, method: "wallet".into() };
    let refused = start_payment(market.app(), &crate::support::by(crate::support::BUYER), command).await;
    assert!(matches!(refused, Err(UseCaseError::AssetsNotLocked)), "{refused:?}");
    assert_eq!(market.world.view().await.payments_of(TENANT, order.id).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn a_failed_payment_closes_an_order_that_named_assets_and_leaves_any_other_open() {
    let market = Market::open().await;
    market.deposit(5_000).await;
    let with_assets = market.locked(With { wallet: 2_000, ..With::default() }).await;
    let without_assets = market.locked(With::default()).await;
    for order in [&with_assets, &without_assets] {
        let payment = market.process.started_payment(order.id).await;
        market.process.settle(&payment, PaymentResult::Failed).await.unwrap();
    }
    market.settle_down().await;
    let closed = market.world.order(with_assets.id).await;
    assert_eq!(
        (closed.status, closed.cancel_reason),
        (OrderStatus::Cancelled, Some(CancelReason::PaymentFailed))
    );
    assert_eq!(market.world.order(without_assets.id).await.status, OrderStatus::Pending);
    assert_eq!(market.purse(Purse::Wallet).await, (5_000, 0, 0));
    market.adds_up().await;
}

#[tokio::test(start_paused = true)]
async fn the_payable_amount_is_what_the_gateway_is_asked_for() {
    let market = Market::open().await;
    market.deposit(5_000).await;
    let order = market.locked(With { wallet: 2_000, ..With::default() }).await;
    assert_eq!(market.process.started_payment(order.id).await.amount, money(6_850));
}
