//! `/api/v1/credit`, `/notifications`, `/shipments`, `/listings`.

use std::time::Duration;

use handover_outbox::WakeupNotifier;
use marketplace::service;
use marketplace::{Role, Settings};
use serde_json::{Value, json};

use crate::world::{BUYER, OTHER_USER, SELLER, World, report};

const LISTS: [&str; 3] = ["/api/v1/notifications", "/api/v1/shipments", "/api/v1/listings"];

impl World {
    /// Starts relay and consumers, and waits until they are idle.
    pub(crate) async fn run_until_idle(&self) {
        service::start(&self.app, &WakeupNotifier::default(), &Settings::default());
        self.wait_until_idle().await;
    }

    /// Waits until the running relay and consumers are idle.
    pub(crate) async fn wait_until_idle(&self) {
        // Paused time advances only when all tasks wait, so relay and consumers are idle before the sleep ends.
        self.app.tx.sleep(Duration::from_secs(20)).await;
    }

    /// Creates an order that is paid, shipped and completed.
    pub(crate) async fn completed_order(&self) -> i64 {
        let order = self.paid_order().await;
        let path = |step: &str| format!("/api/v1/orders/{order}/{step}");
        let shipment = r#"{"carrier":"SF","trackingNo":"SF-1"}"#;
        self.post_as(SELLER, &path("ship")).json(shipment).send().await.expect(200, "00000");
        self.post_as(BUYER, &path("complete")).send().await.expect(200, "00000");
        order
    }

    /// GET as a user of tenant 1; returns the data.
    pub(crate) async fn get_data_as(&self, user: i64, path: &str) -> Value {
        self.get_as(user, &format!("/api/v1/{path}")).send().await.expect(200, "00000").data
    }
}

/// Checks that an item has an event id and, in the field `time`, a time in UTC; returns both values.
fn event_and_time(item: &Value, time: &str) -> (Value, Value) {
    assert!(!item["eventId"].as_str().unwrap().is_empty(), "{item}");
    assert!(item[time].as_str().unwrap().ends_with('Z'), "{item}");
    (item["eventId"].clone(), item[time].clone())
}

#[tokio::test(start_paused = true)]
async fn both_parties_get_notifications_of_status_changes_newest_first() {
    let world = World::new().await;
    let order = world.completed_order().await;
    world.run_until_idle().await;
    for (user, side) in [(BUYER, "buyer"), (SELLER, "seller")] {
        let page = world.get_data_as(user, "notifications").await;
        assert_eq!(page["nextCursor"], Value::Null);
        let items = page["items"].as_array().unwrap();
        let statuses: Vec<&str> = items.iter().map(|item| item["newStatus"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["completed", "shipped"], "{side}");
        let (event, time) = event_and_time(&items[1], "createTime");
        assert_eq!(
            items[1],
            json!({
                "notificationId": items[1]["notificationId"], "as": side, "orderId": order, "oldStatus": "paid",
                "newStatus": "shipped", "changedAt": "2026-01-31T08:00:00.000000Z", "eventId": event, "createTime": time
            })
        );
        let first = world.get_data_as(user, "notifications?limit=1").await;
        assert_eq!(first["items"], json!([items[0]]));
        let cursor = first["nextCursor"].as_str().unwrap();
        let rest = world.get_data_as(user, &format!("notifications?limit=1&cursor={cursor}")).await;
        assert_eq!(rest, json!({ "items": [items[1]], "nextCursor": null }));
    }
}

#[tokio::test(start_paused = true)]
async fn credit_counts_results_of_the_buyers_orders() {
    let world = World::new().await;
    let initial = json!({
        "buyerId": BUYER, "score": 100, "completed": 0, "cancelledByBuyer": 0, "cancelledByTimeout": 0,
        "eventId": null, "updateTime": null
    });
    assert_eq!(world.get_data_as(BUYER, "credit").await, initial);
    world.completed_order().await;
    for _ in 0..2 {
        let order = world.order().await;
        let cancelled = world.post_as(BUYER, &format!("/api/v1/orders/{order}/cancel")).send().await;
        cancelled.expect(200, "00000");
    }
    world.run_until_idle().await;
    let credit = world.get_data_as(BUYER, "credit").await;
    let (event, time) = event_and_time(&credit, "updateTime");
    assert_eq!(
        credit,
        json!({
            "buyerId": BUYER, "score": 97, "completed": 1, "cancelledByBuyer": 2, "cancelledByTimeout": 0,
            "eventId": event, "updateTime": time
        })
    );
    assert_eq!(world.get_data_as(SELLER, "credit").await["score"], 100, "sales do not change a credit score");
    world.get_as(BUYER, "/api/v1/credit?limit=1").send().await.expect(400, "A0400");
}

#[tokio::test(start_paused = true)]
async fn shipments_are_listed_for_seller_and_buyer() {
    let world = World::new().await;
    let order = world.paid_order().await;
    world.run_until_idle().await;
    let page = world.get_data_as(SELLER, "shipments").await;
    let item = &page["items"][0];
    let (event, time) = event_and_time(item, "createTime");
    let expected = json!({
        "shipmentId": item["shipmentId"], "orderId": order, "sellerId": SELLER, "buyerId": BUYER,
        "state": "open", "orderStatus": "paid", "eventId": event, "createTime": time
    });
    assert_eq!(page, json!({ "items": [expected], "nextCursor": null }));
    assert_eq!(world.get_data_as(BUYER, "shipments?as=buyer").await, page);
    assert_eq!(world.get_data_as(BUYER, "shipments").await["items"], json!([]));
    assert_eq!(world.get_data_as(SELLER, "shipments?as=buyer").await["items"], json!([]));
}

#[tokio::test(start_paused = true)]
async fn shipment_task_closes_when_its_order_is_shipped_or_refunded() {
    let world = World::new().await;
    let mut orders = Vec::new();
    for transaction in ["txn-1", "txn-2", "txn-3"] {
        let (order, payment) = world.order_with_payment().await;
        world.callback(&report(payment, transaction, "SUCCESS", "88.50")).await.expect(200, "00000");
        orders.push(order);
    }
    world.run_until_idle().await;
    let tasks = async |query: &str| -> Vec<Value> {
        let page = world.get_data_as(SELLER, &format!("shipments?as=seller{query}")).await;
        let task = |item: &Value| json!([item["orderId"], item["state"], item["orderStatus"]]);
        page["items"].as_array().unwrap().iter().map(task).collect()
    };
    assert_eq!(tasks("&state=open").await.len(), 3);
    let [open, shipped, refunded] = orders[..] else { panic!("{orders:?}") };
    let shipment = r#"{"carrier":"SF","trackingNo":"SF-1"}"#;
    let ship = world.post_as(SELLER, &format!("/api/v1/orders/{shipped}/ship")).json(shipment).send().await;
    ship.expect(200, "00000");
    let reason = r#"{"reason":"it is not as shown"}"#;
    let refund =
        world.post_as(BUYER, &format!("/api/v1/orders/{refunded}/refunds")).json(reason).send().await;
    let refund = refund.expect(201, "00000").id("refundId");
    let result = format!(r#"{{"refundId":{refund},"result":"SUCCESS"}}"#);
    world.signed("/api/v1/refunds/callback", &result).await.expect(200, "00000");
    assert_eq!(tasks("&state=open").await, [json!([open, "open", "paid"])]);
    let mut closed = tasks("&state=closed").await;
    closed.sort_by_key(|task| task[0].as_i64());
    assert_eq!(closed, [json!([shipped, "closed", "shipped"]), json!([refunded, "closed", "refunded"])]);
    assert_eq!(tasks("").await.len(), 3);
    world.get_as(SELLER, "/api/v1/shipments?state=done").send().await.expect(400, "A0400");
}

#[tokio::test(start_paused = true)]
async fn listings_show_the_order_of_each_product() {
    let world = World::new().await;
    let kept = world.order().await;
    let cancelled = world.order().await;
    world.post_as(BUYER, &format!("/api/v1/orders/{cancelled}/cancel")).send().await.expect(200, "00000");
    world.run_until_idle().await;
    let page = world.get_data_as(SELLER, "listings").await;
    let items = page["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    for (item, order) in items.iter().zip([Value::Null, kept.into()]) {
        let (event, time) = event_and_time(item, "updateTime");
        let product = &item["productId"];
        assert_eq!(
            *item,
            json!({ "productId": product, "orderId": order, "eventId": event, "updateTime": time })
        );
    }
    let first = world.get_data_as(SELLER, "listings?limit=1").await;
    assert_eq!(
        (&first["items"], &first["nextCursor"]),
        (&json!([items[0]]), &json!(items[0]["productId"].to_string()))
    );
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = world.get_data_as(SELLER, &format!("listings?limit=1&cursor={cursor}")).await;
    assert_eq!(rest, json!({ "items": [items[1]], "nextCursor": null }));
}

#[tokio::test(start_paused = true)]
async fn account_data_of_other_users_and_tenants_is_not_visible() {
    let world = World::new().await;
    world.completed_order().await;
    world.run_until_idle().await;
    for path in LISTS {
        let empty = json!({ "items": [], "nextCursor": null });
        assert_eq!(world.get_as(OTHER_USER, path).send().await.expect(200, "00000").data, empty, "{path}");
        let other_tenant = world.token(SELLER, 2, &[Role::User]);
        assert_eq!(
            world.get(path).token(&other_tenant).send().await.expect(200, "00000").data,
            empty,
            "{path}"
        );
    }
    let other_tenant = world.token(BUYER, 2, &[Role::User]);
    let credit = world.get("/api/v1/credit").token(&other_tenant).send().await.expect(200, "00000");
    assert_eq!((&credit.data["score"], &credit.data["completed"]), (&json!(100), &json!(0)));
}

#[tokio::test(start_paused = true)]
async fn lists_reject_invalid_and_unknown_parameters() {
    let world = World::new().await;
    for path in LISTS {
        for (query, field) in [
            ("limit=0", "limit"),
            ("limit=101", "limit"),
            ("cursor=x", "cursor"),
            ("cursor=-1", "cursor"),
            ("side=x", "side"),
        ] {
            let response = world.get_as(BUYER, &format!("{path}?{query}")).send().await.expect(400, "A0400");
            assert_eq!(response.wrong_fields(), [field], "{path}?{query}");
        }
    }
    let response = world.get_as(BUYER, "/api/v1/shipments?as=carrier").send().await.expect(400, "A0400");
    assert_eq!(response.wrong_fields(), ["as"]);
}
