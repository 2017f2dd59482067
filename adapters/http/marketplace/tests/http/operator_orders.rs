//! `/api/v1/ops/orders`: operators find orders, and see what an order waits for.

use marketplace::Role;
use serde_json::{Value, json};

use crate::client::ApiResponse;
use crate::world::{BUYER, OTHER_USER, SELLER, World};

const ORDERS: &str = "/api/v1/ops/orders";

impl World {
    async fn found(&self, query: &str) -> Vec<i64> {
        let response = self.get_as_operator(&format!("{ORDERS}?{query}")).send().await.expect(200, "00000");
        let items = response.data["items"].as_array().unwrap().iter();
        items.map(|order| order["orderId"].as_i64().unwrap()).collect()
    }

    async fn order_shown(&self, order: i64) -> Value {
        self.get_as_operator(&format!("{ORDERS}/{order}")).send().await.expect(200, "00000").data
    }

    async fn orders_named(&self, user: i64, query: &str) -> ApiResponse {
        self.get_as(user, &format!("/api/v1/orders?{query}")).send().await
    }
}

#[tokio::test(start_paused = true)]
async fn order_is_found_by_everything_that_users_and_gateway_name() {
    let world = World::new().await;
    let order = world.paid_order().await;
    let other = world.order().await;
    let path = format!("/api/v1/orders/{order}/refunds");
    let refund = world.post_as(BUYER, &path).json(r#"{"reason":"broken"}"#).send().await;
    let refund = refund.expect(201, "00000").data["reference"].as_str().unwrap().to_owned();
    let shown = world.order_shown(order).await;
    let number = shown["orderNo"].as_str().unwrap();
    let payment = &shown["payments"][0];
    let reference = payment["reference"].as_str().unwrap();
    let searches = [
        format!("orderNo={number}"),
        format!("paymentId={}", payment["paymentId"]),
        format!("reference={reference}"),
        format!("reference={refund}"),
        "transactionId=txn-1".to_owned(),
    ];
    for search in searches {
        assert_eq!(world.found(&search).await, [order], "{search}");
        assert_eq!(world.found(&format!("{search}&tenantId=1")).await, [order], "{search}");
    }
    assert_eq!(world.found(&format!("buyerId={BUYER}")).await, [other, order]);
    assert_eq!(world.found(&format!("buyerId={BUYER}&limit=1")).await, [other]);
    assert_eq!(world.found(&format!("buyerId={BUYER}&cursor={other}")).await, [order]);
    let unknown = ["orderNo=202601310800000000999999", "paymentId=999999", "transactionId=none"];
    for search in unknown {
        assert!(world.found(search).await.is_empty(), "{search}");
    }
    // The number belongs to the order: that of another day, with the same id, does not.
    let wrong = format!("orderNo=19990101000000{}", &number[14..]);
    assert!(world.found(&wrong).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn search_needs_exactly_one_value_in_its_form() {
    let world = World::new().await;
    let refused = async |path: &str| world.get_as_operator(path).send().await.expect(400, "A0400").text;
    for query in ["", "?tenantId=1", "?buyerId=1&paymentId=2"] {
        let message = "exactly one of orderNo, buyerId, paymentId, reference and transactionId is required";
        let text = refused(&format!("{ORDERS}{query}")).await;
        assert!(text.contains(message), "{query}: {text}");
    }
    for (path, message) in [
        ("/api/v1/ops/orders?orderNo=17", "must be an order number: 24 digits"),
        ("/api/v1/orders?orderNo=17", "must be an order number: 24 digits"),
        ("/api/v1/ops/orders?reference=17", "must be a UUID such as 0192f0c1-0000-7000-8000-000000000001"),
    ] {
        let text = refused(path).await;
        assert!(text.contains(message), "{path}: {text}");
    }
    let foreign = world.get_as_operator(&format!("{ORDERS}?buyerId=1&tenantId=2")).send().await;
    foreign.expect(404, "A0404");
}

#[tokio::test(start_paused = true)]
async fn order_shows_its_payments_refunds_and_deadline() {
    let world = World::new().await;
    let (order, payment) = world.order_with_payment().await;
    let shown = world.order_shown(order).await;
    let state = |order: &Value| json!([order["status"], order["deadlineStatus"], order["deadline"]]);
    assert_eq!(state(&shown), json!(["pending", "cancelled", "2026-01-31T08:15:00.000000Z"]));
    assert_eq!(shown["payments"][0]["paymentId"], payment);
    assert_eq!(shown["payments"][0]["status"], "PROCESSING");
    world.callback(&crate::world::report(payment, "txn-9", "SUCCESS", "88.50")).await.expect(200, "00000");
    let paid = world.order_shown(order).await;
    assert_eq!(state(&paid), json!(["paid", null, null]));
    assert_eq!(paid["payments"][0]["transactionId"], "txn-9");
    let body = r#"{"carrier":"SF Express","trackingNo":"SF1234567890"}"#;
    let path = format!("/api/v1/orders/{order}/ship");
    world.post_as(SELLER, &path).json(body).send().await.expect(200, "00000");
    let shipped = world.order_shown(order).await;
    assert_eq!(state(&shipped), json!(["shipped", "completed", "2026-02-10T08:00:00.000000Z"]));
    assert_eq!([&shipped["carrier"], &shipped["trackingNo"]], ["***", "***"], "only pii sees them");
    let pii = world.token(BUYER, 1, &[Role::Operator, Role::Pii]);
    let request = world.get(&format!("{ORDERS}/{order}")).token(&pii);
    assert_eq!(request.send().await.expect(200, "00000").data["trackingNo"], "SF1234567890");
}

#[tokio::test(start_paused = true)]
async fn parties_find_their_order_by_number() {
    let world = World::new().await;
    let order = world.order().await;
    let number = world.order_shown(order).await["orderNo"].as_str().unwrap().to_owned();
    for user in [BUYER, SELLER] {
        let found = world.orders_named(user, &format!("orderNo={number}")).await.expect(200, "00000");
        assert_eq!(found.data["items"][0]["orderId"], order);
        let paid = world.orders_named(user, &format!("orderNo={number}&status=paid")).await;
        assert_eq!(paid.expect(200, "00000").data["items"], json!([]));
    }
    let foreign = world.orders_named(OTHER_USER, &format!("orderNo={number}")).await;
    assert_eq!(foreign.expect(200, "00000").data["items"], json!([]));
}
