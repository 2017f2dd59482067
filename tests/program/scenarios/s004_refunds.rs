//! Refunds, from the buyer's request to the gateway's report.

use handover_tests::deployment::Pair;
use serde_json::json;

use super::purses::{With, purses};
use super::shop::{BUYER, OPERATOR, Shop};

/// Delay of the sandbox gateway, which then reports no refund during the test: the test acts as the gateway.
const SLOW_SANDBOX: (&str, &str) = ("HANDOVER_GATEWAY__SANDBOX_DELAY", "1h");

async fn refund_reverts_all_assets_and_product_is_on_sale_again(pair: Pair) {
    let shop = Shop::open(pair, &[SLOW_SANDBOX]).await;
    let coupon = shop.fill_purses().await;
    let order = shop.order_with(With { coupon: Some(coupon), wallet: 2_000, points: 150 }).await;
    shop.locked(order, 3).await;
    shop.pay_rest(order).await;
    shop.settled().await;
    assert_eq!(shop.purses(BUYER).await, purses(3_000, 0, 207, 0));
    let refund = shop.refund(order).await;
    assert_eq!(
        shop.refund(order).await,
        refund,
        "the response to a repeated request must name the same refund"
    );
    shop.assert_cannot_ship(order).await;
    for _ in 0..2 {
        shop.api.refund_reported(refund, "SUCCESS").await.unwrap().value();
    }
    shop.settled().await;
    assert_eq!(shop.order_field(order, "status").await, "refunded");
    assert_eq!(shop.purses(BUYER).await, purses(5_000, 0, 300, 0));
    assert_eq!(shop.coupon_status(coupon).await, "AVAILABLE");
    let product = shop.order_field(order, "productId").await.as_i64().unwrap();
    assert_eq!(shop.product_field(product, "status").await, "on_sale");
    shop.assert_invariants_except(&[]).await;
}

async fn payment_after_cancellation_is_refunded_automatically_once(pair: Pair) {
    let shop = Shop::open(pair, &[("HANDOVER_GATEWAY__SANDBOX_DELAY", "50ms")]).await;
    let order = shop.order().await;
    let payment = shop.api.start_payment(BUYER, order).await.unwrap().id("paymentId");
    shop.api.cancel(BUYER, order).await.unwrap().value();
    for _ in 0..2 {
        shop.api.payment_succeeded(payment).await.unwrap().value();
    }
    shop.expect_count(
        1,
        &format!("SELECT count(*) FROM refunds WHERE order_id = {order} AND status = 'SUCCESS'"),
    )
    .await;
    shop.settled().await;
    assert_eq!(shop.snapshot.number("SELECT count(*) FROM refunds").await, 1);
    assert_eq!(shop.order_field(order, "status").await, "cancelled");
    shop.assert_invariants_except(&[]).await;
}

async fn payment_before_locks_is_refused_as_retryable_and_changes_nothing(pair: Pair) {
    let shop = Shop::open_with_roles(pair, "api").await;
    shop.fill_purses().await;
    let order = shop.order_with(With { wallet: 2_000, ..With::default() }).await;
    let payment = shop.api.start_payment(BUYER, order).await.unwrap().value();
    let id = payment["paymentId"].as_i64().unwrap();
    let early = shop.api.payment_of_reported(id, &payment["amount"], "SUCCESS").await.unwrap();
    assert_eq!(early.outcome(), (503, "C0001"));
    assert_eq!(shop.rows("SELECT status FROM payments").await, ["PROCESSING"]);
    assert_eq!(shop.order_field(order, "status").await, "pending");
    let shop = shop.reopen();
    shop.locked(order, 1).await;
    shop.api.payment_of_reported(id, &payment["amount"], "SUCCESS").await.unwrap().value();
    assert_eq!(shop.order_field(order, "status").await, "paid");
}

async fn failed_refund_leaves_order_paid_until_operator_retries(pair: Pair) {
    let shop = Shop::open(pair, &[SLOW_SANDBOX]).await;
    let order = shop.paid_order().await;
    let first = shop.refund(order).await;
    shop.api.refund_reported(first, "FAILED").await.unwrap().value();
    assert_eq!(shop.order_field(order, "status").await, "paid");
    shop.expect_logged(&["[ALERT]", "refund", &first.to_string()]).await;
    let path = format!("/api/v1/ops/orders/{order}/refunds");
    let second = shop.api.post(OPERATOR, &path, json!({"reason": "again"})).await.unwrap();
    let second = second.id("refundId");
    assert_ne!(second, first);
    shop.api.refund_reported(second, "SUCCESS").await.unwrap().value();
    shop.settled().await;
    assert_eq!(shop.order_field(order, "status").await, "refunded");
    shop.assert_invariants_except(&[]).await;
}

super::by_turns! {
    refund_reverts_all_assets_and_product_is_on_sale_again,
    payment_after_cancellation_is_refunded_automatically_once,
    payment_before_locks_is_refused_as_retryable_and_changes_nothing,
    failed_refund_leaves_order_paid_until_operator_retries,
}
