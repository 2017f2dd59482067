//! Published messages match the AsyncAPI document that the program prints.

use std::collections::BTreeSet;

use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::eventually;
use handover_tests::receiver::{Answer, WebhookReceiver};
use serde_json::{Value, json};

use super::broker_access::{BrokerAccess, SPY};
use super::purses::With;
use super::shop::{BUYER, OPERATOR, SOON, Shop};

const SETTINGS: [(&str, &str); 4] = [
    // The sandbox gateway reports no refund during the test: the test acts as the gateway.
    ("HANDOVER_GATEWAY__SANDBOX_DELAY", "1h"),
    ("HANDOVER_WEBHOOK__KEY", "the key that encrypts secrets of endpoints"),
    ("HANDOVER_WEBHOOK__ALLOW_NETWORKS", r#"["127.0.0.0/8"]"#),
    ("HANDOVER_WEBHOOK__DELAYS", r#"["10ms"]"#),
];

async fn published_messages_match_asyncapi_document_completely(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    BrokerAccess::of(&deployment).await.declare_spy().await;
    let shop = Shop::open_on(deployment, &SETTINGS, None).await;
    let (code, document, error) = shop.launch().run(&["asyncapi"]).unwrap();
    assert_eq!(code, Some(0), "{error}");
    let document: Value = serde_json::from_str(&document).unwrap();

    // One endpoint is disabled, and a delivery to the other is dead.
    let receiver =
        WebhookReceiver::start(|_, request| Answer::Status(if request.path == "/gone" { 410 } else { 500 }))
            .await;
    for path in ["/gone", "/failing"] {
        let endpoint = json!({"url": receiver.url(path), "eventTypes": ["order.created"]});
        shop.api.post(OPERATOR, "/api/v1/webhooks", endpoint).await.unwrap().value();
    }

    shop.fill_purses().await;
    let order = shop.order_with(With { wallet: 2_000, points: 150, ..With::default() }).await;
    shop.locked(order, 2).await;
    shop.pay_rest(order).await;
    shop.complete(order).await;
    // Only SQL can move the completion of an order into a closed month.
    let moved = format!("UPDATE orders SET complete_time = '2020-01-15 10:30:00.000001' WHERE id = {order}");
    assert_eq!(shop.snapshot.change(&moved).await, 1);
    let (code, _, error) = shop.launch().run(&["invoice", "generate", "--period", "2020-01"]).unwrap();
    assert_eq!(code, Some(0), "{error}");
    let cancelled = shop.order().await;
    shop.api.cancel(BUYER, cancelled).await.unwrap().value();
    let unpaid = shop.order().await;
    let payment = shop.api.start_payment(BUYER, unpaid).await.unwrap().id("paymentId");
    shop.api.payment_reported(payment, "FAILED").await.unwrap().value();
    for result in ["SUCCESS", "FAILED"] {
        let refunded = shop.paid_order().await;
        let refund = shop.refund(refunded).await;
        shop.api.refund_reported(refund, result).await.unwrap().value();
    }
    shop.settled().await;

    let about_webhooks = "SELECT count(DISTINCT event_type) FROM outbox_events WHERE aggregate_type = 'Webhook' AND status = 'SENT'";
    eventually(SOON, async || match shop.snapshot.count(about_webhooks).await? {
        2 => Ok(()),
        other => Err(format!("{other} types of events about webhooks").into()),
    })
    .await;

    let mut emitted = BTreeSet::new();
    for message in shop.broker.messages(SPY).await {
        let kind = message.kind.unwrap();
        let body: Value = serde_json::from_str(&message.body).unwrap();
        for (part, value) in [("payload", &body), ("headers", &json!(message.headers))] {
            let mut schema = document["components"]["messages"][&kind][part].clone();
            assert!(schema.is_object(), "the document has no message {kind}");
            schema["components"] = document["components"].clone();
            let validator =
                jsonschema::draft7::options().should_validate_formats(true).build(&schema).unwrap();
            let errors: Vec<String> = validator.iter_errors(value).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{kind}, {part}: {errors:?}\n{value}");
        }
        emitted.insert(kind);
    }
    let listed = document["components"]["messages"].as_object().unwrap();
    assert_eq!(emitted, listed.keys().cloned().collect());
}

super::by_turns! {
    published_messages_match_asyncapi_document_completely,
}
