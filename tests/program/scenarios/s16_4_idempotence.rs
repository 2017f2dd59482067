//! 000 §16.4.1: a duplicate message has no second effect.

use handover_outbox::ports::Message;
use handover_tests::deployment::Pair;
use serde_json::json;

use super::shop::Shop;

const DUPLICATE: &str = "事件已处理，忽略重复消息";
/// Queues that receive the messages of an order.
const QUEUES: [&str; 5] = [
    "inventory.update.queue",
    "order.fulfillment.queue",
    "order.status.sync.queue",
    "buyer.credit.queue",
    "asset.points.queue",
];
const EFFECTS: [&str; 5] =
    ["listing_changes", "shipments", "notifications", "buyer_credit_changes", "event_consume_log"];

/// Copies of the queued messages, to send them again.
struct Copies(Vec<(&'static str, Message)>);

impl Copies {
    async fn of(shop: &Shop) -> Copies {
        let mut copies = Vec::new();
        for queue in QUEUES {
            let messages = shop.broker.messages(queue).await;
            assert!(!messages.is_empty(), "{queue} is empty");
            copies.extend(messages.into_iter().map(|message| (queue, message)));
        }
        Copies(copies)
    }

    /// Sends every message again.
    async fn send(&self, shop: &Shop) {
        for (queue, message) in &self.0 {
            shop.broker.send(queue, message).await;
        }
    }
}

/// Row counts of the effect tables.
async fn effects(shop: &Shop) -> Vec<i64> {
    let mut counts = Vec::new();
    for table in EFFECTS {
        counts.push(shop.snapshot.number(&format!("SELECT count(*) FROM {table}")).await);
    }
    counts
}

/// §16.4.1, with §9.1: every message of an order is sent three times, and the first two copies are processed
/// concurrently.
async fn s16_4_1_repeated_message_has_one_effect(pair: Pair) {
    // Start without consumers, so that the messages stay in the queues.
    let shop = Shop::open_with_roles(pair, "api,relay").await;
    let order = shop.paid_order().await;
    shop.complete(order).await;
    shop.expect_count(0, "SELECT count(*) FROM outbox_events WHERE status <> 'SENT'").await;
    let copies = Copies::of(&shop).await;
    copies.send(&shop).await;
    let shop = shop.reopen();
    shop.settled().await;
    let once = effects(&shop).await;
    assert!(once.iter().all(|count| *count > 0), "{once:?}");
    shop.assert_invariants_except(&[]).await;

    let ignored = shop.logged(&[DUPLICATE]);
    copies.send(&shop).await;
    shop.settled().await;
    assert_eq!(effects(&shop).await, once);
    shop.assert_invariants_except(&[]).await;
    // A broker may redeliver a message at any time, so there may be more duplicates than copies.
    shop.expect_logged_times(&[DUPLICATE], ignored + copies.0.len()).await;
    for event in shop.event_ids(order, "ORDER_PAID").await {
        shop.expect_logged(&[DUPLICATE, &event, r#""consumer":"fulfillment""#]).await;
    }
}

/// §16.4.1: redriven events reach every consumer again and have no second effect.
async fn s16_4_1_redriven_event_has_one_effect(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let order = shop.paid_order().await;
    shop.complete(order).await;
    shop.settled().await;
    let once = effects(&shop).await;
    let attempts = "SELECT sum(attempts) FROM event_consume_log";
    let attempts_once = shop.snapshot.number(attempts).await;
    let ignored = shop.logged(&[DUPLICATE]);
    let events = shop.rows("SELECT event_id FROM outbox_events WHERE event_type <> 'ORDER_TIMEOUT'").await;
    let response =
        shop.operate("outbox/redrive", json!({"eventIds": events, "perSecond": 1_000})).await.value();
    assert_eq!(response["redriven"], events.len(), "{response}");
    shop.settled().await;
    assert_eq!(effects(&shop).await, once);
    assert_eq!(
        shop.snapshot.number(attempts).await,
        attempts_once,
        "an ignored duplicate must not count as an attempt"
    );
    shop.assert_invariants_except(&[]).await;
    let consumed = usize::try_from(*once.last().unwrap()).unwrap();
    // Each consumer receives each event again.
    shop.expect_logged_times(&[DUPLICATE], ignored + consumed).await;
}

super::by_turns! {
    s16_4_1_repeated_message_has_one_effect + postgres_and_database,
    s16_4_1_redriven_event_has_one_effect,
}
