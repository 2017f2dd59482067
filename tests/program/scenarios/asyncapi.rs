//! Published messages match the AsyncAPI document that the program prints.

use std::collections::BTreeSet;

use handover_tests::deployment::{Deployment, Pair};
use serde_json::{Value, json};

use super::broker_access::{BrokerAccess, SPY};
use super::purses::With;
use super::shop::{BUYER, Shop};

/// Delay of the sandbox gateway, which then reports no refund during the test: the test acts as the gateway.
const SLOW_SANDBOX: (&str, &str) = ("HANDOVER_GATEWAY__SANDBOX_DELAY", "1h");

async fn published_messages_match_asyncapi_document_completely(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    BrokerAccess::of(&deployment).await.declare_spy().await;
    let shop = Shop::open_on(deployment, &[SLOW_SANDBOX], None).await;
    let (code, document, error) = shop.launch().run(&["asyncapi"]).unwrap();
    assert_eq!(code, Some(0), "{error}");
    let document: Value = serde_json::from_str(&document).unwrap();

    shop.fill_purses().await;
    let order = shop.order_with(With { wallet: 2_000, points: 150, ..With::default() }).await;
    shop.locked(order, 2).await;
    shop.pay_rest(order).await;
    shop.complete(order).await;
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
