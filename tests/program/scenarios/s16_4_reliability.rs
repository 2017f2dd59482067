//! 000 §16.4.2 and §16.4.3: a message that always fails becomes a dead letter, and a person can replay it.

use handover_outbox::ports::Message;
use handover_tests::deployment::Pair;
use serde_json::{Value, json};

use super::shop::{SELLER, SHORT_RETRIES, Shop, paid_payload};

const FULFILMENT: &str = "order.fulfillment.queue";
/// The final check reports dead letters whatever their status.
const KNOWN_VIOLATIONS: [&str; 1] = ["a dead letter exists"];

/// The dead letters of the fulfilment queue, newest first.
async fn dead_letters(shop: &Shop) -> Vec<Value> {
    shop.inspect(&format!("dead-letters?queue={FULFILMENT}")).await.items().to_vec()
}

/// Consume-log record of an event at fulfilment: status, attempts, error.
async fn consumed(shop: &Shop, event: &str) -> (String, i64, String) {
    let sql = format!(
        "SELECT status, attempts, error_message FROM event_consume_log
         WHERE consumer = 'fulfillment' AND event_id = '{event}'"
    );
    let row = shop.snapshot.table(&sql).await.unwrap().remove(0);
    let [status, attempts, error] = row.try_into().unwrap();
    (status.unwrap(), attempts.unwrap().parse().unwrap(), error.unwrap_or_default())
}

/// Pays an order whose ORDER_PAID becomes a dead letter at fulfilment. Returns the event id.
async fn dead_event(shop: &Shop) -> String {
    let order = shop.paid_order().await;
    let event = shop.event_ids(order, "ORDER_PAID").await.remove(0);
    let parked =
        format!("SELECT count(*) FROM dead_letters WHERE message_key = '{event}' AND status = 'OPEN'");
    shop.expect_count(1, &parked).await;
    event
}

/// §16.4.2 for transient errors: the first attempt and three retries (§9.2).
async fn s16_4_2_failing_message_becomes_dead_letter_after_all_attempts(pair: Pair) {
    let shop = Shop::open(pair, &[SHORT_RETRIES]).await;
    shop.refuse_rows_of("shipments").await;
    let event = dead_event(&shop).await;
    shop.settled().await;
    let (status, attempts, error) = consumed(&shop, &event).await;
    assert_eq!((status.as_str(), attempts), ("DEAD", 4));
    assert!(error.starts_with("消息消费失败"), "{error}");
    let dead_letters = dead_letters(&shop).await;
    assert_eq!(dead_letters.len(), 1);
    assert_eq!((&dead_letters[0]["key"], &dead_letters[0]["status"]), (&json!(event), &json!("OPEN")));
    assert!(dead_letters[0]["reason"].as_str().unwrap().starts_with("消息消费失败"), "{dead_letters:?}");
    shop.expect_logged(&["[ALERT]", &event]).await;
    assert_eq!(shop.logged(&["[ALERT]", &event]), 1, "§16.4.3: one alert must be logged");
    assert_eq!(shop.broker.count("order.dlq.queue").await, 0);
    // Other consumers of the same event are not affected.
    let elsewhere = format!(
        "SELECT count(*) FROM event_consume_log WHERE event_id = '{event}' AND consumer <> 'fulfillment'
         AND status <> 'SUCCESS'"
    );
    assert_eq!(shop.snapshot.number(&elsewhere).await, 0);
}

/// §16.4.2 for permanent errors (§9.3): missing data, an order that does not exist, an unknown type.
async fn s16_4_2_permanent_error_becomes_dead_letter_at_first_attempt(pair: Pair) {
    let shop = Shop::open(
        pair,
        &[
            ("HANDOVER_OUTBOX__SCAN_INTERVAL", "50ms"),
            ("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.01"),
            // No second attempt happens during this test.
            ("HANDOVER_CONSUMER__BACKOFF", r#"{base = "1h", cap = "1h"}"#),
        ],
    )
    .await;
    shop.insert_event("no-data", "ORDER_PAID", 900_001, &json!({"orderId": 900_001})).await;
    let mut timeout = paid_payload(900_002);
    timeout["createTime"] = json!("2026-02-04T10:30:00Z");
    shop.insert_event("no-order", "ORDER_TIMEOUT", 900_002, &timeout).await;
    let envelope = json!({
        "eventId": "no-type", "eventType": "ORDER_EXPLODED", "aggregateType": "Order", "aggregateId": 900_003,
        "occurredAt": "2026-02-04T10:30:00Z", "traceId": "t", "payload": {"orderId": 900_003},
    });
    let message = Message {
        message_id: Some("no-type".to_owned()),
        kind: Some("ORDER_EXPLODED".to_owned()),
        correlation_id: Some("t".to_owned()),
        headers: Default::default(),
        body: envelope.to_string(),
    };
    shop.broker.send(FULFILMENT, &message).await;
    let dead = |consumer: &str, event: &str| {
        format!(
            "SELECT count(*) FROM event_consume_log WHERE consumer = '{consumer}' AND event_id = '{event}'
             AND status = 'DEAD' AND attempts = 1"
        )
    };
    shop.expect_count(1, &dead("fulfillment", "no-data")).await;
    shop.expect_count(1, &dead("order-timeout", "no-order")).await;
    let reason = |queue: &str, reason: &str| {
        format!("SELECT count(*) FROM dead_letters WHERE queue = '{queue}' AND reason LIKE '{reason}%'")
    };
    shop.expect_count(1, &reason(FULFILMENT, "事件类型不支持: ORDER_EXPLODED")).await;
    shop.expect_count(1, &reason(FULFILMENT, "消息消费失败")).await;
    shop.expect_count(1, &reason("order.timeout.queue", "消息消费失败")).await;
    shop.settled().await;
}

/// §16.4.3: a dead letter is listed, replayed after its cause is fixed, and applied once; another one is discarded.
async fn s16_4_3_dead_letter_is_replayed_or_discarded(pair: Pair) {
    let shop = Shop::open(pair, &[SHORT_RETRIES]).await;
    shop.refuse_rows_of("shipments").await;
    let wanted = dead_event(&shop).await;
    let unwanted = dead_event(&shop).await;
    shop.settled().await;
    let keys: Vec<Value> =
        dead_letters(&shop).await.iter().map(|dead_letter| dead_letter["key"].clone()).collect();
    assert_eq!(keys, [unwanted.as_str(), wanted.as_str()], "newest first");

    shop.accept_rows_of("shipments").await;
    let replay = json!({"keys": [wanted], "queue": FULFILMENT, "reason": "the cause is fixed"});
    let mut dry_run = replay.clone();
    dry_run["dryRun"] = json!(true);
    let response = shop.operate("dead-letters/replay", dry_run).await.value();
    assert_eq!((&response["matched"], &response["dryRun"]), (&json!(1), &json!(true)), "{response}");
    assert_eq!(consumed(&shop, &wanted).await.0, "DEAD", "a dry run must not replay anything");
    let response = shop.operate("dead-letters/replay", replay.clone()).await.value();
    assert_eq!((&response["matched"], &response["replayed"]), (&json!(1), &json!(1)), "{response}");
    let shipments = format!("SELECT count(*) FROM shipments WHERE event_id = '{wanted}'");
    shop.expect_count(1, &shipments).await;
    shop.settled().await;
    let (status, attempts, _) = consumed(&shop, &wanted).await;
    assert_eq!((status.as_str(), attempts), ("SUCCESS", 1), "a replay must restart the attempt count");

    let discard = json!({"keys": [unwanted], "reason": "delivered in person"});
    let mut without = discard.clone();
    without.as_object_mut().unwrap().shift_remove("reason");
    let refused = shop.operate("dead-letters/discard", without).await;
    assert_eq!(refused.outcome(), (400, "A0400"), "a discard without a reason must be rejected: {refused:?}");
    let response = shop.operate("dead-letters/discard", discard).await.value();
    assert_eq!(response["discarded"], 1, "{response}");
    let dead_letters = dead_letters(&shop).await;
    let ends: Vec<_> =
        dead_letters.iter().map(|dead_letter| (&dead_letter["status"], &dead_letter["note"])).collect();
    let expected = [("DISCARDED", "delivered in person"), ("REPLAYED", "the cause is fixed")]
        .map(|(status, note)| (json!(status), json!(note)));
    assert_eq!(ends, expected.each_ref().map(|(status, note)| (status, note)));

    // Decisions are final: no command changes the replayed or the discarded dead letter.
    for (key, path) in [(&wanted, "replay"), (&unwanted, "replay"), (&wanted, "discard")] {
        let body = json!({"keys": [key], "reason": "again"});
        let response = shop.operate(&format!("dead-letters/{path}"), body).await;
        let moved = |field: &str| response.data[field].as_i64().unwrap_or_default();
        assert_eq!((moved("replayed"), moved("discarded")), (0, 0), "{path} {key}: {response:?}");
    }
    shop.settled().await;
    assert_eq!(shop.snapshot.number(&shipments).await, 1);
    assert_eq!(shop.snapshot.number("SELECT count(*) FROM shipments").await, 1);
    let tasks = shop.api.get(SELLER, "/api/v1/shipments?as=seller").await.unwrap();
    assert_eq!(tasks.items().len(), 1);
    let audit = shop.inspect("audit").await;
    let reasons: Vec<&str> = audit.items().iter().filter_map(|item| item["reason"].as_str()).collect();
    for reason in ["the cause is fixed", "delivered in person"] {
        assert!(reasons.contains(&reason), "{audit:?}");
    }
    assert!(audit.items().iter().all(|item| item["actor"] == "user:9"), "{audit:?}");
    let unshipped = "a paid order does not have exactly one shipment";
    let unsettled = "a subscribed consumer has not applied one of its events";
    shop.assert_invariants_except(&[KNOWN_VIOLATIONS[0], unshipped, unsettled]).await;
}

super::by_turns! {
    s16_4_2_failing_message_becomes_dead_letter_after_all_attempts,
    s16_4_2_permanent_error_becomes_dead_letter_at_first_attempt,
    s16_4_3_dead_letter_is_replayed_or_discarded + postgres_and_database,
}
