//! Personal data in responses to operators, with and without the role `pii`.

use marketplace::Role;
use serde_json::{Value, json};

use crate::world::{BUYER, OTHER_USER, SELLER, World};

const FREE_TEXT: &str = "call me at 13800001111";

impl World {
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
    let again = world.token(OTHER_USER, 1, &operator);
    assert_eq!(request(&again).send().await.expect(201, "00000").data["reason"], "***");
    for path in [&refunds, &timeline] {
        let masked = world.get_data_with_roles(&operator, path).await.to_string();
        assert!(!masked.contains(FREE_TEXT) && masked.contains("***"), "{masked}");
        let whole = world.get_data_with_roles(&[Role::Operator, Role::Pii], path).await.to_string();
        assert!(whole.contains(FREE_TEXT) && !whole.contains("***"), "{whole}");
        for party in [BUYER, SELLER] {
            let own = world.get_data_as(party, path).await.to_string();
            assert!(own.contains(FREE_TEXT) && !own.contains("***"), "{own}");
        }
    }
}
