//! Products, orders and payments contradict one another after changes by SQL: reconciliation reports each contradiction,
//! finishes what is certain once, and gives an order without a payment no events and no effects (004: an order is paid if
//! its payment is paid).

use std::collections::BTreeMap;

use handover_tests::deployment::Pair;
use serde_json::{Value, json};

use super::shop::{BUYER, Shop};

/// The kinds of findings about contradictions.
const KINDS: [&str; 8] = [
    "productNotSold",
    "soldTwice",
    "soldWithoutOrder",
    "paidWithoutPayment",
    "paymentFailed",
    "paymentNotApplied",
    "refundNotApplied",
    "notRefunded",
];

/// The repair of each contradiction, by kind and order.
fn contradictions(report: &Value) -> BTreeMap<(String, i64), Value> {
    let findings = report["findings"].as_array().unwrap();
    let of_kinds = findings.iter().filter(|found| KINDS.contains(&found["kind"].as_str().unwrap()));
    of_kinds
        .map(|found| {
            let kind = found["kind"].as_str().unwrap().to_owned();
            ((kind, found["orderId"].as_i64().unwrap_or(0)), found["repaired"].clone())
        })
        .collect()
}

/// An order of a new product, and its payment in PROCESSING.
async fn started(shop: &Shop) -> (i64, i64) {
    let order = shop.order().await;
    (order, shop.api.start_payment(BUYER, order).await.unwrap().id("paymentId"))
}

async fn contradictions_are_found_and_finished_once(pair: Pair) {
    // With this delay the sandbox gateway reports no refund during the test.
    let shop = Shop::open(pair, &[("HANDOVER_GATEWAY__SANDBOX_DELAY", "1h")]).await;
    let on_sale = shop.paid_order().await;
    let failed = shop.paid_order().await;
    let unpaid = shop.order().await;
    let (pending, captured) = started(&shop).await;
    let (cancelled, late) = started(&shop).await;
    shop.api.cancel(BUYER, cancelled).await.unwrap().value();
    let product = shop.product().await;
    shop.settled().await;
    let report = shop.inspect("reconciliation").await.value();
    assert_eq!((&report["sound"], &report["findings"]), (&json!(true), &json!([])), "{report}");
    let success = |payment: i64| {
        format!(
            "UPDATE payments SET status = 'SUCCESS', transaction_id = 'sql-{payment}', version = 2 WHERE id = {payment}"
        )
    };
    for change in [
        format!(
            "UPDATE products SET status = 'on_sale' WHERE id = (SELECT product_id FROM orders WHERE id = {on_sale})"
        ),
        format!("UPDATE products SET status = 'sold' WHERE id = {product}"),
        format!("UPDATE payments SET status = 'FAILED' WHERE order_id = {failed}"),
        format!("UPDATE orders SET status = 'paid', version = 2, pay_time = create_time WHERE id = {unpaid}"),
        success(captured),
        success(late),
    ] {
        assert_eq!(shop.snapshot.change(&change).await, 1, "{change}");
    }
    let all = |sold: Value, paid: Value, refunded: Value| {
        BTreeMap::from([
            (("productNotSold".to_owned(), on_sale), sold),
            (("soldWithoutOrder".to_owned(), 0), Value::Null),
            (("paymentFailed".to_owned(), failed), Value::Null),
            (("paidWithoutPayment".to_owned(), unpaid), Value::Null),
            (("paymentNotApplied".to_owned(), pending), paid),
            (("notRefunded".to_owned(), cancelled), refunded),
        ])
    };
    let report = shop.inspect("reconciliation").await.value();
    assert_eq!(contradictions(&report), all(Value::Null, Value::Null, Value::Null), "{report}");
    let report = shop.operate("reconciliation/repair", json!({})).await.value();
    let repaired = all(json!("productSold"), json!("orderPaid"), json!("refundStarted"));
    assert_eq!(contradictions(&report), repaired, "{report}");
    let left: BTreeMap<_, _> = repaired.into_iter().filter(|(_, repair)| repair.is_null()).collect();
    for _ in 0..2 {
        shop.settled().await;
        let report = shop.operate("reconciliation/repair", json!({})).await.value();
        assert_eq!(contradictions(&report), left, "{report}");
    }
    shop.settled().await;
    assert_eq!(shop.order_field(pending, "status").await, "paid");
    assert_eq!(shop.event_ids(pending, "ORDER_PAID").await.len(), 1);
    for (order, count) in [(pending, 1), (unpaid, 0), (cancelled, 0)] {
        let tasks = format!("SELECT count(*) FROM shipments WHERE order_id = {order}");
        assert_eq!(shop.snapshot.number(&tasks).await, count, "order {order}");
    }
    assert_eq!(shop.events(unpaid).await, ["ORDER_CREATED", "ORDER_TIMEOUT"]);
    let refunds =
        format!("SELECT count(*) FROM refunds WHERE payment_id = {late} AND cause = 'late_payment'");
    assert_eq!(shop.snapshot.number(&refunds).await, 1);
    assert_eq!(shop.snapshot.number("SELECT count(*) FROM refunds").await, 1);
    let order =
        shop.api.place_order(BUYER, shop.order_field(on_sale, "productId").await.as_i64().unwrap()).await;
    assert_eq!(order.unwrap().outcome(), (409, "A0409"));
}

super::by_turns! {
    contradictions_are_found_and_finished_once,
}
