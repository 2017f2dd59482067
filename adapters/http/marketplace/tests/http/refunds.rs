//! `/api/v1/orders/{id}/refunds`, that of operators, and the gateway's refund callback.

use marketplace::Role;
use serde_json::{Value, json};

use crate::client::ApiResponse;
use crate::world::{BUYER, GATEWAY_SECRET, OTHER_USER, SELLER, World};

const CALLBACK: &str = "/api/v1/refunds/callback";
const REASON: &str = r#"{"reason":"it is not as shown"}"#;

fn path(order: i64) -> String {
    format!("/api/v1/orders/{order}/refunds")
}

fn operators_path(order: i64) -> String {
    format!("/api/v1/ops/orders/{order}/refunds")
}

fn reported(refund: i64, result: &str) -> String {
    format!(r#"{{"refundId":{refund},"result":"{result}"}}"#)
}

impl World {
    async fn refund(&self, order: i64) -> ApiResponse {
        self.post_as(BUYER, &path(order)).json(REASON).send().await.expect(201, "00000")
    }

    async fn refund_reported(&self, refund: i64, result: &str) -> ApiResponse {
        self.signed(CALLBACK, &reported(refund, result)).await
    }

    async fn order_seen(&self, order: i64) -> Value {
        self.get_data_as(BUYER, &format!("orders/{order}")).await
    }
}

#[tokio::test(start_paused = true)]
async fn paid_order_is_refunded_once_and_not_shipped_meanwhile() {
    let world = World::new().await;
    let order = world.paid_order().await;
    let requested = world.refund(order).await;
    let refund = requested.id("refundId");
    assert!(requested.text.contains(r#""amount":88.50,"currency":"CNY","#), "{}", requested.text);
    let expected = json!({
        "refundId": refund, "reference": requested.data["reference"], "attempt": 1, "orderId": order, "invoiceId": null, "paymentId": requested.id("paymentId"),
        "amount": requested.data["amount"],
        "currency": "CNY", "status": "PROCESSING", "reason": "it is not as shown",
        "createTime": "2026-01-31T08:00:00.000000Z"
    });
    assert_eq!(requested.data, expected);
    assert_eq!(world.refund(order).await.data, expected, "a repeated request returns the same refund");
    assert_eq!(world.order_seen(order).await["refundId"], refund);
    let shipment = r#"{"carrier":"SF","trackingNo":"SF-1"}"#;
    let ship = world.post_as(SELLER, &format!("/api/v1/orders/{order}/ship")).json(shipment).send().await;
    let ship = ship.expect(409, "A0409");
    assert_eq!(ship.message, "cannot ship an order while its refund is being processed");
    for _ in 0..2 {
        assert_eq!(
            world.refund_reported(refund, "SUCCESS").await.expect(200, "00000").data["status"],
            "SUCCESS"
        );
    }
    let seen = world.order_seen(order).await;
    assert_eq!((&seen["status"], &seen["refundId"]), (&json!("refunded"), &Value::Null));
    world.post_as(BUYER, &path(order)).json(REASON).send().await.expect(409, "A0409");
    let reversed = world.refund_reported(refund, "FAILED").await.expect(200, "00000");
    assert_eq!(reversed.data["status"], "FAILED");
    assert_eq!(
        world.order_status(order).await,
        "refunded",
        "the money came back, but the order stays refunded"
    );
}

#[tokio::test(start_paused = true)]
async fn failed_refund_leaves_order_paid_and_can_be_requested_again() {
    let world = World::new().await;
    let order = world.paid_order().await;
    let first = world.refund(order).await.id("refundId");
    world.refund_reported(first, "FAILED").await.expect(200, "00000");
    let seen = world.order_seen(order).await;
    assert_eq!((&seen["status"], &seen["refundId"]), (&json!("paid"), &Value::Null));
    assert_eq!(world.refund_reported(first, "FAILED").await.expect(200, "00000").data["status"], "FAILED");
    let second =
        world.post_as_operator(&operators_path(order)).json(REASON).send().await.expect(201, "00000");
    let second = second.id("refundId");
    assert_ne!(second, first);
    for request in [
        world.get_as(BUYER, &path(order)),
        world.get_as(SELLER, &path(order)),
        world.get_as_operator(&operators_path(order)),
    ] {
        let page = request.send().await.expect(200, "00000");
        assert_eq!(page.ids("refundId"), [first, second]);
        assert_eq!(page.data["items"][0]["status"], "FAILED");
        assert_eq!(page.data["nextCursor"], Value::Null);
    }
}

#[tokio::test(start_paused = true)]
async fn seller_declines_paid_order_and_takes_product_off_the_shelf() {
    let world = World::new().await;
    let order = world.paid_order().await;
    let body = r#"{"reason":"sold elsewhere","offShelf":true}"#;
    let refused = world.post_as(BUYER, &path(order)).json(body).send().await.expect(403, "A0303");
    assert_eq!(refused.message, "the product belongs to another seller");
    let declined = world.post_as(SELLER, &path(order)).json(body).send().await.expect(201, "00000");
    assert_eq!(
        (&declined.data["status"], &declined.data["reason"]),
        (&json!("PROCESSING"), &json!("sold elsewhere"))
    );
    assert_eq!(world.get_data_as(BUYER, "notifications").await["items"], json!([]));
    world.refund_reported(declined.id("refundId"), "SUCCESS").await.expect(200, "00000");
    let seen = world.order_seen(order).await;
    assert_eq!(seen["status"], "refunded");
    let product = world.get_data_as(SELLER, &format!("products/{}", seen["productId"])).await;
    assert_eq!(product["status"], "off_shelf");
    let notifications = world.get_data_as(BUYER, "notifications").await;
    let first = &notifications["items"][0];
    assert_eq!(json!([first["orderId"], first["newStatus"]]), json!([order, "refunded"]));
    assert_eq!(world.get_data_as(SELLER, "notifications").await["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn refund_of_the_parties_route_is_404_for_others_and_for_operators() {
    let world = World::new().await;
    let order = world.paid_order().await;
    let outsiders = [
        world.token(OTHER_USER, 1, &[Role::User]),
        world.token(BUYER, 2, &[Role::User]),
        world.token(OTHER_USER, 1, &[Role::User, Role::Operator, Role::Platform]),
    ];
    for token in &outsiders {
        world.post(&path(order)).token(token).json(REASON).send().await.expect(404, "A0404");
        world.get(&path(order)).token(token).send().await.expect(404, "A0404");
    }
    assert_eq!(world.get_data_as(BUYER, &format!("orders/{order}/refunds")).await["items"], json!([]));
    let foreign = world.token(OTHER_USER, 2, &[Role::Operator]);
    world.post(&operators_path(order)).token(&foreign).json(REASON).send().await.expect(404, "A0404");
    world.post_as_operator(&operators_path(order)).json(REASON).send().await.expect(201, "00000");
}

#[tokio::test(start_paused = true)]
async fn refund_of_unpaid_or_shipped_order_is_409() {
    let world = World::new().await;
    let pending = world.order().await;
    let completed = world.completed_order().await;
    for order in [pending, completed] {
        world.post_as(BUYER, &path(order)).json(REASON).send().await.expect(409, "A0409");
    }
    world.post_as(BUYER, &path(4711)).json(REASON).send().await.expect(404, "A0404");
}

#[tokio::test(start_paused = true)]
async fn refund_callback_without_valid_signature_is_401() {
    let world = World::new().await;
    let order = world.paid_order().await;
    let refund = world.refund(order).await.id("refundId");
    let body = reported(refund, "SUCCESS");
    let post = || world.post(CALLBACK).json(body.clone());
    for request in [
        post(),
        post().signed("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", 0),
        post().signed(GATEWAY_SECRET, -360),
        post().signed(GATEWAY_SECRET, 360),
        world.post(CALLBACK).json("{}").signed(GATEWAY_SECRET, 0).text(body.clone()),
        world.post_as(BUYER, CALLBACK).json(body.clone()),
        world.post(CALLBACK).text("{"),
    ] {
        request.send().await.expect(401, "A0301");
    }
    assert_eq!(world.order_status(order).await, "paid");
    world.refund_reported(refund + 1, "SUCCESS").await.expect(404, "A0404");
    world.refund_reported(refund, "SUCCESS").await.expect(200, "00000");
    assert_eq!(world.order_status(order).await, "refunded");
}

#[tokio::test(start_paused = true)]
async fn refund_routes_report_every_invalid_field() {
    let world = World::new().await;
    let order = world.paid_order().await;
    let long = format!(r#"{{"reason":"{}"}}"#, "字".repeat(501));
    for (body, fields) in [
        ("", vec!["body"]),
        ("{}", vec!["reason"]),
        (r#"{"reason":""}"#, vec!["reason"]),
        (r#"{"reason":7,"amount":1.00}"#, vec!["reason", "amount"]),
        (r#"{"reason":"a\nb"}"#, vec!["reason"]),
        (long.as_str(), vec!["reason"]),
    ] {
        let response = world.post_as(BUYER, &path(order)).json(body).send().await.expect(400, "A0400");
        assert_eq!(response.wrong_fields(), fields, "{body}");
    }
    for (body, fields) in [
        ("[]", vec!["body"]),
        ("{}", vec!["result", "reference", "refundId"]),
        (r#"{"refundId":"1","result":"success"}"#, vec!["refundId", "result"]),
        (r#"{"refundId":1,"result":"SUCCESS","result":"SUCCESS","amount":1.00}"#, vec!["result"]),
    ] {
        let response = world.signed(CALLBACK, body).await.expect(400, "A0400");
        assert_eq!(response.wrong_fields(), fields, "{body}");
    }
    let response = world.get_as(BUYER, &format!("{}?limit=1", path(order))).send().await.expect(400, "A0400");
    assert_eq!(response.wrong_fields(), ["limit"]);
    let longest = format!(r#"{{"reason":"{}"}}"#, "字".repeat(500));
    world.post_as(BUYER, &path(order)).json(longest).send().await.expect(201, "00000");
}
