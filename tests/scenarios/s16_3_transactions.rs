//! 000 §16.3: a change and its events are one transaction, and a publish that fails is retried.

use serde_json::{Value, json};

use handover_tests::books::moment;
use handover_tests::deployment::Pair;
use handover_tests::process::eventually;

use crate::carrier::SPY;
use crate::shop::{BUYER, SELLER, SOON, Shop};

/// Everything a message could come from.
async fn traces_of_messages(shop: &Shop) -> [i64; 4] {
    let count = async |sql| shop.books.number(sql).await;
    [
        count("SELECT count(*) FROM outbox_events").await,
        shop.carrier.count(SPY).await,
        count("SELECT count(*) FROM event_consume_log").await,
        count("SELECT count(*) FROM orders").await,
    ]
}

/// What is left by something and a paid order behind it: once that has settled, whatever went before it has as well.
async fn growth_by_a_paid_order(shop: &Shop, before_it: impl AsyncFn()) -> [i64; 4] {
    shop.settled().await;
    let before = traces_of_messages(shop).await;
    before_it().await;
    shop.paid_order().await;
    shop.settled().await;
    let after = traces_of_messages(shop).await;
    std::array::from_fn(|n| after[n] - before[n])
}

/// §16.3.1.
async fn s16_3_1_a_refused_order_leaves_no_event_and_no_message(pair: Pair) {
    let shop = Shop::open_with_a_spy(pair).await;
    let (sold, own, hidden) = (shop.product().await, shop.product().await, shop.product().await);
    shop.api.place_order(BUYER, sold).await.unwrap().value();
    shop.api.post(SELLER, &format!("/api/v1/products/{hidden}/off-shelf"), json!({})).await.unwrap().value();
    let without = growth_by_a_paid_order(&shop, async || {}).await;
    let with = growth_by_a_paid_order(&shop, async || {
        for (buyer, product, refusal) in [
            (BUYER + 1, sold, (409, "A0409")),
            (BUYER, sold, (409, "A0409")),
            (SELLER, own, (403, "A0303")),
            (BUYER, hidden, (409, "A0409")),
            (BUYER, 9_000_000, (404, "A0404")),
        ] {
            let answer = shop.api.place_order(buyer, product).await.unwrap();
            assert_eq!(answer.outcome(), refusal, "{answer:?}");
        }
    })
    .await;
    assert_eq!(with, without);
    assert_eq!(shop.product_field(own, "status").await, "on_sale");
    shop.sound_but_for(&[]).await;
}

/// §16.3.1: a transaction that fails at its last write has sent nothing and changed nothing.
async fn s16_3_1_a_transaction_that_fails_at_its_event_changes_nothing_at_all(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let product = shop.product().await;
    shop.refuse_rows_of("outbox_events").await;
    let answer = shop.api.place_order(BUYER, product).await.unwrap();
    assert_eq!((answer.status, answer.code.as_str(), &answer.data), (500, "B0001", &Value::Null));
    assert_eq!(shop.books.number("SELECT count(*) FROM orders").await, 0);
    assert_eq!(shop.product_field(product, "status").await, "on_sale");
    shop.accept_rows_of("outbox_events").await;
    shop.api.place_order(BUYER, product).await.unwrap().value();
    shop.settled().await;
    shop.sound_but_for(&[]).await;
}

/// §16.3.2. Nothing but the API runs, so no row can come from anything but its transaction.
async fn s16_3_2_every_acknowledged_change_has_its_event(pair: Pair) {
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
    assert_eq!(shop.books.number("SELECT count(*) FROM outbox_events").await, 5 + 3 + 2 + 2);
    assert_eq!(shop.books.number("SELECT count(*) FROM outbox_events WHERE status <> 'NEW'").await, 0);
    // Each row carries what its order carried when it was committed: the versions go up without a gap.
    let versions = format!(
        "SELECT DISTINCT aggregate_seq FROM outbox_events
         WHERE aggregate_type = 'Order' AND aggregate_id = {completed} ORDER BY aggregate_seq"
    );
    assert_eq!(shop.rows(&versions).await, ["1", "2", "3", "4"]);
}

/// §16.3.3.
async fn s16_3_3_a_publish_that_fails_is_retried_and_ends_failed(pair: Pair) {
    let shop = Shop::open(
        pair,
        &[
            ("HANDOVER_OUTBOX__RETRY", r#"{policy = "schedule", delays = ["400ms", "500ms", "600ms"]}"#),
            ("HANDOVER_OUTBOX__SCAN_INTERVAL", "50ms"),
        ],
    )
    .await;
    const UNROUTABLE: &str = "unroutable-1";
    shop.insert_event(UNROUTABLE, "ORDER_EXPLODED", 424_242, &json!({"orderId": 424_242})).await;
    let look = async || shop.inspect("outbox?aggregateId=424242").await.items()[0].clone();
    let mut seen: Vec<(String, i64)> = Vec::new();
    let row = eventually(SOON, async || {
        let row = look().await;
        let stage = (row["status"].as_str().unwrap().to_owned(), row["retryCount"].as_i64().unwrap());
        let is_failed = stage.0 == "FAILED";
        if stage.0 == "RETRY" {
            assert!(row["nextRetryTime"].is_string() && has_frozen_text(&row), "{row}");
        }
        if seen.last() != Some(&stage) {
            seen.push(stage);
        }
        if is_failed { Ok(row) } else { Err(format!("{seen:?}").into()) }
    })
    .await;
    seen.retain(|stage| stage.0 != "NEW");
    let stages = seen.iter().map(|(status, count)| (status.as_str(), *count)).collect::<Vec<_>>();
    assert_eq!(stages, [("RETRY", 1), ("RETRY", 2), ("RETRY", 3), ("FAILED", 4)]);
    assert!(has_frozen_text(&row) && row["nextRetryTime"].is_null() && row["sentTime"].is_null(), "{row}");
    shop.expect_logged(&["[OutboxRelay] [ALERT] Event marked as FAILED", UNROUTABLE, "消息发送失败"]).await;
    assert_eq!(shop.logged(&["[ALERT]", UNROUTABLE]), 1, "one alert");
}

/// §15: the text that begins the error.
fn has_frozen_text(row: &Value) -> bool {
    row["lastError"].as_str().is_some_and(|error| error.starts_with("消息发送失败"))
}

/// §16.3.3: what cannot be sent holds up no other order.
async fn s16_3_3_events_of_other_orders_pass_one_that_cannot_be_sent(pair: Pair) {
    let shop = Shop::open(pair, &[("HANDOVER_OUTBOX__SCAN_INTERVAL", "50ms")]).await;
    shop.insert_event("unroutable-2", "ORDER_EXPLODED", 424_242, &json!({"orderId": 424_242})).await;
    let waiting = "SELECT count(*) FROM outbox_events WHERE event_id = 'unroutable-2' AND status = 'RETRY'";
    shop.expect_count(1, waiting).await;
    let order = shop.paid_order().await;
    let shipment = format!("SELECT count(*) FROM shipments WHERE order_id = {order}");
    shop.expect_count(1, &shipment).await;
    assert_eq!(
        shop.books.number(waiting).await,
        1,
        "it still waits for its second attempt, with the delays of 000"
    );
    let times = "SELECT update_time, next_retry_time FROM outbox_events WHERE event_id = 'unroutable-2'";
    let times = shop.books.table(times).await.unwrap().remove(0);
    let [failed, next] = [0, 1].map(|column| moment(times[column].as_deref().unwrap()));
    // The two times were taken one after the other.
    let delay = (next - failed).num_milliseconds();
    assert!((4_900..=5_000).contains(&delay), "§7.3: the first retry comes after 5 s, not {delay} ms");
}

crate::on_every_pair!(
    s16_3_1_a_refused_order_leaves_no_event_and_no_message,
    s16_3_1_a_transaction_that_fails_at_its_event_changes_nothing_at_all,
    s16_3_2_every_acknowledged_change_has_its_event,
    s16_3_3_a_publish_that_fails_is_retried_and_ends_failed,
    s16_3_3_events_of_other_orders_pass_one_that_cannot_be_sent,
);
