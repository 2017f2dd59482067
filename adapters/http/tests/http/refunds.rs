//! `/api/v1/orders/{id}/refunds` and the gateway's word on them.

use marketplace::Role;
use serde_json::{Value, json};

use crate::client::Answer;
use crate::world::{BUYER, GATEWAY_SECRET, SELLER, STRANGER, World};

const CALLBACK: &str = "/api/v1/refunds/callback";
const REASON: &str = r#"{"reason":"it is not as shown"}"#;

fn path(order: i64) -> String {
    format!("/api/v1/orders/{order}/refunds")
}

fn reported(refund: i64, result: &str) -> String {
    format!(r#"{{"refundId":{refund},"result":"{result}"}}"#)
}

impl World {
    async fn refund(&self, order: i64) -> Answer {
        self.post_as(BUYER, &path(order)).json(REASON).send().await.expect(201, "00000")
    }

    async fn refund_reported(&self, refund: i64, result: &str) -> Answer {
        self.signed(CALLBACK, &reported(refund, result)).await
    }

    async fn order_seen(&self, order: i64) -> Value {
        self.mine(BUYER, &format!("orders/{order}")).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_paid_order_is_paid_back_once_and_is_not_shipped_meanwhile() {
    let world = World::new().await;
    let order = world.paid().await;
    let asked = world.refund(order).await;
    let refund = asked.id("refundId");
    assert!(asked.text.contains(r#""amount":88.50,"currency":"CNY","#), "{}", asked.text);
    let expected = json!({
        "refundId": refund, "orderId": order, "paymentId": asked.id("paymentId"), "amount": asked.data["amount"],
        "currency": "CNY", "status": "PROCESSING", "reason": "it is not as shown",
        "createTime": "2026-01-31T08:00:00.000000Z"
    });
    assert_eq!(asked.data, expected);
    assert_eq!(world.refund(order).await.data, expected, "asked again it is the same one");
    assert_eq!(world.order_seen(order).await["refundId"], refund);
    let parcel = r#"{"carrier":"SF","trackingNo":"SF-1"}"#;
    let ship = world.post_as(SELLER, &format!("/api/v1/orders/{order}/ship")).json(parcel).send().await;
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
    world.refund_reported(refund, "FAILED").await.expect(409, "A0409");
    world.post_as(BUYER, &path(order)).json(REASON).send().await.expect(409, "A0409");
}

#[tokio::test(start_paused = true)]
async fn a_refund_that_failed_leaves_the_order_paid_and_can_be_asked_for_again() {
    let world = World::new().await;
    let order = world.paid().await;
    let first = world.refund(order).await.id("refundId");
    world.refund_reported(first, "FAILED").await.expect(200, "00000");
    let seen = world.order_seen(order).await;
    assert_eq!((&seen["status"], &seen["refundId"]), (&json!("paid"), &Value::Null));
    let late = world.refund_reported(first, "SUCCESS").await.expect(409, "A0409");
    assert_eq!(late.message, "the refund is already FAILED");
    let second = world.post_operating(&path(order)).json(REASON).send().await.expect(201, "00000");
    let second = second.id("refundId");
    assert_ne!(second, first);
    for request in [
        world.get_as(BUYER, &path(order)),
        world.get_as(SELLER, &path(order)),
        world.get_operating(&path(order)),
    ] {
        let page = request.send().await.expect(200, "00000");
        assert_eq!(page.ids("refundId"), [first, second]);
        assert_eq!(page.data["items"][0]["status"], "FAILED");
        assert_eq!(page.data["nextCursor"], Value::Null);
    }
}

#[tokio::test(start_paused = true)]
async fn a_refund_is_for_the_buyer_and_operators_and_others_find_no_order() {
    let world = World::new().await;
    let order = world.paid().await;
    world.post_as(SELLER, &path(order)).json(REASON).send().await.expect(403, "A0303");
    let outsiders = [
        world.token(STRANGER, 1, &[Role::User]),
        world.token(BUYER, 2, &[Role::User]),
        world.token(STRANGER, 2, &[Role::User, Role::Operator]),
    ];
    for token in &outsiders {
        world.post(&path(order)).token(token).json(REASON).send().await.expect(404, "A0404");
        world.get(&path(order)).token(token).send().await.expect(404, "A0404");
    }
    assert_eq!(world.mine(BUYER, &format!("orders/{order}/refunds")).await["items"], json!([]));
    world.post_operating(&path(order)).json(REASON).send().await.expect(201, "00000");
}

#[tokio::test(start_paused = true)]
async fn what_was_not_paid_or_was_shipped_is_not_paid_back() {
    let world = World::new().await;
    let pending = world.order().await;
    let completed = world.completed().await;
    for order in [pending, completed] {
        world.post_as(BUYER, &path(order)).json(REASON).send().await.expect(409, "A0409");
    }
    world.post_as(BUYER, &path(4711)).json(REASON).send().await.expect(404, "A0404");
}

#[tokio::test(start_paused = true)]
async fn only_what_the_gateway_signed_settles_a_refund() {
    let world = World::new().await;
    let order = world.paid().await;
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
async fn every_wrong_field_of_a_refund_is_named() {
    let world = World::new().await;
    let order = world.paid().await;
    let long = format!(r#"{{"reason":"{}"}}"#, "字".repeat(501));
    for (body, fields) in [
        ("", vec!["body"]),
        ("{}", vec!["reason"]),
        (r#"{"reason":""}"#, vec!["reason"]),
        (r#"{"reason":7,"amount":1.00}"#, vec!["reason", "amount"]),
        (r#"{"reason":"a\nb"}"#, vec!["reason"]),
        (long.as_str(), vec!["reason"]),
    ] {
        let answer = world.post_as(BUYER, &path(order)).json(body).send().await.expect(400, "A0400");
        assert_eq!(answer.wrong_fields(), fields, "{body}");
    }
    for (body, fields) in [
        ("[]", vec!["body"]),
        ("{}", vec!["refundId", "result"]),
        (r#"{"refundId":"1","result":"success"}"#, vec!["refundId", "result"]),
        (r#"{"refundId":1,"result":"SUCCESS","amount":1.00}"#, vec!["amount"]),
    ] {
        let answer = world.signed(CALLBACK, body).await.expect(400, "A0400");
        assert_eq!(answer.wrong_fields(), fields, "{body}");
    }
    let answer = world.get_as(BUYER, &format!("{}?limit=1", path(order))).send().await.expect(400, "A0400");
    assert_eq!(answer.wrong_fields(), ["limit"]);
    let longest = format!(r#"{{"reason":"{}"}}"#, "字".repeat(500));
    world.post_as(BUYER, &path(order)).json(longest).send().await.expect(201, "00000");
}
