//! Personal data in responses to operators, with and without the role `pii`.

use handover_events::{AggregateRef, EventId, TenantId};
use handover_outbox::ports::{EventMetadata, IdleConsumers, NewEvent};
use marketplace::Role;
use serde_json::{Value, json};

use crate::dead_letters::dead_letter;
use crate::world::{BUYER, OTHER_USER, SELLER, World};

const FREE_TEXT: &str = "call me at 13800001111";

impl World {
    /// Appends an event with this payload, as an older version stored it.
    async fn store_event(&self, event_type: &str, kind: &str, id: i64, payload: &Value) -> EventId {
        let event = NewEvent {
            event_id: "of-an-older-version".parse().unwrap(),
            event_type: event_type.to_owned(),
            aggregate: AggregateRef { tenant: TenantId::DEFAULT, kind: kind.to_owned(), id: id.into() },
            aggregate_seq: Some(2),
            payload: payload.to_string(),
            metadata: EventMetadata::default(),
            occurred_at: self.app.tx.now(),
            max_retry_count: 3,
            idle_consumers: IdleConsumers::default(),
            routing_key: None,
            due: None,
        };
        let id = event.event_id.clone();
        let mut unit = self.app.tx.begin().await.unwrap();
        unit.outbox().append(&[event]).await.unwrap();
        unit.commit().await.unwrap();
        id
    }

    /// Adds a dead letter of this event with this body.
    async fn park(&self, event: &EventId, body: &str) {
        let parked = dead_letter("webhook.delivery.queue", event.as_str(), body, self.app.tx.now());
        let mut unit = self.app.tx.begin().await.unwrap();
        unit.outbox().park(&[parked]).await.unwrap();
        unit.commit().await.unwrap();
    }

    async fn get_data_with_roles(&self, roles: &[Role], path: &str) -> Value {
        let token = self.token(OTHER_USER, 1, roles);
        self.get(&format!("/api/v1/{path}")).token(&token).send().await.expect(200, "00000").data
    }
}

#[tokio::test(start_paused = true)]
async fn payloads_are_masked_without_role_pii() {
    let world = World::new().await;
    let order = world.paid_order().await;
    let (_, dead) = world.dead_order().await;
    let lists = [format!("ops/outbox?aggregateId={order}"), format!("ops/outbox/{dead}")];
    for path in &lists {
        for role in [Role::Operator, Role::Platform] {
            let masked = world.get_data_with_roles(&[role], path).await;
            let masked = masked.get("items").map_or(&masked, |items| &items[0])["payload"].clone();
            assert_eq!((&masked["buyerId"], &masked["sellerId"]), (&json!("***"), &json!("***")));
            assert!(masked["orderId"].is_number() && masked["orderNo"].is_string(), "{masked}");
            let whole = world.get_data_with_roles(&[role, Role::Pii], path).await;
            let whole = whole.get("items").map_or(&whole, |items| &items[0])["payload"].clone();
            assert_eq!((&whole["buyerId"], &whole["sellerId"]), (&json!(BUYER), &json!(SELLER)));
        }
    }
    let body = |page: Value| page["items"][0]["body"].clone();
    assert_eq!(
        body(world.get_data_with_roles(&[Role::Operator], "ops/dead-letters").await),
        json!({ "a": "***" })
    );
    let pii = [Role::Operator, Role::Pii];
    assert_eq!(body(world.get_data_with_roles(&pii, "ops/dead-letters").await), json!({ "a": 1 }));
}

/// Older versions stored any text as the payment method, such as a card number.
#[tokio::test(start_paused = true)]
async fn payment_method_outside_the_set_is_masked_for_every_role() {
    let world = World::new().await;
    let card = "4111111111111111";
    let payload = json!({ "paymentId": 5, "paymentMethod": card, "orderNo": "o" });
    let event = world.store_event("PAYMENT_FAILED", "Payment", 5, &payload).await;
    let body = json!({ "eventType": "PAYMENT_FAILED", "payload": payload }).to_string();
    world.park(&event, &body).await;
    for path in ["ops/outbox?aggregateId=5", &format!("ops/outbox/{event}"), "ops/dead-letters"] {
        for role in [Role::Operator, Role::Platform] {
            let masked = world.get_data_with_roles(&[role], path).await.to_string();
            assert!(!masked.contains(card), "{path}: {masked}");
            let whole = world.get_data_with_roles(&[role, Role::Pii], path).await.to_string();
            assert!(whole.contains(r#""paymentMethod":"other","orderNo":"o""#), "{path}: {whole}");
            assert!(!whole.contains(card), "{path}: {whole}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn free_text_is_visible_to_parties_and_role_pii_only() {
    let world = World::new().await;
    let order = world.paid_order().await;
    let refunds = format!("orders/{order}/refunds");
    let body = json!({ "reason": FREE_TEXT }).to_string();
    let request = |token: &str| world.post(&format!("/api/v1/{refunds}")).token(token).json(body.clone());
    let buyer = world.token(BUYER, 1, &[Role::User]);
    request(&buyer).send().await.expect(201, "00000");
    let timeline = format!("orders/{order}/timeline");
    let operator = [Role::Operator];
    // A repeated request of an operator returns the buyer's refund with the text masked.
    let again = world.post_as_operator(&format!("/api/v1/ops/{refunds}")).json(body.clone()).send().await;
    assert_eq!(again.expect(201, "00000").data["reason"], "***");
    for path in [&refunds, &timeline] {
        let operators = format!("ops/{path}");
        let masked = world.get_data_with_roles(&operator, &operators).await.to_string();
        assert!(!masked.contains(FREE_TEXT) && masked.contains("***"), "{masked}");
        let whole = world.get_data_with_roles(&[Role::Operator, Role::Pii], &operators).await.to_string();
        assert!(whole.contains(FREE_TEXT) && !whole.contains("***"), "{whole}");
        for party in [BUYER, SELLER] {
            let own = world.get_data_as(party, path).await.to_string();
            assert!(own.contains(FREE_TEXT) && !own.contains("***"), "{own}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn seller_does_not_see_the_assets_of_the_buyer_in_any_response() {
    let world = World::new().await;
    world.deposit_to_buyer("20.50").await;
    let placed = world.order_with(r#""walletAmount":20.50"#).await.expect(201, "00000");
    let order = placed.id("orderId");
    world.run_until_idle().await;
    let path = format!("/api/v1/orders/{order}");
    let number = placed.data["orderNo"].as_str().unwrap().to_owned();
    let assets = |order: &Value| {
        ["couponId", "couponDiscount", "walletAmount", "points"].map(|name| order[name].clone())
    };
    let hidden = [Value::Null, Value::Null, Value::Null, Value::Null];
    let used = assets(&placed.data);
    assert_eq!(used[2].to_string(), "20.50");
    for (user, side, expected) in [(BUYER, "buyer", &used), (SELLER, "seller", &hidden)] {
        let one = world.get_as(user, &path).send().await.expect(200, "00000").data;
        assert_eq!(assets(&one), *expected, "{side}");
        for query in [format!("?as={side}"), format!("?orderNo={number}")] {
            let page =
                world.get_as(user, &format!("/api/v1/orders{query}")).send().await.expect(200, "00000").data;
            assert_eq!(assets(&page["items"][0]), *expected, "{side} {query}");
        }
    }
    let declined = world.post_as(SELLER, &format!("{path}/cancel")).send().await.expect(200, "00000").data;
    assert_eq!((&declined["cancelReason"], assets(&declined)), (&json!("seller"), hidden));
}
