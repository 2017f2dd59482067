//! 003 §1: one trace from the request over outbox, message and consumers to the log and the timeline.

use handover_tests::deployment::Pair;
use serde_json::{Value, json};

use super::carrier::SPY;
use super::shop::{BUYER, SELLER, Shop, whats};

const TRACE: &str = "one-order_7";

/// The traces of the rows that a query names, each once.
async fn traces(shop: &Shop, sql: &str) -> Vec<String> {
    let mut traces = shop.rows(sql).await;
    traces.sort();
    traces.dedup();
    traces
}

/// The field of the metadata of all events.
async fn of_metadata(shop: &Shop, field: &str) -> Vec<String> {
    let rows = shop.rows("SELECT metadata FROM outbox_events").await;
    let values = rows.iter().map(|row| serde_json::from_str::<Value>(row).unwrap()[field].clone());
    let mut values: Vec<String> = values.map(|value| value.as_str().unwrap().to_owned()).collect();
    values.sort();
    values.dedup();
    values
}

async fn s003_1_one_trace_id_leads_from_the_request_to_every_effect(pair: Pair) {
    let shop = Shop::open_with_a_spy(pair).await;
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
    // One W3C trace as well, though nobody named one.
    let parents = of_metadata(&shop, "traceparent").await;
    let w3c: Vec<&str> = parents.iter().map(|parent| &parent[3..35]).collect();
    assert!(w3c.len() > 1 && w3c.iter().all(|trace| *trace == w3c[0]), "{parents:?}");
    assert_eq!(traces(&shop, "SELECT trace_id FROM event_consume_log").await, only);
    let messages = shop.carrier.held(SPY).await;
    assert!(messages.len() > 4, "{messages:?}");
    for message in &messages {
        let body: Value = serde_json::from_str(&message.body).unwrap();
        let parent = message.headers.get("traceparent").unwrap();
        assert_eq!((message.correlation_id.as_deref(), &body["traceId"]), (Some(TRACE), &json!(TRACE)));
        assert!(parents.contains(parent), "{parent}");
    }
    for part in ["answered", "Event sent successfully", "[inventory] Message", "[fulfillment] Message"] {
        shop.expect_logged(&[part, TRACE]).await;
    }
    let path = format!("/api/v1/orders/{order}/timeline");
    let told = shop.api.get(BUYER, &path).await.unwrap().value();
    assert!(told.to_string().contains(TRACE), "{told}");
    shop.sound_but_for(&[]).await;
}

/// And the lines carry it in either form.
async fn s003_1_a_request_without_a_trace_is_given_one_of_its_own(pair: Pair) {
    let shop = Shop::open(pair, &[("HANDOVER_LOG__FORMAT", "text")]).await;
    shop.paid_order().await;
    shop.settled().await;
    let made = of_metadata(&shop, "traceId").await;
    // The order and its payment are two requests.
    assert_eq!(made.len(), 2, "{made:?}");
    for trace in &made {
        assert!(trace.len() == 32 && trace.bytes().all(|b| b.is_ascii_hexdigit()), "{trace}");
        shop.expect_logged(&["answered", trace]).await;
        shop.expect_logged(&["Message consumed successfully", trace]).await;
    }
    assert_eq!(shop.logged(&["{\"timestamp\""]), 0, "no line is JSON");
    assert_eq!(traces(&shop, "SELECT trace_id FROM event_consume_log").await, made);
    let parents = of_metadata(&shop, "traceparent").await;
    assert_eq!(parents.iter().map(|parent| parent[3..35].to_owned()).collect::<Vec<_>>(), made);
}

/// The refund is a request of its own, after which a job asks the gateway and the gateway reports in a trace of its own.
async fn s003_1_a_refund_is_in_the_trace_of_its_request_and_its_timeline_shows_every_send(pair: Pair) {
    let shop = Shop::open(pair, &[("HANDOVER_GATEWAY__SANDBOX_DELAY", "1h")]).await;
    let order = shop.paid_order().await;
    let traced = |trace: &'static str| shop.api.clone().traced(trace);
    let path = format!("/api/v1/orders/{order}/refunds");
    let asked = traced("refund-request").post(BUYER, &path, json!({"reason": "too small"})).await.unwrap();
    let refund = asked.id("refundId");
    shop.expect_logged(&["[RefundDispatcher]", "refund-request"]).await;
    traced("refund-report").refund_reported(refund, "SUCCESS").await.unwrap().value();
    // The report's own trace is that of its answer.
    shop.expect_logged(&["answered", "refund-report"]).await;
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
    let again = json!({"eventIds": refunded, "reason": "the printer has paper again"});
    assert_eq!(shop.operate("outbox/redrive", again).await.value()["redriven"], 1);
    shop.settled().await;
    let items = shop.timeline_of(order, &refunded[0]).await;
    assert!(items.iter().all(|item| item["traceId"] == "refund-request"), "{items:?}");
    let sent = "confirmed by the broker";
    assert_eq!(whats(&items, "published"), [sent, "to be published once more", sent]);
    let consumed = whats(&items, "consumed");
    let of = |what: &str| consumed.iter().filter(|it| it.starts_with(what)).count();
    assert_eq!((of("applied by "), of("duplicate ignored by ")), (consumed.len() / 2, consumed.len() / 2));
    shop.sound_but_for(&[]).await;
}

super::by_turns! {
    s003_1_a_refund_is_in_the_trace_of_its_request_and_its_timeline_shows_every_send,
    s003_1_one_trace_id_leads_from_the_request_to_every_effect,
    s003_1_a_request_without_a_trace_is_given_one_of_its_own,
}
