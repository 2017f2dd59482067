//! 003 §1: outbox, messages, consumers, log and timeline have the trace id of the request.

use handover_tests::deployment::Pair;
use serde_json::{Value, json};

use super::broker_access::SPY;
use super::shop::{BUYER, SELLER, Shop, descriptions};

const TRACE: &str = "one-order_7";

/// The distinct trace ids that a query returns.
async fn traces(shop: &Shop, sql: &str) -> Vec<String> {
    let mut traces = shop.rows(sql).await;
    traces.sort();
    traces.dedup();
    traces
}

/// The distinct values of a metadata field of all events.
async fn of_metadata(shop: &Shop, field: &str) -> Vec<String> {
    let rows = shop.rows("SELECT metadata FROM outbox_events").await;
    let values = rows.iter().map(|row| serde_json::from_str::<Value>(row).unwrap()[field].clone());
    let mut values: Vec<String> = values.map(|value| value.as_str().unwrap().to_owned()).collect();
    values.sort();
    values.dedup();
    values
}

async fn s003_1_trace_id_of_request_is_in_every_effect(pair: Pair) {
    let shop = Shop::open_with_spy(pair).await;
    let api = shop.api.clone().traced(TRACE);
    let product = api.list_product(SELLER, "Desk lamp").await.unwrap().id("productId");
    let order = api.place_order(BUYER, product).await.unwrap().id("orderId");
    let payment = api.start_payment(BUYER, order).await.unwrap().value();
    let paid = api.payment_of_reported(payment["paymentId"].as_i64().unwrap(), &payment["amount"], "SUCCESS");
    paid.await.unwrap().value();
    api.ship(SELLER, order).await.unwrap().value();
    shop.settled().await;
    let only = [TRACE.to_owned()];
    assert_eq!(of_metadata(&shop, "traceId").await, only);
    // All events also have the same W3C trace id, although no request contained one.
    let parents = of_metadata(&shop, "traceparent").await;
    let w3c: Vec<&str> = parents.iter().map(|parent| &parent[3..35]).collect();
    assert!(w3c.len() > 1 && w3c.iter().all(|trace| *trace == w3c[0]), "{parents:?}");
    assert_eq!(traces(&shop, "SELECT trace_id FROM event_consume_log").await, only);
    let messages = shop.broker.messages(SPY).await;
    assert!(messages.len() > 4, "{messages:?}");
    for message in &messages {
        let body: Value = serde_json::from_str(&message.body).unwrap();
        let parent = message.headers.get("traceparent").unwrap();
        assert_eq!((message.correlation_id.as_deref(), &body["traceId"]), (Some(TRACE), &json!(TRACE)));
        assert!(parents.contains(parent), "{parent}");
    }
    for part in
        ["request: completed", "Event sent successfully", "[inventory] Message", "[fulfillment] Message"]
    {
        shop.expect_logged(&[part, TRACE]).await;
    }
    let path = format!("/api/v1/orders/{order}/timeline");
    let timeline = shop.api.get(BUYER, &path).await.unwrap().value();
    assert!(timeline.to_string().contains(TRACE), "{timeline}");
    shop.assert_invariants_except(&[]).await;
}

/// The log has the text format here, and the JSON format in the other tests.
async fn s003_1_request_without_trace_id_gets_new_one(pair: Pair) {
    let shop = Shop::open(pair, &[("HANDOVER_LOG__FORMAT", "text")]).await;
    shop.paid_order().await;
    shop.settled().await;
    let made = of_metadata(&shop, "traceId").await;
    // The order and its payment are two requests.
    assert_eq!(made.len(), 2, "{made:?}");
    for trace in &made {
        assert!(trace.len() == 32 && trace.bytes().all(|b| b.is_ascii_hexdigit()), "{trace}");
        shop.expect_logged(&["request: completed", trace]).await;
        shop.expect_logged(&["Message consumed successfully", trace]).await;
    }
    assert_eq!(shop.logged(&["{\"timestamp\""]), 0, "no log line must be JSON");
    assert_eq!(traces(&shop, "SELECT trace_id FROM event_consume_log").await, made);
    let parents = of_metadata(&shop, "traceparent").await;
    assert_eq!(parents.iter().map(|parent| parent[3..35].to_owned()).collect::<Vec<_>>(), made);
}

/// The refund is a separate request. A job then calls the gateway, and the gateway's report has its own trace.
async fn s003_1_refund_keeps_trace_of_its_request_and_timeline_shows_every_publish(pair: Pair) {
    let shop = Shop::open(pair, &[("HANDOVER_GATEWAY__SANDBOX_DELAY", "1h")]).await;
    let order = shop.paid_order().await;
    let traced = |trace: &'static str| shop.api.clone().traced(trace);
    let path = format!("/api/v1/orders/{order}/refunds");
    let requested =
        traced("refund-request").post(BUYER, &path, json!({"reason": "too small"})).await.unwrap();
    let refund = requested.id("refundId");
    shop.expect_logged(&["[RefundDispatcher]", "refund-request"]).await;
    traced("refund-report").refund_reported(refund, "SUCCESS").await.unwrap().value();
    // The gateway's request that reports the result is logged with its own trace id.
    shop.expect_logged(&["request: completed", "refund-report"]).await;
    shop.settled().await;
    let metadata =
        "SELECT metadata FROM outbox_events WHERE event_type IN ('REFUND_SUCCEEDED', 'ORDER_REFUNDED')";
    let rows = shop.rows(metadata).await;
    let rows: Vec<Value> = rows.iter().map(|row| serde_json::from_str(row).unwrap()).collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
    let parents = shop.rows("SELECT traceparent FROM refunds").await;
    for row in &rows {
        assert_eq!((&row["traceId"], &row["traceparent"]), (&json!("refund-request"), &json!(parents[0])));
    }
    let refunded = shop.event_ids(order, "ORDER_REFUNDED").await;
    let again = json!({"eventIds": refunded, "reason": "a consumer needs the event again"});
    assert_eq!(shop.operate("outbox/redrive", again).await.value()["redriven"], 1);
    shop.settled().await;
    let items = shop.timeline_of(order, &refunded[0]).await;
    assert!(items.iter().all(|item| item["traceId"] == "refund-request"), "{items:?}");
    let sent = "confirmed by the broker";
    assert_eq!(descriptions(&items, "published"), [sent, "redriven; to be published again", sent]);
    let consumed = descriptions(&items, "consumed");
    let of = |what: &str| consumed.iter().filter(|it| it.starts_with(what)).count();
    assert_eq!((of("applied by "), of("duplicate ignored by ")), (consumed.len() / 2, consumed.len() / 2));
    shop.assert_invariants_except(&[]).await;
}

super::by_turns! {
    s003_1_refund_keeps_trace_of_its_request_and_timeline_shows_every_publish,
    s003_1_trace_id_of_request_is_in_every_effect,
    s003_1_request_without_trace_id_gets_new_one,
}
