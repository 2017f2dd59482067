//! `/api/v1/orders`.

use marketplace::Role;
use serde_json::{Value, json};

use crate::world::{BUYER, OTHER_USER, SELLER, World};

#[tokio::test(start_paused = true)]
async fn placed_order_shows_parties_product_and_amount() {
    let world = World::new().await;
    let product = world.product().await;
    let body = json!({ "productId": product }).to_string();
    let placed = world.post_as(BUYER, "/api/v1/orders").json(body.clone()).send().await.expect(201, "00000");
    let id = placed.id("orderId");
    assert!(placed.text.contains(r#""totalAmount":88.50,"payableAmount":88.50,"#), "{}", placed.text);
    let money: &Value = &placed.data["totalAmount"];
    assert_eq!(
        placed.data,
        json!({
            "orderId": id, "orderNo": format!("20260131080000{id:010}"), "productId": product, "buyerId": BUYER,
            "sellerId": SELLER, "status": "pending", "cancelReason": null, "totalAmount": money,
            "payableAmount": money, "couponId": null, "couponDiscount": null, "walletAmount": null, "points": null,
            "refundId": null, "carrier": null, "trackingNo": null, "createTime": "2026-01-31T08:00:00.000000Z",
            "payTime": null, "updateTime": "2026-01-31T08:00:00.000000Z"
        })
    );
    let path = format!("/api/v1/orders/{id}");
    for party in [BUYER, SELLER] {
        assert_eq!(world.get_as(party, &path).send().await.expect(200, "00000").data, placed.data);
    }
    let second = world.post_as(OTHER_USER, "/api/v1/orders").json(body).send().await.expect(409, "A0409");
    assert_eq!(second.message, "the product is sold");
}

#[tokio::test(start_paused = true)]
async fn order_for_own_or_unknown_product_is_rejected() {
    let world = World::new().await;
    let body = json!({ "productId": world.product().await }).to_string();
    world.post_as(SELLER, "/api/v1/orders").json(body).send().await.expect(403, "A0303");
    let none = world.post_as(BUYER, "/api/v1/orders").json(r#"{"productId":4711}"#).send().await;
    assert_eq!(none.expect(404, "A0404").message, "no such product");
}

#[tokio::test(start_paused = true)]
async fn cancelled_order_puts_product_back_on_sale() {
    let world = World::new().await;
    let order = world.order().await;
    let path = format!("/api/v1/orders/{order}/cancel");
    let cancelled = world.post_as(BUYER, &path).send().await.expect(200, "00000");
    assert_eq!(
        (&cancelled.data["status"], &cancelled.data["cancelReason"]),
        (&json!("cancelled"), &json!("buyer"))
    );
    world.post_as(BUYER, &path).send().await.expect(409, "A0409");
    let product = cancelled.id("productId");
    let free = world.get_as(BUYER, &format!("/api/v1/products/{product}")).send().await;
    assert_eq!(free.data["status"], "on_sale");
}

#[tokio::test(start_paused = true)]
async fn seller_declines_pending_order_and_takes_product_off_the_shelf() {
    let world = World::new().await;
    for (body, status) in
        [("", "on_sale"), (r#"{"offShelf":false}"#, "on_sale"), (r#"{"offShelf":true}"#, "off_shelf")]
    {
        let order = world.order().await;
        let path = format!("/api/v1/orders/{order}/cancel");
        let buyer = world.post_as(BUYER, &path).json(r#"{"offShelf":true}"#).send().await;
        assert_eq!(buyer.expect(403, "A0303").message, "the product belongs to another seller");
        let request = world.post_as(SELLER, &path);
        let request = if body.is_empty() { request } else { request.json(body) };
        let declined = request.send().await.expect(200, "00000");
        assert_eq!(
            (&declined.data["status"], &declined.data["cancelReason"]),
            (&json!("cancelled"), &json!("seller"))
        );
        let product = declined.id("productId");
        let seen = world.get_as(SELLER, &format!("/api/v1/products/{product}")).send().await;
        assert_eq!(seen.data["status"], status);
        // The notification is written with the decline: no consumer is running.
        let notifications = world.get_data_as(BUYER, "notifications").await;
        let first = &notifications["items"][0];
        assert_eq!(
            json!([first["orderId"], first["oldStatus"], first["newStatus"], first["as"]]),
            json!([order, "pending", "cancelled", "buyer"])
        );
        world.post_as(SELLER, &path).send().await.expect(409, "A0409");
    }
}

#[tokio::test(start_paused = true)]
async fn paid_order_is_shipped_by_seller_and_completed_by_buyer() {
    let world = World::new().await;
    let order = world.paid_order().await;
    let path = |step: &str| format!("/api/v1/orders/{order}/{step}");
    let shipment = r#"{"carrier":"SF","trackingNo":"SF-1"}"#;
    world.post_as(BUYER, &path("complete")).send().await.expect(409, "A0409");
    world.post_as(BUYER, &path("ship")).json(shipment).send().await.expect(403, "A0303");
    let shipped = world.post_as(SELLER, &path("ship")).json(shipment).send().await.expect(200, "00000");
    assert_eq!(
        (&shipped.data["status"], &shipped.data["carrier"], &shipped.data["trackingNo"]),
        (&json!("shipped"), &json!("SF"), &json!("SF-1"))
    );
    assert!(shipped.data["payTime"].as_str().unwrap().ends_with('Z'));
    world.post_as(SELLER, &path("complete")).send().await.expect(403, "A0303");
    let completed = world.post_as(BUYER, &path("complete")).send().await.expect(200, "00000");
    assert_eq!(completed.data["status"], "completed");
}

#[tokio::test(start_paused = true)]
async fn order_lists_show_purchases_or_sales() {
    let world = World::new().await;
    let first = world.order().await;
    let second = world.order().await;
    world.post_as(BUYER, &format!("/api/v1/orders/{first}/cancel")).send().await.expect(200, "00000");
    let cases: [(i64, &str, &[i64]); 7] = [
        (BUYER, "", &[second, first]),
        (BUYER, "?as=buyer", &[second, first]),
        (BUYER, "?as=seller", &[]),
        (SELLER, "?as=seller", &[second, first]),
        (SELLER, "?as=seller&status=cancelled", &[first]),
        (BUYER, "?status=pending", &[second]),
        (OTHER_USER, "", &[]),
    ];
    for (user, query, expected) in cases {
        let page = world.get_as(user, &format!("/api/v1/orders{query}")).send().await.expect(200, "00000");
        assert_eq!(page.ids("orderId"), expected, "{query}");
    }
    let page = world.get_as(BUYER, "/api/v1/orders?limit=1").send().await;
    let next = format!("/api/v1/orders?limit=1&cursor={}", page.data["nextCursor"].as_str().unwrap());
    assert_eq!(world.get_as(BUYER, &next).send().await.ids("orderId"), [first]);
}

#[tokio::test(start_paused = true)]
async fn order_is_404_for_other_users_and_tenants() {
    let world = World::new().await;
    let order = world.order().await;
    let shipment = r#"{"carrier":"SF","trackingNo":"SF-1"}"#;
    let outsiders = [
        world.token(OTHER_USER, 1, &[Role::User]),
        world.token(BUYER, 2, &[Role::User]),
        world.token(OTHER_USER, 1, &[Role::User, Role::Operator]),
    ];
    for token in &outsiders {
        let path = format!("/api/v1/orders/{order}");
        world.get(&path).token(token).send().await.expect(404, "A0404");
        for step in ["cancel", "complete", "payments"] {
            let request =
                world.post(&format!("{path}/{step}")).token(token).header("x-idempotency-key", step);
            request.send().await.expect(404, "A0404");
        }
        world.post(&format!("{path}/ship")).token(token).json(shipment).send().await.expect(404, "A0404");
    }
    assert_eq!(world.order_status(order).await, "pending");
}
