//! 000 §16.2: events drive what follows.

use chrono::{DateTime, TimeDelta, Utc};
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::eventually;
use serde_json::Value;

use super::shop::{BUYER, SELLER, SOON, Shop};

/// Unpaid orders are closed after one and a half seconds.
const SHORT_DEADLINE: (&str, &str) = ("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.025");
const NEVER_SWEPT: (&str, &str) = ("HANDOVER_ORDER__TIMEOUT__SWEEP_INTERVAL", "1h");
const SWEPT_OFTEN: (&str, &str) = ("HANDOVER_ORDER__TIMEOUT__SWEEP_INTERVAL", "20ms");

/// §16.2.1.
async fn s16_2_1_a_paid_order_triggers_fulfilment(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let order = shop.order().await;
    shop.settled().await;
    let tasks = async |user, side| {
        let answer = shop.api.get(user, &format!("/api/v1/shipments?as={side}")).await.unwrap();
        answer
            .items()
            .iter()
            .map(|item| (item["orderId"].clone(), item["eventId"].clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(tasks(SELLER, "seller").await, [], "an unpaid order is not shipped");
    shop.pay(order).await;
    shop.settled().await;
    let event = &shop.event_ids(order, "ORDER_PAID").await[0];
    let task = [(Value::from(order), Value::from(event.as_str()))];
    assert_eq!(tasks(SELLER, "seller").await, task);
    assert_eq!(tasks(BUYER, "buyer").await, task);
    assert_eq!(shop.order_field(order, "status").await, "paid");
    shop.sound_but_for(&[]).await;
}

/// §16.2.2.
async fn s16_2_2_a_changed_status_notifies_buyer_and_seller(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let order = shop.paid_order().await;
    shop.complete(order).await;
    shop.settled().await;
    let events = shop.event_ids(order, "ORDER_STATUS_CHANGED").await;
    for user in [BUYER, SELLER] {
        let answer = shop.api.get(user, "/api/v1/notifications").await.unwrap();
        let told: Vec<_> = answer.items().iter().map(|item| (&item["newStatus"], &item["eventId"])).collect();
        let newest_first = [("completed", &events[1]), ("shipped", &events[0])];
        let expected = newest_first.map(|(status, event)| (Value::from(status), Value::from(event.as_str())));
        assert_eq!(told, expected.each_ref().map(|(status, event)| (status, event)), "{user}");
        assert!(answer.items().iter().all(|item| item["orderId"] == order));
    }
    shop.sound_but_for(&[]).await;
}

/// Waits until the order is closed, and holds it to what a closed order is; answers with its product.
async fn closed(shop: &Shop, order: i64) -> i64 {
    eventually(SOON, async || match shop.order_field(order, "status").await.as_str() {
        Some("cancelled") => Ok(()),
        other => Err(format!("order {order} is {other:?}").into()),
    })
    .await;
    shop.settled().await;
    assert_eq!(shop.order_field(order, "cancelReason").await, "timeout");
    let product = shop.order_field(order, "productId").await.as_i64().unwrap();
    assert_eq!(shop.product_field(product, "status").await, "on_sale", "the product is free again");
    let moment = async |field| {
        let text = shop.order_field(order, field).await;
        text.as_str().unwrap().parse::<DateTime<Utc>>().unwrap()
    };
    let open = moment("updateTime").await - moment("createTime").await;
    assert!(open >= TimeDelta::milliseconds(1_500), "closed after {open}");
    assert_eq!(shop.events(order).await, ["ORDER_CREATED", "ORDER_TIMEOUT", "ORDER_CANCELLED"]);
    shop.sound_but_for(&[]).await;
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

/// §16.2.3, by the message of §10.1 alone: no sweep runs.
async fn s16_2_3_the_timeout_message_closes_an_unpaid_order_and_frees_its_product(pair: Pair) {
    let shop = Shop::open(pair, &[SHORT_DEADLINE, NEVER_SWEPT]).await;
    let order = shop.order().await;
    let product = closed(&shop, order).await;
    assert_eq!(result_of_timeout(&shop, order).await, "order closed");
    let again = shop.api.place_order(BUYER, product).await.unwrap();
    assert_eq!(again.outcome(), (201, "00000"), "the freed product can be bought");
}

/// §16.2.3 with the sweep of §10.2 running all the time: one of the two closes the order, once.
async fn s16_2_3_message_and_sweep_together_close_an_unpaid_order_once(pair: Pair) {
    let shop = Shop::open(pair, &[SHORT_DEADLINE, SWEPT_OFTEN]).await;
    let order = shop.order().await;
    closed(&shop, order).await;
    let result = result_of_timeout(&shop, order).await;
    assert!(["order closed", "order is cancelled"].contains(&result.as_str()), "{result}");
    let credit = shop.api.get(BUYER, "/api/v1/credit").await.unwrap().value();
    assert_eq!((&credit["cancelledByTimeout"], &credit["score"]), (&Value::from(1), &Value::from(95)));
}

/// §10.1: the message looks again before it closes anything. Until the order is paid only the API runs: on a busy machine
/// paying takes longer than the deadline.
async fn s16_2_3_an_order_that_was_paid_in_time_is_left_alone_by_its_timeout_message(pair: Pair) {
    let settings = [SHORT_DEADLINE, SWEPT_OFTEN];
    let shop = Shop::open_on(Deployment::start(pair).await, &settings, Some("api")).await;
    let order = shop.paid_order().await;
    let shop = shop.reopen();
    assert_eq!(result_of_timeout(&shop, order).await, "order is paid");
    assert_eq!(shop.order_field(order, "status").await, "paid");
    assert_eq!(shop.events(order).await, ["ORDER_CREATED", "ORDER_TIMEOUT", "ORDER_PAID"]);
}

super::by_turns! {
    s16_2_1_a_paid_order_triggers_fulfilment,
    s16_2_2_a_changed_status_notifies_buyer_and_seller,
    s16_2_3_the_timeout_message_closes_an_unpaid_order_and_frees_its_product,
    s16_2_3_message_and_sweep_together_close_an_unpaid_order_once,
    s16_2_3_an_order_that_was_paid_in_time_is_left_alone_by_its_timeout_message,
}
