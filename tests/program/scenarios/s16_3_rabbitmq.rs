//! 000 §16.3.3 on RabbitMQ itself: a message that no queue takes, and a broker that is away.

use std::time::Instant;

use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::eventually;
use handover_tests::rabbit_rigs;
use handover_tests::servers::proxy::{Proxy, Traffic};
use marketplace::queues::EXCHANGE;
use serde_json::json;

use super::shop::{SOON, Shop, whats};

/// A shop that reaches RabbitMQ by this proxy, with an order that is paid.
async fn shop_by(proxy: &Proxy, pair: Pair, settings: &[(&str, &str)]) -> Shop {
    let deployment = Deployment::start(pair).await;
    let url = deployment.vhost().url_by(proxy.port());
    let settings = [settings, &[("HANDOVER_BROKER__URL", url.as_str())]].concat();
    let shop = Shop::open_on(deployment, &settings, None).await;
    shop.paid_order().await;
    shop.settled().await;
    shop
}

/// The ORDER_PAID of an order that was paid when no queue took it, once it was tried.
async fn paid_without_bindings(shop: &Shop) -> String {
    let order = shop.order().await;
    // In one call: a call takes a second, and each consumer declares its binding again every 15 s.
    shop.deployment().vhost().unbind_all(EXCHANGE, "order.paid").await.unwrap();
    shop.pay(order).await;
    let event = shop.event_ids(order, "ORDER_PAID").await.remove(0);
    let tried = format!(
        "SELECT count(*) FROM outbox_events WHERE event_id = '{event}' AND (status = 'SENT' OR retry_count > 0)"
    );
    shop.expect_count(1, &tried).await;
    event
}

/// §8 and §16.3.3: what RabbitMQ returns as unroutable is not SENT; it is sent once somebody takes it again.
async fn s16_3_3_a_message_that_no_queue_takes_is_retried_until_its_bindings_are_back(pair: Pair) {
    // Longer than bindings are away.
    let retry = r#"{policy = "schedule", delays = ["1s", "20s", "20s", "20s", "20s", "20s"]}"#;
    let settings = [
        ("HANDOVER_OUTBOX__RETRY", retry),
        ("HANDOVER_OUTBOX__SCAN_INTERVAL", "50ms"),
        // Bindings come back one by one: what is published meanwhile, not every queue gets.
        ("HANDOVER_CONSUMER__LOST_AFTER", "3s"),
    ];
    let shop = Shop::open(pair, &settings).await;
    let mut paid = 0;
    let begun = Instant::now();
    let event = loop {
        paid += 1;
        assert!(begun.elapsed() < SOON, "the bindings are always back before anything is published");
        let event = paid_without_bindings(&shop).await;
        // What is missing is declared again every 15 s, which may have been just now.
        let charged = format!("SELECT retry_count FROM outbox_events WHERE event_id = '{event}'");
        if shop.books.number(&charged).await > 0 {
            break event;
        }
    };
    let sent = format!(
        "SELECT count(*) FROM outbox_events WHERE event_id = '{event}' AND status = 'SENT'
         AND last_error LIKE '消息发送失败%'"
    );
    eventually(SOON, async || match shop.books.count(&sent).await? {
        1 => Ok(()),
        _ => Err(format!("{event} is not sent").into()),
    })
    .await;
    shop.settled().await;
    assert_eq!(shop.books.number("SELECT count(*) FROM shipments").await, paid);
    let again = json!({"eventIds": [event], "reason": "the printer has paper again"});
    assert_eq!(shop.operate("outbox/redrive", again).await.value()["redriven"], 1);
    shop.settled().await;
    let order = format!("SELECT aggregate_id FROM outbox_events WHERE event_id = '{event}'");
    let items = shop.timeline_of(shop.books.number(&order).await, &event).await;
    let mut published = whats(&items, "published");
    // It may have been tried more than once before its bindings were back.
    published.dedup();
    let (not_confirmed, sent) = ("not confirmed; to be published again", "confirmed by the broker");
    assert_eq!(published, [not_confirmed, sent, "to be published once more", sent], "{items:?}");
    let error = items.iter().find(|item| item["status"] == "RETRY").unwrap()["detail"].as_str().unwrap();
    assert!(error.contains("NO_ROUTE"), "{error}");
    assert!(whats(&items, "consumed").contains(&"duplicate ignored by fulfillment"), "{items:?}");
    shop.sound_but_for(&[]).await;
}

/// §10.2 and §16.3.3: RabbitMQ is unreachable. Where nothing is set, orders are taken and no event is charged for the outage;
/// where an outage is to count, as §7.2 has it to the letter, events end FAILED and a person sends them again.
async fn s16_3_3_an_outage_costs_no_event_an_attempt_unless_it_is_to_count(pair: Pair) {
    let counts = [
        ("HANDOVER_OUTBOX__OUTAGE", "count"),
        ("HANDOVER_OUTBOX__RETRY", r#"{policy = "schedule", delays = ["100ms", "200ms", "300ms"]}"#),
        ("HANDOVER_OUTBOX__SCAN_INTERVAL", "50ms"),
    ];
    let proxy = Proxy::start(rabbit_rigs::shared().await.port()).await.unwrap();
    let patient = shop_by(&proxy, pair, &[]).await;
    let counting = shop_by(&proxy, pair, &counts).await;
    proxy.set(Traffic { refuse: true, ..Traffic::default() });
    proxy.cut();
    let orders = orders_in_an_outage(&patient).await;
    failed_by_an_outage(&counting).await;
    proxy.set(Traffic::default());
    sent_without_an_attempt(&patient, &orders).await;
    sent_by_a_person(&counting).await;
}

async fn orders_in_an_outage(shop: &Shop) -> Vec<i64> {
    let mut orders = Vec::new();
    for _ in 0..5 {
        let order = shop.paid_order().await;
        shop.complete(order).await;
        orders.push(order);
    }
    // Six of each: created, to be timed out, paid, shipped, completed, and that the payment succeeded.
    let waiting = "SELECT count(*) FROM outbox_events WHERE status IN ('NEW', 'RETRY')";
    shop.expect_count(5 * 6, waiting).await;
    shop.expect_logged(&["the broker is away"]).await;
    assert_eq!(shop.api.status_of("/readyz").await.unwrap(), 200, "orders can be taken");
    orders
}

async fn sent_without_an_attempt(shop: &Shop, orders: &[i64]) {
    shop.settled().await;
    assert_eq!(shop.books.number("SELECT max(retry_count) FROM outbox_events").await, 0, "nobody's attempt");
    assert_eq!(shop.books.number("SELECT count(*) FROM outbox_events WHERE status <> 'SENT'").await, 0);
    for order in orders {
        let notified = format!("SELECT count(*) FROM notifications WHERE order_id = {order}");
        assert_eq!(shop.books.number(&notified).await, 4);
    }
    shop.sound_but_for(&[]).await;
}

async fn failed_by_an_outage(shop: &Shop) {
    let order = shop.order().await;
    let failed = format!(
        "SELECT count(*) FROM outbox_events WHERE aggregate_id = {order} AND status = 'FAILED' AND retry_count = 4
         AND last_error LIKE '消息发送失败%'"
    );
    eventually(SOON, async || match shop.books.count(&failed).await? {
        2 => Ok(()),
        other => Err(format!("{other} are FAILED").into()),
    })
    .await;
    let event = &shop.event_ids(order, "ORDER_CREATED").await[0];
    shop.expect_logged(&["[OutboxRelay] [ALERT] Event marked as FAILED", event]).await;
    assert_eq!(shop.order_field(order, "status").await, "pending", "the order itself stands");
}

async fn sent_by_a_person(shop: &Shop) {
    let redrive = json!({"filter": {"status": "FAILED"}, "reason": "RabbitMQ is back"});
    let answer = shop.operate("outbox/redrive", redrive).await.value();
    assert_eq!(answer["redriven"], 2, "{answer}");
    shop.settled().await;
    shop.sound_but_for(&[]).await;
}

super::by_turns! {
    s16_3_3_a_message_that_no_queue_takes_is_retried_until_its_bindings_are_back: rabbitmq,
    s16_3_3_an_outage_costs_no_event_an_attempt_unless_it_is_to_count: rabbitmq,
}
