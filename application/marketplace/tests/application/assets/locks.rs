//! The consumers lock the assets of an order. A refused lock closes the order.

use marketplace::use_cases::*;
use marketplace_domain::*;

use super::market::{Market, SpentAssets, buyer, operator};
use crate::support::{BUYER, by, money};
use marketplace::use_cases::operations::IssueCoupon;

#[tokio::test(start_paused = true)]
async fn every_asset_of_an_order_is_locked_under_its_operation_key() {
    let market = Market::running().await;
    market.deposit(5_000).await;
    market.grant(300).await;
    let coupon = market.coupon(1_000).await;
    let order = market.locked(SpentAssets { coupon: Some(coupon), wallet: 2_000, points: 150 }).await;
    assert_eq!(order.payable, money(8_850 - 1_000 - 2_000 - 150));
    assert_eq!(market.purse(Purse::Wallet).await, (3_000, 2_000, 0));
    assert_eq!(market.purse(Purse::Points).await, (150, 150, 0));
    assert_eq!(market.coupon_status(coupon).await, CouponStatus::Locked);
    let id = order.id;
    let mut keys = market.keys(id).await;
    keys.sort();
    assert_eq!(
        keys,
        [format!("order:{id}:checkout"), format!("points:{id}:freeze"), format!("wallet:{id}:freeze")]
    );
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn refused_lock_closes_the_order_and_releases_the_other_locks() {
    let market = Market::running().await;
    market.deposit(5_000).await;
    let coupon = market.coupon(1_000).await;
    let order = market.locked(SpentAssets { coupon: Some(coupon), wallet: 2_000, points: 1 }).await;
    let closed = market.world.order(order.id).await;
    assert_eq!(
        (closed.status, closed.cancel_reason),
        (OrderStatus::Cancelled, Some(CancelReason::AssetLockFailed))
    );
    assert_eq!(market.purse(Purse::Wallet).await, (5_000, 0, 0));
    assert_eq!(market.coupon_status(coupon).await, CouponStatus::Available);
    assert_eq!(market.world.product(order.product).await.status, ProductStatus::OnSale);
    assert_eq!(market.hold_status(order.id, Asset::Points).await, Some(HoldStatus::Released));
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn cancellation_of_an_order_releases_all_its_assets() {
    let market = Market::running().await;
    market.deposit(5_000).await;
    market.grant(300).await;
    let coupon = market.coupon(1_000).await;
    let order = market.locked(SpentAssets { coupon: Some(coupon), wallet: 2_000, points: 150 }).await;
    market.app().ordering.cancel(&by(BUYER), order.id).await.unwrap();
    market.process_pending().await;
    assert_eq!(market.purse(Purse::Wallet).await, (5_000, 0, 0));
    assert_eq!(market.purse(Purse::Points).await, (300, 0, 0));
    assert_eq!(market.coupon_status(coupon).await, CouponStatus::Available);
    for asset in Asset::HELD {
        assert_eq!(market.hold_status(order.id, asset).await, Some(HoldStatus::Released), "{asset}");
    }
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn wallet_lock_succeeds_for_as_many_orders_as_the_balance_covers() {
    let market = Market::running().await;
    market.deposit(5_000).await;
    let mut orders = Vec::new();
    for _ in 0..20 {
        orders.push(market.order(SpentAssets { wallet: 1_000, ..SpentAssets::default() }).await);
    }
    market.process_pending().await;
    let mut locked = 0;
    for order in &orders {
        let order = market.world.order(order.id).await;
        if order.status == OrderStatus::Pending {
            locked += 1;
        } else {
            let refused = (OrderStatus::Cancelled, Some(CancelReason::AssetLockFailed));
            assert_eq!((order.status, order.cancel_reason), refused);
        }
    }
    assert_eq!(locked, 5);
    assert_eq!(market.purse(Purse::Wallet).await, (0, 5_000, 0));
    market.assert_ledger_balanced().await;
}

#[tokio::test(start_paused = true)]
async fn coupon_is_locked_by_only_one_of_many_orders() {
    let market = Market::running().await;
    let coupon = market.coupon(1_000).await;
    let mut orders = Vec::new();
    for _ in 0..10 {
        orders.push(market.order(SpentAssets { coupon: Some(coupon), ..SpentAssets::default() }).await);
    }
    market.process_pending().await;
    let mut pending = 0;
    for order in &orders {
        pending += usize::from(market.world.order(order.id).await.status == OrderStatus::Pending);
    }
    assert_eq!((pending, market.coupon_status(coupon).await), (1, CouponStatus::Locked));
}

#[tokio::test(start_paused = true)]
async fn order_with_invalid_assets_is_rejected() {
    let market = Market::new().await;
    let refused = async |assets| market.try_order(assets).await.unwrap_err();
    let result = refused(SpentAssets { wallet: 8_851, ..SpentAssets::default() }).await;
    assert!(
        matches!(
            result,
            UseCaseError::Refused(OrderRefusal::Assets(AssetRefusal::MoreThanLeft {
                asset: Asset::Wallet,
                ..
            }))
        ),
        "{result:?}"
    );
    let context = operator();
    let expensive_minimum = market.app().operations.issue_coupon(
        &context,
        IssueCoupon {
            user: buyer(),
            discount: money(100),
            min_spend: money(8_851),
            expires_at: market.world.now() + chrono::TimeDelta::days(1),
            reason: None,
        },
    );
    let coupon = expensive_minimum.await.unwrap().id;
    let result = refused(SpentAssets { coupon: Some(coupon), ..SpentAssets::default() }).await;
    assert!(
        matches!(result, UseCaseError::Refused(OrderRefusal::Assets(AssetRefusal::BelowMinimumSpend { .. }))),
        "{result:?}"
    );
    let unknown =
        refused(SpentAssets { coupon: Some(4_711.try_into().unwrap()), ..SpentAssets::default() }).await;
    assert!(matches!(unknown, UseCaseError::NotFound { what: "coupon" }), "{unknown:?}");
}

#[tokio::test(start_paused = true)]
async fn coupon_of_another_user_is_not_found() {
    let market = Market::running().await;
    let coupon = market.coupon(1_000).await;
    let product = market.process.listed().await.id;
    let command = PlaceOrder { coupon: Some(coupon), ..PlaceOrder::of(product) };
    let result = market.app().ordering.place(&by(77), command).await;
    assert!(matches!(result, Err(UseCaseError::NotFound { what: "coupon" })), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn expired_coupon_is_refused_and_closes_the_order() {
    let market = Market::running().await;
    let command = IssueCoupon {
        user: buyer(),
        discount: money(500),
        min_spend: money(0),
        expires_at: market.world.now() - chrono::TimeDelta::seconds(1),
        reason: None,
    };
    let coupon = market.app().operations.issue_coupon(&operator(), command).await.unwrap().id;
    let order = market.locked(SpentAssets { coupon: Some(coupon), ..SpentAssets::default() }).await;
    assert_eq!(market.world.order(order.id).await.cancel_reason, Some(CancelReason::AssetLockFailed));
}
