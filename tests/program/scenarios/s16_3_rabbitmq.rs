//! 000 §16.3.3 on RabbitMQ: an unroutable message, and an unreachable broker.

use std::time::Instant;

use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::eventually;
use handover_tests::rabbit_rigs;
use handover_tests::servers::proxy::{Proxy, Traffic};
use marketplace::queues::EXCHANGE;
use serde_json::json;

use super::shop::{SOON, Shop, descriptions};

/// A shop that connects to RabbitMQ through this proxy and has a paid order.
async fn shop_through(proxy: &Proxy, pair: Pair, settings: &[(&str, &str)]) -> Shop {
    let deployment = Deployment::start(pair).await;
    let url = deployment.vhost().url_through(proxy.port());
    let settings = [settings, &[("HANDOVER_BROKER__URL", url.as_str())]].concat();
    let shop = Shop::open_on(deployment, &settings, None).await;
    shop.paid_order().await;
    shop.settled().await;
    shop
}

/// Removes the bindings of ORDER_PAID, pays an order, and waits for the first attempt to publish its event. Returns the
/// event id.
async fn paid_without_bindings(shop: &Shop) -> String {
    let order = shop.order().await;
    // All bindings are removed in one call, because a call takes a second and each consumer repeats its declarations
    // every 15 s.
    shop.deployment().vhost().unbind_all(EXCHANGE, &["order.paid", "to.asset.points.queue"]).await.unwrap();
    shop.pay(order).await;
    let event = shop.event_ids(order, "ORDER_PAID").await.remove(0);
    let tried = format!(
        "SELECT count(*) FROM outbox_events WHERE event_id = '{event}' AND (status = 'SENT' OR retry_count > 0)"
    );
    shop.expect_count(1, &tried).await;
    event
}

/// §8 and §16.3.3: a message that RabbitMQ returns as unroutable is not SENT until a queue is bound again.
async fn s16_3_3_unroutable_message_is_retried_until_bindings_are_restored(pair: Pair) {
    // All retry delays after the first are longer than the time for which bindings are missing.
    let retry = r#"{policy = "schedule", delays = ["1s", "20s", "20s", "20s", "20s", "20s"]}"#;
    let settings = [
        ("HANDOVER_OUTBOX__RETRY", retry),
        ("HANDOVER_OUTBOX__SCAN_INTERVAL", "50ms"),
        // Bindings are restored one by one, so a message published meanwhile reaches only some of the queues.
        ("HANDOVER_CONSUMER__LOST_AFTER", "3s"),
    ];
    let shop = Shop::open(pair, &settings).await;
    let mut paid = 0;
    let begun = Instant::now();
    let event = loop {
        paid += 1;
        assert!(
            begun.elapsed() < SOON,
            "in every repetition the bindings were restored before the event was published"
        );
        let event = paid_without_bindings(&shop).await;
        // Consumers restore missing bindings every 15 s. If they did so before the first attempt, the event was sent;
        // the loop then repeats the test with another order.
        let charged = format!("SELECT retry_count FROM outbox_events WHERE event_id = '{event}'");
        if shop.snapshot.number(&charged).await > 0 {
            break event;
        }
    };
    let sent = format!(
        "SELECT count(*) FROM outbox_events WHERE event_id = '{event}' AND status = 'SENT'
         AND last_error LIKE '消息发送失败%'"
    );
    eventually(SOON, async || match shop.snapshot.count(&sent).await? {
        1 => Ok(()),
        _ => Err(format!("{event} is not sent").into()),
    })
    .await;
    shop.settled().await;
    assert_eq!(shop.snapshot.number("SELECT count(*) FROM shipments").await, paid);
    let again = json!({"eventIds": [event], "reason": "a consumer needs the event again"});
    assert_eq!(shop.operate("outbox/redrive", again).await.value()["redriven"], 1);
    shop.settled().await;
    let order = format!("SELECT aggregate_id FROM outbox_events WHERE event_id = '{event}'");
    let items = shop.timeline_of(shop.snapshot.number(&order).await, &event).await;
    let mut published = descriptions(&items, "published");
    // The relay may try several times to publish the event before the bindings are restored.
    published.dedup();
    let not_confirmed = "not confirmed; to be published again";
    let sent = "confirmed by the broker";
    assert_eq!(published, [not_confirmed, sent, "redriven; to be published again", sent], "{items:?}");
    let error = items.iter().find(|item| item["status"] == "RETRY").unwrap()["detail"].as_str().unwrap();
    assert!(error.contains("NO_ROUTE"), "{error}");
    assert!(descriptions(&items, "consumed").contains(&"duplicate ignored by fulfillment"), "{items:?}");
    shop.assert_invariants_except(&[]).await;
}

/// §10.2 and §16.3.3: RabbitMQ is unreachable. By default orders are accepted and the outage is not counted as an
/// attempt; with `outbox.outage = "count"`, which follows §7.2 literally, events become FAILED and a person redrives
/// them.
async fn s16_3_3_outage_counts_as_attempt_only_if_configured(pair: Pair) {
    let counts = [
        ("HANDOVER_OUTBOX__OUTAGE", "count"),
        ("HANDOVER_OUTBOX__RETRY", r#"{policy = "schedule", delays = ["100ms", "200ms", "300ms"]}"#),
        ("HANDOVER_OUTBOX__SCAN_INTERVAL", "50ms"),
    ];
    let proxy = Proxy::start(rabbit_rigs::shared().await.port()).await.unwrap();
    let patient = shop_through(&proxy, pair, &[]).await;
    let counting = shop_through(&proxy, pair, &counts).await;
    proxy.set(Traffic { refuse: true, ..Traffic::default() });
    proxy.cut();
    let orders = orders_in_outage(&patient).await;
    failed_by_outage(&counting).await;
    proxy.set(Traffic::default());
    assert_sent_without_counted_attempt(&patient, &orders).await;
    redriven_by_operator(&counting).await;
}

async fn orders_in_outage(shop: &Shop) -> Vec<i64> {
    let mut orders = Vec::new();
    for _ in 0..5 {
        let order = shop.paid_order().await;
        shop.complete(order).await;
        orders.push(order);
    }
    // Each of the five orders has six events: created, timeout, paid, shipped, completed, and payment succeeded.
    let waiting = "SELECT count(*) FROM outbox_events WHERE status IN ('NEW', 'RETRY')";
    shop.expect_count(5 * 6, waiting).await;
    shop.expect_logged(&["broker unreachable"]).await;
    assert_eq!(shop.api.status_of("/readyz").await.unwrap(), 200, "orders are accepted");
    orders
}

async fn assert_sent_without_counted_attempt(shop: &Shop, orders: &[i64]) {
    shop.settled().await;
    assert_eq!(
        shop.snapshot.number("SELECT max(retry_count) FROM outbox_events").await,
        0,
        "no attempt must be counted"
    );
    assert_eq!(shop.snapshot.number("SELECT count(*) FROM outbox_events WHERE status <> 'SENT'").await, 0);
    for order in orders {
        let notified = format!("SELECT count(*) FROM notifications WHERE order_id = {order}");
        assert_eq!(shop.snapshot.number(&notified).await, 4);
    }
    shop.assert_invariants_except(&[]).await;
}

async fn failed_by_outage(shop: &Shop) {
    let order = shop.order().await;
    let failed = format!(
        "SELECT count(*) FROM outbox_events WHERE aggregate_id = {order} AND status = 'FAILED' AND retry_count = 4
         AND last_error LIKE '消息发送失败%'"
    );
    eventually(SOON, async || match shop.snapshot.count(&failed).await? {
        2 => Ok(()),
        other => Err(format!("{other} events are FAILED, expected 2").into()),
    })
    .await;
    let event = &shop.event_ids(order, "ORDER_CREATED").await[0];
    shop.expect_logged(&["[OutboxRelay] [ALERT] Event marked as FAILED", event]).await;
    assert_eq!(shop.order_field(order, "status").await, "pending", "the status of the order must not change");
}

async fn redriven_by_operator(shop: &Shop) {
    let redrive = json!({"filter": {"status": "FAILED"}, "reason": "RabbitMQ is back"});
    let response = shop.operate("outbox/redrive", redrive).await.value();
    assert_eq!(response["redriven"], 2, "{response}");
    shop.settled().await;
    shop.assert_invariants_except(&[]).await;
}

super::by_turns! {
    s16_3_3_unroutable_message_is_retried_until_bindings_are_restored: rabbitmq,
    s16_3_3_outage_counts_as_attempt_only_if_configured: rabbitmq,
}
