//! 000 §16.1: an order's event is written, sent and consumed.

use std::collections::BTreeMap;

use handover_tests::deployment::Pair;
use handover_tests::process::eventually;
use serde_json::Value;

use super::shop::{SELLER, SOON, Shop};

/// §16.1.1: the queues of §4.2 exist, each with its consumer.
async fn s16_1_1_topology_is_declared_and_consumed(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let consumers = async || {
        let response = shop.inspect("queues").await;
        let queue =
            |item: &Value| (item["name"].as_str().unwrap().to_owned(), item["consumers"].as_i64().unwrap());
        response.items().iter().map(queue).collect::<BTreeMap<_, _>>()
    };
    for queue in [
        "order.timeout.queue",
        "inventory.update.queue",
        "order.fulfillment.queue",
        "order.status.sync.queue",
        "order.dlq.queue",
    ] {
        eventually(SOON, async || match consumers().await.get(queue) {
            Some(1) => Ok(()),
            other => Err(format!("expected one consumer of {queue}, found {other:?}").into()),
        })
        .await;
    }
    assert_eq!(consumers().await["order.timeout.delay.queue"], 0, "a delay queue must not have a consumer");
}

async fn s16_1_2_new_order_is_in_outbox_and_order_created_is_sent(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let order = shop.order().await;
    assert_eq!(
        shop.events(order).await,
        ["ORDER_CREATED", "ORDER_TIMEOUT"],
        "both events must exist immediately after the order was placed"
    );
    let sent = "SELECT count(*) FROM outbox_events WHERE status = 'SENT' AND sent_time IS NOT NULL";
    shop.expect_count(2, sent).await;
    let event = &shop.event_ids(order, "ORDER_CREATED").await[0];
    shop.expect_logged(&["[OutboxRelay] Event sent successfully", event]).await;
}

async fn s16_1_3_inventory_consumer_applies_order_created(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let order = shop.order().await;
    shop.settled().await;
    let event = &shop.event_ids(order, "ORDER_CREATED").await[0];
    let changes = format!(
        "SELECT kind FROM listing_changes WHERE event_id = '{event}' AND order_id = {order} AND seller_id = {SELLER}"
    );
    assert_eq!(shop.rows(&changes).await, ["OCCUPIED"]);
    let listings = shop.api.get(SELLER, "/api/v1/listings").await.unwrap();
    let taken: Vec<_> = listings.items().iter().map(|item| item["orderId"].as_i64()).collect();
    assert_eq!(taken, [Some(order)]);
    shop.expect_logged(&["[inventory] Message consumed successfully", event]).await;
}

super::by_turns! {
    s16_1_1_topology_is_declared_and_consumed + postgres_and_database,
    s16_1_2_new_order_is_in_outbox_and_order_created_is_sent,
    s16_1_3_inventory_consumer_applies_order_created,
}
