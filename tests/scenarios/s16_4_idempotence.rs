//! 000 §16.4.1: a message that comes again has no second effect.

use serde_json::json;
use sqlx::Row;

use crate::shop::Shop;

const DUPLICATE: &str = "事件已处理，忽略重复消息";
/// Every message that waits for a consumer now.
const WAITING: &str = "SELECT queue, message_id, kind, correlation_id, headers, body FROM broker_messages
    WHERE queue NOT LIKE 'order.timeout.delay.queue%' ORDER BY id";
const EFFECTS: [&str; 5] =
    ["listing_changes", "shipments", "notifications", "buyer_credit_changes", "event_consume_log"];

/// The messages that wait for consumers, to be sent again.
struct Copies(Vec<[String; 6]>);

impl Copies {
    async fn of(shop: &Shop) -> Copies {
        let rows = sqlx::query(WAITING).fetch_all(shop.books.pool()).await.unwrap();
        Copies(rows.iter().map(|row| std::array::from_fn(|column| row.get(column))).collect())
    }

    /// Sends every one of them again.
    async fn send(&self, shop: &Shop) {
        let insert = "INSERT INTO broker_messages (queue, message_id, kind, correlation_id, headers, body)
            VALUES (?, ?, ?, ?, ?, ?)";
        for copy in &self.0 {
            let insert = copy.iter().fold(sqlx::query(insert), |insert, value| insert.bind(value));
            insert.execute(shop.books.pool()).await.unwrap();
        }
    }
}

/// How many rows each table of effects has.
async fn effects(shop: &Shop) -> Vec<i64> {
    let mut counts = Vec::new();
    for table in EFFECTS {
        counts.push(shop.books.number(&format!("SELECT count(*) FROM {table}")).await);
    }
    counts
}

/// §16.4.1, with §9.1: every message of an order's life three times, two of them side by side.
#[tokio::test(flavor = "multi_thread")]
async fn s16_4_1_a_repeated_message_has_one_effect() {
    // First without consumers, so that the messages can be had.
    let shop = Shop::open_with_roles("api,relay").await;
    let order = shop.paid_order().await;
    shop.complete(order).await;
    shop.expect_count(0, "SELECT count(*) FROM outbox_events WHERE status <> 'SENT'").await;
    let copies = Copies::of(&shop).await;
    let queues: std::collections::BTreeSet<&str> = copies.0.iter().map(|copy| copy[0].as_str()).collect();
    assert!(queues.len() >= 4, "{queues:?}");
    copies.send(&shop).await;
    let shop = shop.reopen();
    shop.settled().await;
    let once = effects(&shop).await;
    assert!(once.iter().all(|count| *count > 0), "{once:?}");
    shop.sound_but_for(&[]).await;

    let ignored = shop.logged(&[DUPLICATE]);
    copies.send(&shop).await;
    shop.settled().await;
    assert_eq!(effects(&shop).await, once);
    shop.sound_but_for(&[]).await;
    assert_eq!(shop.logged(&[DUPLICATE]) - ignored, copies.0.len());
    for event in shop.event_ids(order, "ORDER_PAID").await {
        assert!(shop.logged(&[DUPLICATE, &event, r#""consumer":"fulfillment""#]) >= 1);
    }
}

/// §16.4.1: events that the operator sends again reach every consumer again, and have no second effect.
#[tokio::test(flavor = "multi_thread")]
async fn s16_4_1_a_redriven_event_has_one_effect() {
    let shop = Shop::open(&[]).await;
    let order = shop.paid_order().await;
    shop.complete(order).await;
    shop.settled().await;
    let once = effects(&shop).await;
    let ignored = shop.logged(&[DUPLICATE]);
    let events = shop.rows("SELECT event_id FROM outbox_events WHERE event_type <> 'ORDER_TIMEOUT'").await;
    let answer =
        shop.operate("outbox/redrive", json!({"eventIds": events, "perSecond": 1_000})).await.value();
    assert_eq!(answer["redriven"], events.len(), "{answer}");
    shop.settled().await;
    assert_eq!(effects(&shop).await, once);
    assert_eq!(shop.books.number("SELECT max(attempts) FROM event_consume_log").await, 1);
    shop.sound_but_for(&[]).await;
    let consumed = usize::try_from(*once.last().unwrap()).unwrap();
    assert_eq!(shop.logged(&[DUPLICATE]) - ignored, consumed, "each consumer was told of each event again");
}
