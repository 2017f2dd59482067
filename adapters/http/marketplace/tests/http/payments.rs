//! Payments and the gateway's callback.

use marketplace_domain::Reference;
use marketplace_http::{CallbackVerifier, InvalidSecret};
use serde_json::json;

use crate::client::system_now;
use crate::world::{BUYER, GATEWAY_SECRET, OTHER_USER, SELLER, World, report};

const CALLBACK: &str = "/api/v1/payments/callback";
const OTHER_SECRET: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";

#[tokio::test(start_paused = true)]
async fn order_has_one_payment_in_processing() {
    let world = World::new().await;
    let order = world.order().await;
    let path = format!("/api/v1/orders/{order}/payments");
    let first =
        world.post_as(BUYER, &path).json(r#"{"paymentMethod":"card"}"#).send().await.expect(201, "00000");
    assert!(first.text.contains(r#""amount":88.50,"#), "{}", first.text);
    let amount = &first.data["amount"];
    let payment = first.id("paymentId");
    let reference = first.data["reference"].as_str().unwrap();
    assert!(reference.parse::<Reference>().is_ok(), "{reference}");
    let expected = json!({
        "paymentId": payment, "reference": reference, "orderId": order, "invoiceId": null, "amount": amount,
        "paymentMethod": "card", "status": "PROCESSING",
        "expiresAt": "2026-01-31T08:15:00.000000Z"
    });
    assert_eq!(first.data, expected);
    for body in ["", "{}", r#"{"paymentMethod":null}"#] {
        let again = world.post_as(BUYER, &path).json(body).send().await.expect(201, "00000");
        assert_eq!(again.data, expected);
    }
    let other = world.post_as(BUYER, &path).json(r#"{"paymentMethod":"alipay"}"#).send().await;
    let text = other.expect(409, "A0409").text;
    assert!(text.contains("a payment by card is in progress"), "{text}");
    for party in [BUYER, SELLER] {
        let listed = world.get_as(party, &path).send().await.expect(200, "00000");
        assert_eq!(listed.data["items"], json!([expected]));
        let one = world.get_as(party, &format!("{path}/{payment}")).send().await.expect(200, "00000");
        assert_eq!(one.data, expected);
    }
    world.get_as(OTHER_USER, &path).send().await.expect(404, "A0404");
    world.get_as(OTHER_USER, &format!("{path}/{payment}")).send().await.expect(404, "A0404");
    let other_order = world.order().await;
    for unknown in [format!("{path}/x"), format!("/api/v1/orders/{other_order}/payments/{payment}")] {
        world.get_as(BUYER, &unknown).send().await.expect(404, "A0404");
    }
    world.post_as(SELLER, &path).send().await.expect(403, "A0303");
    world.callback(&report(payment, "txn-1", "SUCCESS", "88.50")).await.expect(200, "00000");
    world.post_as(BUYER, &path).send().await.expect(409, "A0409");
}

#[tokio::test(start_paused = true)]
async fn signed_success_callback_pays_order_once() {
    let world = World::new().await;
    let (order, payment) = world.order_with_payment().await;
    let body = report(payment, "txn-1", "SUCCESS", "88.5");
    for _ in 0..2 {
        assert_eq!(world.callback(&body).await.expect(200, "00000").data["status"], "SUCCESS");
    }
    assert_eq!(world.order_status(order).await, "paid");
}

#[tokio::test(start_paused = true)]
async fn report_that_does_not_fit_the_payment_gets_200_and_pays_no_order() {
    let world = World::new().await;
    let (order, payment) = world.order_with_payment().await;
    let answer = async |transaction: &str, result: &str, amount: &str| {
        let response = world.callback(&report(payment, transaction, result, amount)).await;
        response.expect(200, "00000").data["status"].clone()
    };
    assert_eq!(answer("txn-1", "SUCCESS", "88.51").await, "FAILED", "another amount pays no order");
    assert_eq!(world.order_status(order).await, "pending");
    let refunds = world.get_data_as(BUYER, &format!("orders/{order}/refunds")).await;
    assert_eq!(refunds["items"][0]["amount"].to_string(), "88.51", "the captured amount is refunded");
    assert_eq!(
        answer("txn-2", "SUCCESS", "88.50").await,
        "SUCCESS",
        "a success after a failure pays the order"
    );
    assert_eq!(world.order_status(order).await, "paid");
    assert_eq!(answer("txn-3", "FAILED", "88.50").await, "SUCCESS");
    assert_eq!(
        answer("txn-1", "SUCCESS", "88.51").await,
        "FAILED",
        "a repeated report gets the first answer"
    );
    world.callback(&report(payment + 1, "txn-1", "SUCCESS", "88.50")).await.expect(404, "A0404");
    assert_eq!(world.order_status(order).await, "paid");
}

#[tokio::test(start_paused = true)]
async fn transaction_of_another_payment_pays_no_order() {
    let world = World::new().await;
    let (_, paid) = world.order_with_payment().await;
    let (order, payment) = world.order_with_payment().await;
    world.callback(&report(paid, "txn-1", "SUCCESS", "88.50")).await.expect(200, "00000");
    let response = world.callback(&report(payment, "txn-1", "SUCCESS", "88.50")).await.expect(200, "00000");
    assert_eq!(response.data["status"], "PROCESSING");
    assert_eq!(world.order_status(order).await, "pending");
    world.callback(&report(payment, "txn-2", "SUCCESS", "88.50")).await.expect(200, "00000");
    assert_eq!(world.order_status(order).await, "paid");
}

#[tokio::test(start_paused = true)]
async fn callback_without_recent_valid_signature_is_401() {
    let world = World::new().await;
    let (order, payment) = world.order_with_payment().await;
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
        (
            "the earliest number as its time",
            post()
                .header("webhook-id", "m")
                .header("webhook-timestamp", &i64::MIN.to_string())
                .header("webhook-signature", "v1,"),
        ),
        ("a token instead", world.post_as(BUYER, CALLBACK).json(body.clone())),
        // The signature is verified before content type and body are checked.
        ("no JSON, unsigned", world.post(CALLBACK).text("{")),
    ];
    for (case, request) in refused {
        let response = request.send().await;
        assert_eq!((response.status, response.code.as_str()), (401, "A0301"), "{case}: {}", response.text);
    }
    assert_eq!(world.order_status(order).await, "pending");
    let four_minutes_old = post().signed(GATEWAY_SECRET, -240).send().await;
    four_minutes_old.expect(200, "00000");
    assert_eq!(world.order_status(order).await, "paid");
}

#[tokio::test(start_paused = true)]
async fn callback_signed_with_previous_secret_is_accepted_until_that_secret_is_removed() {
    let world = World::new().await;
    let (_, payment) = world.order_with_payment().await;
    let body = report(payment, "txn-1", "SUCCESS", "88.50");
    let status =
        async |secret: &str| world.post(CALLBACK).json(body.clone()).signed(secret, 0).send().await.status;
    assert_eq!(status(OTHER_SECRET).await, 401);
    world.callbacks.replace(OTHER_SECRET, Some(GATEWAY_SECRET)).unwrap();
    assert_eq!([status(GATEWAY_SECRET).await, status(OTHER_SECRET).await], [200, 200]);
    for invalid in [("hush", Some(GATEWAY_SECRET)), (GATEWAY_SECRET, Some("hush"))] {
        assert_eq!(world.callbacks.replace(invalid.0, invalid.1), Err(InvalidSecret));
    }
    assert_eq!([status(GATEWAY_SECRET).await, status(OTHER_SECRET).await], [200, 200]);
    world.callbacks.replace(OTHER_SECRET, None).unwrap();
    assert_eq!([status(GATEWAY_SECRET).await, status(OTHER_SECRET).await], [401, 200]);
}

#[tokio::test(start_paused = true)]
async fn payment_callback_with_invalid_fields_reports_every_field() {
    let world = World::new().await;
    let cases = [
        ("[]", vec!["body"]),
        ("{}", vec!["gatewayTxnId", "result", "amount", "reference", "paymentId"]),
        (
            r#"{"paymentId":0,"gatewayTxnId":"a b","result":"success","amount":"1.00","tenant":2}"#,
            vec!["paymentId", "gatewayTxnId", "result", "amount"],
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
fn invalid_gateway_secret_is_rejected() {
    let long = format!("whsec_{}", "a".repeat(88));
    for secret in [
        "",
        "whsec_",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_AAAA",
        "whsec_!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!!",
        &long,
    ] {
        assert_eq!(CallbackVerifier::new(secret).err(), Some(InvalidSecret), "{secret}");
    }
    assert!(CallbackVerifier::new(&format!("whsec_{}", "a1".repeat(32))).is_ok());
}
