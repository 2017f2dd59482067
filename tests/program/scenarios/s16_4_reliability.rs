//! 000 §16.4.2 and §16.4.3: a message that fails dies visibly, and a person can bring it back.

use handover_outbox::ports::Message;
use handover_tests::deployment::Pair;
use serde_json::{Value, json};

use super::shop::{HASTY_CONSUMERS, SELLER, Shop, paid_payload};

const FULFILMENT: &str = "order.fulfillment.queue";
/// A letter is a fault to the end check, whatever was decided about it.
const LETTERS: [&str; 1] = ["a dead letter nobody can explain"];

/// The dead letters of the fulfilment queue, newest first.
async fn letters(shop: &Shop) -> Vec<Value> {
    shop.inspect(&format!("dead-letters?queue={FULFILMENT}")).await.items().to_vec()
}

/// What the consume log says of an event at fulfilment: status, attempts, error.
async fn consumed(shop: &Shop, event: &str) -> (String, i64, String) {
    let sql = format!(
        "SELECT status, attempts, error_message FROM event_consume_log
         WHERE consumer = 'fulfillment' AND event_id = '{event}'"
    );
    let row = shop.books.table(&sql).await.unwrap().remove(0);
    let [status, attempts, error] = row.try_into().unwrap();
    (status.unwrap(), attempts.unwrap().parse().unwrap(), error.unwrap_or_default())
}

/// A paid order whose ORDER_PAID died at fulfilment; its event.
async fn dead_event(shop: &Shop) -> String {
    let order = shop.paid_order().await;
    let event = shop.event_ids(order, "ORDER_PAID").await.remove(0);
    let parked =
        format!("SELECT count(*) FROM dead_letters WHERE message_key = '{event}' AND status = 'OPEN'");
    shop.expect_count(1, &parked).await;
    event
}

/// §16.4.2 for what may yet succeed: the first attempt and three retries (§9.2).
async fn s16_4_2_a_message_that_always_fails_dies_after_its_attempts(pair: Pair) {
    let shop = Shop::open(pair, &[HASTY_CONSUMERS]).await;
    shop.refuse_rows_of("shipments").await;
    let event = dead_event(&shop).await;
    shop.settled().await;
    let (status, attempts, error) = consumed(&shop, &event).await;
    assert_eq!((status.as_str(), attempts), ("DEAD", 4));
    assert!(error.starts_with("消息消费失败"), "{error}");
    let letters = letters(&shop).await;
    assert_eq!(letters.len(), 1);
    assert_eq!((&letters[0]["key"], &letters[0]["status"]), (&json!(event), &json!("OPEN")));
    assert!(letters[0]["reason"].as_str().unwrap().starts_with("消息消费失败"), "{letters:?}");
    assert_eq!(shop.logged(&["[ALERT]", &event]), 1, "§16.4.3: somebody is told");
    assert_eq!(shop.carrier.count("order.dlq.queue").await, 0);
    // The other consumer of the same event does not suffer.
    let elsewhere = format!(
        "SELECT count(*) FROM event_consume_log WHERE event_id = '{event}' AND consumer <> 'fulfillment'
         AND status <> 'SUCCESS'"
    );
    assert_eq!(shop.books.number(&elsewhere).await, 0);
}

/// §16.4.2 for what never can (§9.3): missing data, an order that does not exist, an unknown type.
async fn s16_4_2_a_message_that_never_can_succeed_dies_at_once(pair: Pair) {
    let shop = Shop::open(
        pair,
        &[
            ("HANDOVER_OUTBOX__SCAN_INTERVAL", "50ms"),
            ("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.01"),
            // A second attempt would come too late for this test.
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
    shop.carrier.send(FULFILMENT, &message).await;
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

/// §16.4.3: listed, mended, replayed, applied once; another given up.
async fn s16_4_3_a_dead_letter_is_replayed_after_its_cause_is_mended_or_discarded(pair: Pair) {
    let shop = Shop::open(pair, &[HASTY_CONSUMERS]).await;
    shop.refuse_rows_of("shipments").await;
    let (wanted, unwanted) = (dead_event(&shop).await, dead_event(&shop).await);
    shop.settled().await;
    let keys: Vec<Value> = letters(&shop).await.iter().map(|letter| letter["key"].clone()).collect();
    assert_eq!(keys, [unwanted.as_str(), wanted.as_str()], "newest first");

    shop.accept_rows_of("shipments").await;
    let replay = json!({"keys": [wanted], "queue": FULFILMENT, "reason": "the shelf has room again"});
    let mut rehearsal = replay.clone();
    rehearsal["dryRun"] = json!(true);
    let answer = shop.operate("dead-letters/replay", rehearsal).await.value();
    assert_eq!((&answer["matched"], &answer["dryRun"]), (&json!(1), &json!(true)), "{answer}");
    assert_eq!(consumed(&shop, &wanted).await.0, "DEAD", "a dry run replays nothing");
    let answer = shop.operate("dead-letters/replay", replay.clone()).await.value();
    assert_eq!((&answer["matched"], &answer["replayed"]), (&json!(1), &json!(1)), "{answer}");
    let shipments = format!("SELECT count(*) FROM shipments WHERE event_id = '{wanted}'");
    shop.expect_count(1, &shipments).await;
    shop.settled().await;
    let (status, attempts, _) = consumed(&shop, &wanted).await;
    assert_eq!((status.as_str(), attempts), ("SUCCESS", 1), "its attempts were counted anew");

    let discard = json!({"keys": [unwanted], "reason": "the parcel was handed over at the door"});
    let mut without = discard.clone();
    without.as_object_mut().unwrap().shift_remove("reason");
    let refused = shop.operate("dead-letters/discard", without).await;
    assert_eq!(refused.outcome(), (400, "A0400"), "a discarded event needs a reason: {refused:?}");
    let answer = shop.operate("dead-letters/discard", discard).await.value();
    assert_eq!(answer["discarded"], 1, "{answer}");
    let letters = letters(&shop).await;
    let ends: Vec<_> = letters.iter().map(|letter| (&letter["status"], &letter["note"])).collect();
    let expected =
        [("DISCARDED", "the parcel was handed over at the door"), ("REPLAYED", "the shelf has room again")]
            .map(|(status, note)| (json!(status), json!(note)));
    assert_eq!(ends, expected.each_ref().map(|(status, note)| (status, note)));

    // What is decided is decided: neither comes back.
    for (key, path) in [(&wanted, "replay"), (&unwanted, "replay"), (&wanted, "discard")] {
        let body = json!({"keys": [key], "reason": "again"});
        let answer = shop.operate(&format!("dead-letters/{path}"), body).await;
        let moved = |field: &str| answer.data[field].as_i64().unwrap_or_default();
        assert_eq!((moved("replayed"), moved("discarded")), (0, 0), "{path} {key}: {answer:?}");
    }
    shop.settled().await;
    assert_eq!(shop.books.number(&shipments).await, 1);
    assert_eq!(shop.books.number("SELECT count(*) FROM shipments").await, 1);
    let tasks = shop.api.get(SELLER, "/api/v1/shipments?as=seller").await.unwrap();
    assert_eq!(tasks.items().len(), 1);
    let audit = shop.inspect("audit").await;
    let reasons: Vec<&str> = audit.items().iter().filter_map(|item| item["reason"].as_str()).collect();
    for reason in ["the shelf has room again", "the parcel was handed over at the door"] {
        assert!(reasons.contains(&reason), "{audit:?}");
    }
    assert!(audit.items().iter().all(|item| item["actor"] == "user:9"), "{audit:?}");
    let unshipped = "a paid order has not exactly one shipment";
    let unsettled = "a subscribed consumer has not settled an event it takes";
    shop.sound_but_for(&[LETTERS[0], unshipped, unsettled]).await;
}

super::by_turns! {
    s16_4_2_a_message_that_always_fails_dies_after_its_attempts,
    s16_4_2_a_message_that_never_can_succeed_dies_at_once,
    s16_4_3_a_dead_letter_is_replayed_after_its_cause_is_mended_or_discarded + postgres_and_database,
}
