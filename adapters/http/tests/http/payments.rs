//! Payments and the gateway's callback.

use marketplace_http::{BadSecret, CallbackVerifier};
use serde_json::json;

use crate::client::system_now;
use crate::world::{BUYER, GATEWAY_SECRET, SELLER, World, report};

const CALLBACK: &str = "/api/v1/payments/callback";
const OTHER_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

#[tokio::test(start_paused = true)]
async fn an_order_has_one_payment_in_processing() {
    let world = World::new().await;
    let order = world.order().await;
    let path = format!("/api/v1/orders/{order}/payments");
    let first =
        world.post_as(BUYER, &path).json(r#"{"paymentMethod":"card"}"#).send().await.expect(201, "00000");
    assert!(first.text.contains(r#""amount":88.50,"#), "{}", first.text);
    let amount = &first.data["amount"];
    let payment = first.id("paymentId");
    let expected =
        json!({ "paymentId": payment, "orderId": order, "amount": amount, "status": "PROCESSING" });
    assert_eq!(first.data, expected);
    for body in ["", "{}", r#"{"paymentMethod":null}"#] {
        let again = world.post_as(BUYER, &path).json(body).send().await.expect(201, "00000");
        assert_eq!(again.data, expected);
    }
    world.post_as(SELLER, &path).send().await.expect(403, "A0303");
    world.callback(&report(payment, "txn-1", "SUCCESS", "88.50")).await.expect(200, "00000");
    world.post_as(BUYER, &path).send().await.expect(409, "A0409");
}

#[tokio::test(start_paused = true)]
async fn a_signed_success_pays_the_order_once() {
    let world = World::new().await;
    let (order, payment) = world.paying().await;
    let body = report(payment, "txn-1", "SUCCESS", "88.5");
    for _ in 0..2 {
        assert_eq!(world.callback(&body).await.expect(200, "00000").data["status"], "SUCCESS");
    }
    assert_eq!(world.order_status(order).await, "paid");
}

#[tokio::test(start_paused = true)]
async fn a_contradiction_a_wrong_amount_and_an_unknown_payment_are_refused() {
    let world = World::new().await;
    let (order, payment) = world.paying().await;
    let wrong = world.callback(&report(payment, "txn-1", "SUCCESS", "88.51")).await.expect(400, "A0400");
    assert_eq!(wrong.wrong_fields(), ["amount"]);
    assert_eq!(world.order_status(order).await, "pending");
    world.callback(&report(payment + 1, "txn-1", "SUCCESS", "88.50")).await.expect(404, "A0404");
    world.callback(&report(payment, "txn-1", "FAILED", "88.50")).await.expect(200, "00000");
    world.callback(&report(payment, "txn-1", "SUCCESS", "88.50")).await.expect(409, "A0409");
    world.callback(&report(payment, "txn-2", "FAILED", "88.50")).await.expect(409, "A0409");
    assert_eq!(world.order_status(order).await, "pending");
}

#[tokio::test(start_paused = true)]
async fn a_transaction_of_another_payment_is_a_conflict_that_says_so() {
    let world = World::new().await;
    let ((_, paid), (order, payment)) = (world.paying().await, world.paying().await);
    world.callback(&report(paid, "txn-1", "SUCCESS", "88.50")).await.expect(200, "00000");
    let answer = world.callback(&report(payment, "txn-1", "SUCCESS", "88.50")).await.expect(409, "A0409");
    assert_eq!(answer.message, "the transaction txn-1 belongs to another payment");
    assert_eq!(world.order_status(order).await, "pending");
    world.callback(&report(payment, "txn-2", "SUCCESS", "88.50")).await.expect(200, "00000");
    assert_eq!(world.order_status(order).await, "paid");
}

#[tokio::test(start_paused = true)]
async fn only_what_the_gateway_signed_just_now_is_believed() {
    let world = World::new().await;
    let (order, payment) = world.paying().await;
    let body = report(payment, "txn-1", "SUCCESS", "88.50");
    let post = || world.post(CALLBACK).json(body.clone());
    let now = system_now().to_string();
    let refused = [
        ("unsigned", post()),
        ("another secret", post().signed(OTHER_SECRET, 0)),
        ("six minutes old", post().signed(GATEWAY_SECRET, -360)),
        ("six minutes ahead", post().signed(GATEWAY_SECRET, 360)),
        ("another body", world.post(CALLBACK).json("{}").signed(GATEWAY_SECRET, 0).text(body.clone())),
        (
            "an empty signature",
            post()
                .header("webhook-id", "m")
                .header("webhook-timestamp", &now)
                .header("webhook-signature", "v1,"),
        ),
        ("a token instead", world.post_as(BUYER, CALLBACK).json(body.clone())),
        // The signature is looked at before anything reads the body or asks what it is.
        ("no JSON, unsigned", world.post(CALLBACK).text("{")),
    ];
    for (case, request) in refused {
        let answer = request.send().await;
        assert_eq!((answer.status, answer.code.as_str()), (401, "A0301"), "{case}: {}", answer.text);
    }
    assert_eq!(world.order_status(order).await, "pending");
    let four_minutes_old = post().signed(GATEWAY_SECRET, -240).send().await;
    four_minutes_old.expect(200, "00000");
    assert_eq!(world.order_status(order).await, "paid");
}

#[tokio::test(start_paused = true)]
async fn every_wrong_field_of_a_callback_is_named() {
    let world = World::new().await;
    let cases = [
        ("[]", vec!["body"]),
        ("{}", vec!["paymentId", "gatewayTxnId", "result", "amount"]),
        (
            r#"{"paymentId":0,"gatewayTxnId":"a b","result":"success","amount":"1.00","tenant":2}"#,
            vec!["paymentId", "gatewayTxnId", "result", "amount", "tenant"],
        ),
        (
            r#"{"paymentId":1,"gatewayTxnId":"","result":"FAILED","amount":1e2}"#,
            vec!["gatewayTxnId", "amount"],
        ),
        (
            r#"{"paymentId":1,"gatewayTxnId":"t","result":"FAILED","amount":1.00,"amount":2.00}"#,
            vec!["amount"],
        ),
    ];
    for (body, fields) in cases {
        assert_eq!(world.callback(body).await.expect(400, "A0400").wrong_fields(), fields, "{body}");
    }
}

#[test]
fn a_secret_that_is_missing_short_long_or_no_base64_is_refused() {
    let long = format!("whsec_{}", "a".repeat(88));
    for secret in [
        "",
        "whsec_",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_AAAA",
        "whsec_!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!",
        &long,
    ] {
        assert_eq!(CallbackVerifier::new(secret).err(), Some(BadSecret), "{secret}");
    }
    assert!(CallbackVerifier::new(&format!("whsec_{}", "a1".repeat(32))).is_ok());
}
