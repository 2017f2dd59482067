//! 000 §16.2: events trigger the next steps.

use chrono::{DateTime, TimeDelta, Utc};
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::eventually;
use serde_json::Value;

use super::shop::{BUYER, SELLER, SOON, Shop};

/// Unpaid orders are closed after 1.5 s.
const SHORT_DEADLINE: (&str, &str) = ("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.025");
const NEVER_SWEPT: (&str, &str) = ("HANDOVER_ORDER__TIMEOUT__SWEEP_INTERVAL", "1h");
const SWEPT_OFTEN: (&str, &str) = ("HANDOVER_ORDER__TIMEOUT__SWEEP_INTERVAL", "20ms");

async fn s16_2_1_paid_order_triggers_fulfilment(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let order = shop.order().await;
    shop.settled().await;
    let tasks = async |user, side| {
        let response = shop.api.get(user, &format!("/api/v1/shipments?as={side}")).await.unwrap();
        response
            .items()
            .iter()
            .map(|item| (item["orderId"].clone(), item["eventId"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(tasks(SELLER, "seller").await, [], "an unpaid order must not have a shipment task");
    shop.pay(order).await;
    shop.settled().await;
    let event = &shop.event_ids(order, "ORDER_PAID").await[0];
    let task = [(Value::from(order), Value::from(event.as_str()))];
    assert_eq!(tasks(SELLER, "seller").await, task);
    assert_eq!(tasks(BUYER, "buyer").await, task);
    assert_eq!(shop.order_field(order, "status").await, "paid");
    shop.assert_invariants_except(&[]).await;
}

async fn s16_2_2_status_change_notifies_buyer_and_seller(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let order = shop.paid_order().await;
    shop.complete(order).await;
    shop.settled().await;
    let events = shop.event_ids(order, "ORDER_STATUS_CHANGED").await;
    for user in [BUYER, SELLER] {
        let response = shop.api.get(user, "/api/v1/notifications").await.unwrap();
        let notifications: Vec<_> =
            response.items().iter().map(|item| (&item["newStatus"], &item["eventId"])).collect();
        let newest_first = [("completed", &events[1]), ("shipped", &events[0])];
        let expected = newest_first.map(|(status, event)| (Value::from(status), Value::from(event.as_str())));
        assert_eq!(notifications, expected.each_ref().map(|(status, event)| (status, event)), "{user}");
        assert!(response.items().iter().all(|item| item["orderId"] == order));
    }
    shop.assert_invariants_except(&[]).await;
}

/// Waits until the order is closed, and checks its cancel reason, product and duration. Returns the id of the product.
async fn closed(shop: &Shop, order: i64) -> i64 {
    eventually(SOON, async || match shop.order_field(order, "status").await.as_str() {
        Some("cancelled") => Ok(()),
        other => Err(format!("order {order} is {other:?} instead of cancelled").into()),
    })
    .await;
    shop.settled().await;
    assert_eq!(shop.order_field(order, "cancelReason").await, "timeout");
    let product = shop.order_field(order, "productId").await.as_i64().unwrap();
    assert_eq!(shop.product_field(product, "status").await, "on_sale", "the product must be on sale again");
    let moment = async |field| {
        let text = shop.order_field(order, field).await;
        text.as_str().unwrap().parse::<DateTime<Utc>>().unwrap()
    };
    let open = moment("updateTime").await - moment("createTime").await;
    assert!(open >= TimeDelta::milliseconds(1_500), "closed after {open}");
    assert_eq!(shop.events(order).await, ["ORDER_CREATED", "ORDER_TIMEOUT", "ORDER_CANCELLED"]);
    shop.assert_invariants_except(&[]).await;
    product
}

async fn result_of_timeout(shop: &Shop, order: i64) -> String {
    let event = &shop.event_ids(order, "ORDER_TIMEOUT").await[0];
    let sql = format!(
        "SELECT consume_result FROM event_consume_log WHERE consumer = 'order-timeout' AND event_id = '{event}'"
    );
    shop.expect_count(1, &format!("SELECT count(*) FROM ({sql}) results")).await;
    shop.rows(&sql).await.remove(0)
}

/// §16.2.3 with only the message of §10.1: no sweep runs.
async fn s16_2_3_timeout_message_closes_unpaid_order_and_releases_product(pair: Pair) {
    let shop = Shop::open(pair, &[SHORT_DEADLINE, NEVER_SWEPT]).await;
    let order = shop.order().await;
    let product = closed(&shop, order).await;
    assert_eq!(result_of_timeout(&shop, order).await, "order closed");
    let again = shop.api.place_order(BUYER, product).await.unwrap();
    assert_eq!(again.outcome(), (201, "00000"), "another order of the product must be accepted");
}

/// §16.2.3 with the sweep of §10.2 running continuously: exactly one of the message and the sweep closes the order.
async fn s16_2_3_message_and_sweep_close_unpaid_order_once(pair: Pair) {
    let shop = Shop::open(pair, &[SHORT_DEADLINE, SWEPT_OFTEN]).await;
    let order = shop.order().await;
    closed(&shop, order).await;
    let result = result_of_timeout(&shop, order).await;
    assert!(["order closed", "order is cancelled"].contains(&result.as_str()), "{result}");
    let credit = shop.api.get(BUYER, "/api/v1/credit").await.unwrap().value();
    assert_eq!((&credit["cancelledByTimeout"], &credit["score"]), (&Value::from(1), &Value::from(95)));
}

/// §10.1: the consumer of the message checks the order before it closes it. Only the API runs until the order is paid,
/// because paying may take longer than the deadline on a busy machine.
async fn s16_2_3_timeout_message_ignores_order_paid_in_time(pair: Pair) {
    let settings = [SHORT_DEADLINE, SWEPT_OFTEN];
    let shop = Shop::open_on(Deployment::start(pair).await, &settings, Some("api")).await;
    let order = shop.paid_order().await;
    let shop = shop.reopen();
    assert_eq!(result_of_timeout(&shop, order).await, "order is paid");
    assert_eq!(shop.order_field(order, "status").await, "paid");
    assert_eq!(shop.events(order).await, ["ORDER_CREATED", "ORDER_TIMEOUT", "ORDER_PAID"]);
}

super::by_turns! {
    s16_2_1_paid_order_triggers_fulfilment,
    s16_2_2_status_change_notifies_buyer_and_seller,
    s16_2_3_timeout_message_closes_unpaid_order_and_releases_product,
    s16_2_3_message_and_sweep_close_unpaid_order_once,
    s16_2_3_timeout_message_ignores_order_paid_in_time,
}
