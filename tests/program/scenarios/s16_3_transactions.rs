//! 000 §16.3: a change and its events are committed in one transaction, and a failed publish is retried.

use serde_json::{Value, json};

use handover_tests::deployment::Pair;

use super::broker_access::SPY;
use super::shop::{BUYER, SELLER, Shop};

/// Counts of outbox rows, messages, consume-log records and orders.
async fn row_counts(shop: &Shop) -> [i64; 4] {
    let count = async |sql| shop.snapshot.number(sql).await;
    [
        count("SELECT count(*) FROM outbox_events").await,
        shop.broker.count(SPY).await,
        count("SELECT count(*) FROM event_consume_log").await,
        count("SELECT count(*) FROM orders").await,
    ]
}

/// Executes `before_it`, then places and pays an order. Returns by how much each count has grown when the events of the
/// order are settled; by then the effects of `before_it` are complete.
async fn growth_of_row_counts_with_paid_order(shop: &Shop, before_it: impl AsyncFn()) -> [i64; 4] {
    shop.settled().await;
    let before = row_counts(shop).await;
    before_it().await;
    shop.paid_order().await;
    shop.settled().await;
    let after = row_counts(shop).await;
    std::array::from_fn(|n| after[n] - before[n])
}

async fn s16_3_1_refused_order_leaves_no_event_and_no_message(pair: Pair) {
    let shop = Shop::open_with_spy(pair).await;
    let sold = shop.product().await;
    let own = shop.product().await;
    let hidden = shop.product().await;
    shop.api.place_order(BUYER, sold).await.unwrap().value();
    shop.api.post(SELLER, &format!("/api/v1/products/{hidden}/off-shelf"), json!({})).await.unwrap().value();
    let without = growth_of_row_counts_with_paid_order(&shop, async || {}).await;
    let with = growth_of_row_counts_with_paid_order(&shop, async || {
        for (buyer, product, refusal) in [
            (BUYER + 1, sold, (409, "A0409")),
            (BUYER, sold, (409, "A0409")),
            (SELLER, own, (403, "A0303")),
            (BUYER, hidden, (409, "A0409")),
            (BUYER, 9_000_000, (404, "A0404")),
        ] {
            let response = shop.api.place_order(buyer, product).await.unwrap();
            assert_eq!(response.outcome(), refusal, "{response:?}");
        }
    })
    .await;
    assert_eq!(with, without);
    assert_eq!(shop.product_field(own, "status").await, "on_sale");
    shop.assert_invariants_except(&[]).await;
}

/// §16.3.1: a transaction that fails at its last write sends nothing and changes nothing.
async fn s16_3_1_transaction_changes_nothing_when_event_insert_fails(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let product = shop.product().await;
    shop.refuse_rows_of("outbox_events").await;
    let response = shop.api.place_order(BUYER, product).await.unwrap();
    assert_eq!((response.status, response.code.as_str(), &response.data), (500, "B0001", &Value::Null));
    assert_eq!(shop.snapshot.number("SELECT count(*) FROM orders").await, 0);
    assert_eq!(shop.product_field(product, "status").await, "on_sale");
    shop.accept_rows_of("outbox_events").await;
    shop.api.place_order(BUYER, product).await.unwrap().value();
    shop.settled().await;
    shop.assert_invariants_except(&[]).await;
}

/// §16.3.2. Only the API runs, so every outbox row comes from the transaction of its change.
async fn s16_3_2_acknowledged_change_has_its_event(pair: Pair) {
    let shop = Shop::open_with_roles(pair, "api").await;
    let completed = shop.order().await;
    let mut types = vec!["ORDER_CREATED", "ORDER_TIMEOUT"];
    assert_eq!(shop.events(completed).await, types);
    shop.pay(completed).await;
    types.push("ORDER_PAID");
    assert_eq!(shop.events(completed).await, types);
    shop.api.ship(SELLER, completed).await.unwrap().value();
    types.push("ORDER_STATUS_CHANGED");
    assert_eq!(shop.events(completed).await, types);
    shop.api.complete(BUYER, completed).await.unwrap().value();
    types.push("ORDER_STATUS_CHANGED");
    assert_eq!(shop.events(completed).await, types);
    let cancelled = shop.order().await;
    shop.api.cancel(BUYER, cancelled).await.unwrap().value();
    assert_eq!(shop.events(cancelled).await, ["ORDER_CREATED", "ORDER_TIMEOUT", "ORDER_CANCELLED"]);
    let unpaid = shop.order().await;
    let payment = shop.api.start_payment(BUYER, unpaid).await.unwrap().id("paymentId");
    shop.api.payment_reported(payment, "FAILED").await.unwrap().value();
    let payments = "SELECT event_type FROM outbox_events WHERE aggregate_type = 'Payment' ORDER BY id";
    assert_eq!(shop.rows(payments).await, ["PAYMENT_SUCCEEDED", "PAYMENT_FAILED"]);
    assert_eq!(shop.snapshot.number("SELECT count(*) FROM outbox_events").await, 5 + 3 + 2 + 2);
    assert_eq!(shop.snapshot.number("SELECT count(*) FROM outbox_events WHERE status <> 'NEW'").await, 0);
    // The sequence number is the version of the order at commit; there are no gaps.
    let versions = format!(
        "SELECT DISTINCT aggregate_seq FROM outbox_events
         WHERE aggregate_type = 'Order' AND aggregate_id = {completed} ORDER BY aggregate_seq"
    );
    assert_eq!(shop.rows(&versions).await, ["1", "2", "3", "4"]);
}

/// §16.3.3 for a row that can never be sent.
async fn s16_3_3_unsendable_event_fails_at_first_attempt(pair: Pair) {
    let shop = Shop::open(pair, &[("HANDOVER_OUTBOX__SCAN_INTERVAL", "50ms")]).await;
    const UNKNOWN: &str = "unknown-1";
    shop.insert_event(UNKNOWN, "ORDER_EXPLODED", 424_242, &json!({"orderId": 424_242})).await;
    shop.expect_logged(&[FAILED, UNKNOWN]).await;
    assert_eq!(failed_attempts(&shop, UNKNOWN), [(FAILED.to_owned(), 1)]);
    let row = outbox_row(&shop, 424_242).await;
    assert_eq!((&row["status"], &row["retryCount"]), (&json!("FAILED"), &json!(1)), "{row}");
    assert!(has_frozen_prefix(&row["lastError"]), "{row}");
    assert!(row["nextRetryTime"].is_null() && row["sentTime"].is_null(), "{row}");
    assert_eq!(shop.logged(&["[ALERT]", UNKNOWN]), 1, "one alert");
}

const WAITS: &str = "[OutboxRelay] Event waits for its next attempt";
const FAILED: &str = "[OutboxRelay] [ALERT] Event marked as FAILED";

/// The failed attempts of an event according to the log.
fn failed_attempts(shop: &Shop, event: &str) -> Vec<(String, i64)> {
    let log = shop.launch().log();
    let lines = log.lines().filter(|line| line.contains(event) && line.contains("[OutboxRelay]"));
    lines.filter(|line| line.contains(WAITS) || line.contains(FAILED)).map(failed_attempt).collect()
}

/// Message and attempt number of a log line about a failed attempt. The error starts with the text frozen in §15.
fn failed_attempt(line: &str) -> (String, i64) {
    let line: Value = serde_json::from_str(line).unwrap();
    assert!(has_frozen_prefix(&line["error"]), "{line}");
    (line["message"].as_str().unwrap().to_owned(), line["retryCount"].as_i64().unwrap())
}

/// The only event of an order, as operators read it.
async fn outbox_row(shop: &Shop, order: i64) -> Value {
    let rows = shop.inspect(&format!("outbox?aggregateId={order}")).await;
    assert_eq!(rows.items().len(), 1, "{rows:?}");
    rows.items()[0].clone()
}

/// §15: the frozen prefix of the error.
fn has_frozen_prefix(error: &Value) -> bool {
    error.as_str().is_some_and(|error| error.starts_with("消息发送失败"))
}

/// §16.3.3: an unsendable event does not delay other orders.
async fn s16_3_3_unsendable_event_does_not_block_other_orders(pair: Pair) {
    let shop = Shop::open(pair, &[("HANDOVER_OUTBOX__SCAN_INTERVAL", "50ms")]).await;
    shop.insert_event("unknown-2", "ORDER_EXPLODED", 424_242, &json!({"orderId": 424_242})).await;
    let order = shop.paid_order().await;
    let shipment = format!("SELECT count(*) FROM shipments WHERE order_id = {order}");
    shop.expect_count(1, &shipment).await;
    let failed = "SELECT count(*) FROM outbox_events WHERE event_id = 'unknown-2' AND status = 'FAILED'";
    shop.expect_count(1, failed).await;
}

super::by_turns! {
    s16_3_1_refused_order_leaves_no_event_and_no_message,
    s16_3_1_transaction_changes_nothing_when_event_insert_fails,
    s16_3_2_acknowledged_change_has_its_event,
    s16_3_3_unsendable_event_fails_at_first_attempt + postgres_and_database,
    s16_3_3_unsendable_event_does_not_block_other_orders,
}
