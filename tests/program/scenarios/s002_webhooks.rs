//! 002: the events of an order reach an endpoint of the tenant, signed and in order.

use handover_tests::client::Caller;
use handover_tests::deployment::Pair;
use handover_tests::process::eventually;
use handover_tests::receiver::{Answer, Received, WebhookReceiver};
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use super::shop::{BUYER, OPERATOR, SELLER, SOON, Shop};

const SETTINGS: [(&str, &str); 4] = [
    ("HANDOVER_WEBHOOK__KEY", "the key that encrypts secrets of endpoints"),
    ("HANDOVER_WEBHOOK__ALLOW_NETWORKS", r#"["127.0.0.0/8"]"#),
    ("HANDOVER_WEBHOOK__TIMEOUT", "2s"),
    ("HANDOVER_WEBHOOK__DELAYS", r#"["100ms", "200ms", "400ms", "800ms", "2s", "4s", "8s"]"#),
];

/// The types of the received events about an order, in the order of their first acceptance.
fn types_of(received: &[Received], order: i64) -> Vec<String> {
    let mut seen = Vec::new();
    let mut types = Vec::new();
    for request in received {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        if body["data"]["orderId"] == order && !seen.contains(&request.id().to_owned()) {
            seen.push(request.id().to_owned());
            types.push(body["type"].as_str().unwrap().to_owned());
        }
    }
    types
}

async fn s002_events_of_an_order_are_delivered_in_order_and_signed(pair: Pair) {
    let shop = Shop::open(pair, &SETTINGS).await;
    // Every third request fails.
    let receiver = WebhookReceiver::start(|earlier, _| match earlier % 3 {
        0 => Answer::Status(500),
        _ => Answer::Status(200),
    })
    .await;
    let body = json!({
        "url": receiver.url("/orders"), "eventTypes": ["order.*"], "ordered": true, "asymmetric": true,
        "headers": {"authorization": "Bearer canary-of-a-static-header"},
    });
    let path = "/api/v1/webhooks";
    let refused = shop.api.post(BUYER, path, body.clone()).await.unwrap();
    assert_eq!(refused.outcome(), (403, "A0303"), "only operators create endpoints");
    let created = shop.api.post_under("key-of-endpoint", OPERATOR, path, body.clone()).await.unwrap().value();
    let secret = created["secret"].as_str().unwrap().to_owned();
    let id = created["endpointId"].as_str().unwrap().to_owned();
    // The secret is shown once: the repeated request gets the stored response without it.
    let repeated = shop.api.post_under("key-of-endpoint", OPERATOR, path, body).await.unwrap().value();
    assert_eq!((&repeated["endpointId"], &repeated["secret"]), (&created["endpointId"], &Value::Null));
    let order = shop.paid_order().await;
    shop.complete(order).await;
    shop.settled().await;
    let expected =
        ["order.created", "order.paid", "order.status.changed", "order.status.changed"].map(str::to_owned);
    eventually(SOON, async || match types_of(&receiver.received(), order) {
        types if types.len() >= expected.len() => Ok(()),
        types => Err(format!("{types:?}").into()),
    })
    .await;
    let received = receiver.received();
    assert_eq!(types_of(&received, order), expected);
    let verifier = Webhook::new(&secret).unwrap();
    for request in &received {
        verifier.verify(&request.body, &request.headers).unwrap();
        request.assert_signed(created["publicKeys"][0].as_str().unwrap());
        assert_eq!(request.header("authorization"), Some("Bearer canary-of-a-static-header"));
        assert_eq!(request.header("content-type"), Some("application/json"));
        assert!(
            !String::from_utf8_lossy(&request.body).contains("paymentMethod"),
            "the thin body has a payload field"
        );
    }
    let endpoint = format!("{path}/{id}");
    eventually(SOON, async || {
        let page = shop.api.get(OPERATOR, &format!("{endpoint}/deliveries?state=DELIVERED")).await.unwrap();
        match page.items().len() {
            count if count >= expected.len() => Ok(()),
            count => Err(format!("{count} deliveries").into()),
        }
    })
    .await;
    // Only operators of the tenant see the endpoint and its deliveries, also in the timeline of the order.
    let other = Caller::of_tenant(2, 9).operator();
    assert_eq!(shop.api.get(other, &endpoint).await.unwrap().status, 404);
    let timeline = async |caller: Caller, routes: &str| {
        let path = format!("/api/v1{routes}/orders/{order}/timeline");
        shop.api.get(caller, &path).await.unwrap().value().to_string()
    };
    for party in [BUYER, SELLER] {
        let timeline = timeline(Caller::from(party), "").await;
        assert!(!timeline.contains(&id) && !timeline.contains("deliver"), "{timeline}");
    }
    assert!(timeline(OPERATOR, "/ops").await.contains(&id));
    // Secrets and static headers are neither in the tables nor in the log.
    for (table, columns) in [
        ("webhook_endpoints", "secrets || headers_sealed"),
        ("idempotency_keys", "COALESCE(answer, '')"),
        ("outbox_audit_log", "selection"),
    ] {
        for value in shop.rows(&format!("SELECT {columns} FROM {table}")).await {
            let leaks = value.contains(&secret) || value.contains("canary-of-a-static-header");
            assert!(!leaks, "{table}: {value}");
        }
    }
    let log = shop.launch().log();
    assert!(!log.contains(&secret) && !log.contains("canary-of-a-static-header"), "the log has a secret");
}

super::by_turns! {
    s002_events_of_an_order_are_delivered_in_order_and_signed,
}
