//! Payment of orders with assets.

use marketplace::use_cases::*;
use marketplace_domain::*;

use super::market::{Market, SpentAssets};
use crate::support::{TENANT, money};

#[tokio::test(start_paused = true)]
async fn paid_order_commits_its_assets_and_earns_points_for_the_money_amount() {
    let market = Market::running().await;
    market.deposit(5_000).await;
    market.grant(300).await;
    let coupon = market.coupon(1_000).await;
    let order = market.paid(SpentAssets { coupon: Some(coupon), wallet: 2_000, points: 150 }).await;
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
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn payment_report_is_rejected_without_changes_until_all_assets_are_locked() {
    let market = Market::new().await;
    market.deposit(5_000).await;
    let order = market.order(SpentAssets { wallet: 2_000, ..SpentAssets::default() }).await;
    let payment = market.process.started_payment(order.id).await;
    for result in [PaymentResult::Success, PaymentResult::Failed] {
        let refused = market.process.settle(&payment, result).await;
        assert!(
            matches!(refused, Err(UseCaseError::Refused(PaymentCommandRefusal::AssetsNotLocked))),
            "{refused:?}"
        );
    }
    assert_eq!(market.world.order(order.id).await, order);
    let stored = market.world.view().await.payment_by_id(payment.id).await.unwrap();
    assert_eq!(stored, Some(payment.clone()));
    let wallet = market.asset_consumer(Asset::Wallet);
    let created = market.world.rows().await.remove(0);
    market.apply_event(&wallet.handler, &created).await.unwrap();
    let settled = market.process.settle(&payment, PaymentResult::Success).await.unwrap();
    assert_eq!(settled.status, PaymentStatus::Success);
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Paid);
}

#[tokio::test(start_paused = true)]
async fn order_paid_fully_with_assets_does_not_use_the_gateway() {
    let market = Market::running().await;
    market.deposit(8_850).await;
    let order = market.locked(SpentAssets { wallet: 8_850, ..SpentAssets::default() }).await;
    assert_eq!(order.payable, Money::ZERO);
    let payment = market.process.started_payment(order.id).await;
    assert_eq!((payment.status, payment.amount), (PaymentStatus::Success, Money::ZERO));
    market.process_pending().await;
    assert_eq!(market.world.order(order.id).await.status, OrderStatus::Paid);
    assert_eq!(market.purse(Purse::Wallet).await, (0, 0, 0));
    assert_eq!(market.purse(Purse::Points).await, (0, 0, 0), "expected no points without a money amount");
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn payment_without_gateway_is_rejected_while_an_asset_is_not_locked() {
    let market = Market::new().await;
    market.deposit(8_850).await;
    let order = market.order(SpentAssets { wallet: 8_850, ..SpentAssets::default() }).await;
    let command = StartPayment { order: order.id, method: Some(PaymentMethod::Wallet) };
    let refused = market.app().payments.start(&crate::support::by(crate::support::BUYER), command).await;
    assert!(
        matches!(refused, Err(UseCaseError::Refused(PaymentCommandRefusal::AssetsNotLocked))),
        "{refused:?}"
    );
    assert_eq!(market.world.view().await.payments_of(TENANT, &[order.id]).await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn failed_payment_closes_only_an_order_with_assets() {
    let market = Market::running().await;
    market.deposit(5_000).await;
    let with_assets = market.locked(SpentAssets { wallet: 2_000, ..SpentAssets::default() }).await;
    let without_assets = market.locked(SpentAssets::default()).await;
    for order in [&with_assets, &without_assets] {
        let payment = market.process.started_payment(order.id).await;
        market.process.settle(&payment, PaymentResult::Failed).await.unwrap();
    }
    market.process_pending().await;
    let closed = market.world.order(with_assets.id).await;
    assert_eq!(
        (closed.status, closed.cancel_reason),
        (OrderStatus::Cancelled, Some(CancelReason::PaymentFailed))
    );
    assert_eq!(market.world.order(without_assets.id).await.status, OrderStatus::Pending);
    assert_eq!(market.purse(Purse::Wallet).await, (5_000, 0, 0));
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn started_payment_has_the_payable_amount_of_the_order() {
    let market = Market::running().await;
    market.deposit(5_000).await;
    let order = market.locked(SpentAssets { wallet: 2_000, ..SpentAssets::default() }).await;
    assert_eq!(market.process.started_payment(order.id).await.amount, money(6_850));
}
