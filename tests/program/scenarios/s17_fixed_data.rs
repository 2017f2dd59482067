//! 000 §17: the fixed regression data, and the contracts of §6 and §13 on it.

use chrono::DateTime;
use handover_outbox::ports::Message;
use handover_tests::deployment::Pair;
use handover_tests::process::eventually;
use serde_json::{Map, Value, json};

use super::shop::{BUYER, SELLER, SOON, Shop, paid_payload};

/// Waits until the queue contains exactly one message. Returns the message and its envelope.
async fn message(shop: &Shop, queue: &str) -> (Message, Map<String, Value>) {
    eventually(SOON, async || match shop.broker.count(queue).await {
        1 => Ok(()),
        count => Err(format!("{queue} contains {count} messages, expected 1").into()),
    })
    .await;
    let message = shop.broker.messages(queue).await.remove(0);
    let envelope = serde_json::from_str(&message.body).unwrap();
    (message, envelope)
}

fn names(object: &Map<String, Value>) -> Vec<&str> {
    object.keys().map(String::as_str).collect()
}

#[track_caller]
fn assert_holds(payload: &Value, fields: &[(&str, Value)]) {
    for (name, value) in fields {
        assert_eq!(&payload[name], value, "{name} in {payload}");
    }
}

#[track_caller]
fn assert_is_utc_timestamp(value: &Value) {
    let text = value.as_str().unwrap();
    assert!(DateTime::parse_from_rfc3339(text).is_ok() && text.ends_with('Z'), "{text}");
}

/// A JSON number with this exact text, such as `88.50`.
fn amount(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// §17, the fixed order: it is pending, its product is sold, and its two messages match §6, §13.1 and §13.4.
async fn s17_fixed_order_is_pending_and_its_messages_match(pair: Pair) {
    let shop = Shop::open_with_roles(pair, "api,relay").await;
    let product = shop.product().await;
    let order = shop.api.place_order(BUYER, product).await.unwrap().value();
    let id = order["orderId"].clone();
    assert_holds(
        &order,
        &[
            ("status", json!("pending")),
            ("productId", json!(product)),
            ("buyerId", json!(BUYER)),
            ("sellerId", json!(SELLER)),
            ("totalAmount", amount("88.50")),
            ("payableAmount", amount("88.50")),
        ],
    );
    let order_no = order["orderNo"].as_str().unwrap();
    assert!(order_no.len() == 24 && order_no.bytes().all(|byte| byte.is_ascii_digit()), "{order_no}");
    assert_eq!(shop.product_field(product, "status").await, "sold");

    let common = [
        ("orderId", id.clone()),
        ("orderNo", order["orderNo"].clone()),
        ("buyerId", json!(BUYER)),
        ("sellerId", json!(SELLER)),
        ("totalAmount", amount("88.50")),
    ];
    let (properties, created) = message(&shop, "inventory.update.queue").await;
    assert_eq!(
        names(&created),
        ["eventId", "eventType", "aggregateType", "aggregateId", "occurredAt", "traceId", "payload"]
    );
    assert_eq!(
        (&created["eventType"], &created["aggregateType"]),
        (&json!("ORDER_CREATED"), &json!("Order"))
    );
    assert_eq!((&created["aggregateId"], &created["eventId"]), (&id, &json!(properties.message_id)));
    assert_eq!(created["eventType"], json!(properties.kind));
    assert_eq!(created["traceId"], json!(properties.correlation_id));
    let aggregate =
        ["aggregateType", "aggregateId", "tenantId"].map(|name| properties.headers[name].as_str());
    assert_eq!(aggregate, ["Order", &id.to_string(), "1"]);
    assert_is_utc_timestamp(&created["occurredAt"]);
    assert_holds(&created["payload"], &common);
    let more = [("productId", json!(product)), ("quantity", json!(1)), ("price", amount("88.50"))];
    assert_holds(&created["payload"], &more);

    let (_, timeout) = message(&shop, "order.timeout.delay.queue").await;
    assert_eq!((&timeout["eventType"], &timeout["aggregateId"]), (&json!("ORDER_TIMEOUT"), &id));
    assert_holds(&timeout["payload"], &common);
    assert_is_utc_timestamp(&timeout["payload"]["createTime"]);
    shop.expect_count(2, "SELECT count(*) FROM outbox_events WHERE status = 'SENT'").await;
    assert_eq!(shop.broker.ttl_ms("order.timeout.delay.queue").await, 15 * 60 * 1000);
    let shop = shop.reopen();
    shop.settled().await;
    assert_eq!(
        shop.order_field(id.as_i64().unwrap(), "status").await,
        "pending",
        "the order must be pending, because its payment deadline has not passed"
    );
    shop.assert_invariants_except(&[]).await;
}

/// §17, the fixed paid order: its message matches §13.2, and shipping creates the message of §13.3.
async fn s17_fixed_paid_order_is_shipped_and_its_messages_match(pair: Pair) {
    let shop = Shop::open_with_roles(pair, "api,relay").await;
    let order = shop.paid_order().await;
    let (_, paid) = message(&shop, "order.fulfillment.queue").await;
    assert_eq!((&paid["eventType"], &paid["aggregateId"]), (&json!("ORDER_PAID"), &json!(order)));
    let order_no = shop.order_field(order, "orderNo").await;
    let common = [("orderId", json!(order)), ("orderNo", order_no), ("amount", amount("88.50"))];
    assert_holds(&paid["payload"], &common);
    assert_is_utc_timestamp(&paid["payload"]["payTime"]);
    assert_eq!(paid["payload"]["payTime"], shop.order_field(order, "payTime").await);
    shop.api.ship(SELLER, order).await.unwrap().value();
    let (_, changed) = message(&shop, "order.status.sync.queue").await;
    assert_eq!(changed["eventType"], "ORDER_STATUS_CHANGED");
    assert_holds(
        &changed["payload"],
        &[("orderId", json!(order)), ("oldStatus", json!("paid")), ("newStatus", json!("shipped"))],
    );
    assert_is_utc_timestamp(&changed["payload"]["changedAt"]);
    let shop = shop.reopen();
    shop.settled().await;
    assert_eq!(shop.snapshot.number("SELECT count(*) FROM shipments").await, 1);
    shop.assert_invariants_except(&[]).await;
}

/// §17, the fixed event: its `eventId` occurs again in a second row, in a duplicate message, and with another payload.
async fn s17_fixed_event_with_repeated_id_takes_effect_once(pair: Pair) {
    const EVENT: &str = "day14-fixed-event";
    let shop = Shop::open(pair, &[("HANDOVER_OUTBOX__SCAN_INTERVAL", "50ms")]).await;
    let order = shop.paid_order().await;
    shop.settled().await;
    // The order's own event is lost, and a person inserts it by SQL under another id.
    let payload = shop.payload(order, "ORDER_PAID").await;
    let lost = format!("aggregate_id = {order} AND event_type = 'ORDER_PAID'");
    for forget in [
        format!("DELETE FROM shipments WHERE order_id = {order}"),
        format!("DELETE FROM event_consume_log WHERE {lost}"),
        format!("DELETE FROM outbox_events WHERE {lost}"),
    ] {
        assert!(shop.snapshot.change(&forget).await > 0, "{forget}");
    }
    shop.insert_event(EVENT, "ORDER_PAID", order, &payload).await;
    let again = "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, payload, create_time,
        update_time) SELECT event_id, event_type, aggregate_type, aggregate_id, payload, create_time, update_time
        FROM outbox_events WHERE event_id = 'day14-fixed-event'";
    let refused = shop.snapshot.try_change(again).await.unwrap_err();
    let database = refused.downcast_ref::<sqlx::Error>().and_then(sqlx::Error::as_database_error);
    assert!(database.is_some_and(|error| error.is_unique_violation()), "{refused}");
    let shipments = format!("SELECT count(*) FROM shipments WHERE event_id = '{EVENT}'");
    shop.expect_count(1, &shipments).await;
    shop.settled().await;

    let send = async |payload: &Value| {
        let envelope = json!({
            "eventId": EVENT, "eventType": "ORDER_PAID", "aggregateType": "Order", "aggregateId": order,
            "occurredAt": "2026-02-04T10:30:00Z", "traceId": "t", "payload": payload,
        });
        let message = Message {
            message_id: Some(EVENT.to_owned()),
            kind: Some("ORDER_PAID".to_owned()),
            correlation_id: Some("t".to_owned()),
            headers: Default::default(),
            body: envelope.to_string(),
        };
        shop.broker.send("order.fulfillment.queue", &message).await;
        shop.settled().await;
    };
    for _ in 0..2 {
        send(&payload).await;
    }
    assert_eq!(shop.snapshot.number(&shipments).await, 1);
    shop.expect_logged_times(&["事件已处理，忽略重复消息", EVENT, "fulfillment"], 2).await;

    // A message with the same id and different content is not a duplicate: it is parked, and the event is unchanged.
    send(&paid_payload(900_002)).await;
    let parked = "SELECT count(*) FROM dead_letters WHERE status = 'OPEN' AND queue";
    shop.expect_count(1, &format!("{parked} = 'order.fulfillment.queue'")).await;
    assert_eq!(shop.snapshot.number("SELECT count(*) FROM shipments").await, 1);
    // The lost event had already credited the points, so the inserted event credits none.
    let earned = format!(
        "SELECT count(*) FROM event_consume_log WHERE event_id = '{EVENT}' AND consumer = 'points'
         AND consume_result = 'already applied'"
    );
    shop.expect_count(1, &earned).await;
    let log = format!(
        "SELECT status FROM event_consume_log WHERE event_id = '{EVENT}' AND consumer = 'fulfillment'"
    );
    assert_eq!(shop.rows(&log).await, ["SUCCESS"]);
}

super::by_turns! {
    s17_fixed_order_is_pending_and_its_messages_match + postgres_and_database,
    s17_fixed_paid_order_is_shipped_and_its_messages_match,
    s17_fixed_event_with_repeated_id_takes_effect_once,
}
