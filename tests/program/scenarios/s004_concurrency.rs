//! Many concurrent orders for the same wallet or coupon.

use futures_util::future::join_all;
use handover_tests::deployment::Pair;

use super::purses::{With, purses};
use super::shop::{BUYER, Shop};

/// 200 orders use one wallet that covers 50 of them; in CI, 20 orders and a balance for 5.
async fn concurrent_orders_lock_wallet_up_to_balance_and_others_are_cancelled(pair: Pair) {
    let (orders, covered) = if handover_tests::long() { (200, 50) } else { (20, 5) };
    let shop = Shop::open(pair, &[]).await;
    shop.deposit(BUYER, covered * 1_000).await;
    let placed =
        join_all((0..orders).map(|_| shop.order_with(With { wallet: 1_000, ..With::default() }))).await;
    assert_eq!(placed.len(), usize::try_from(orders).unwrap());
    shop.expect_count(
        orders - covered,
        "SELECT count(*) FROM orders WHERE status = 'cancelled' AND cancel_reason = 'asset_lock_failed'",
    )
    .await;
    shop.settled().await;
    let locked = "SELECT count(*) FROM asset_holds h JOIN orders o ON o.id = h.order_id
        WHERE h.status = 'FROZEN' AND o.status = 'pending' AND h.amount = 1000";
    assert_eq!(shop.snapshot.number(locked).await, covered);
    assert_eq!(shop.purses(BUYER).await, purses(0, covered * 1_000, 0, 0));
    shop.assert_invariants_except(&[]).await;
}

/// 50 concurrent orders (10 in CI) with the same coupon: exactly one order locks it.
async fn concurrent_orders_with_one_coupon_lock_it_once(pair: Pair) {
    let orders = if handover_tests::long() { 50 } else { 10 };
    let shop = Shop::open(pair, &[]).await;
    let coupon = shop.coupon(BUYER, 1_000).await;
    let with = With { coupon: Some(coupon), ..With::default() };
    join_all((0..orders).map(|_| shop.order_with(with))).await;
    shop.expect_count(
        orders - 1,
        "SELECT count(*) FROM orders WHERE status = 'cancelled' AND cancel_reason = 'asset_lock_failed'",
    )
    .await;
    shop.settled().await;
    assert_eq!(shop.coupon_status(coupon).await, "LOCKED");
    assert_eq!(shop.snapshot.number("SELECT count(*) FROM asset_holds WHERE status = 'FROZEN'").await, 1);
    shop.assert_invariants_except(&[]).await;
}

super::by_turns! {
    concurrent_orders_lock_wallet_up_to_balance_and_others_are_cancelled + postgres_and_database,
    concurrent_orders_with_one_coupon_lock_it_once,
}
