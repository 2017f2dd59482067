//! What operators see of people, without the role `pii` and with it.

use marketplace::Role;
use serde_json::{Value, json};

use crate::world::{BUYER, SELLER, STRANGER, World};

const WORDS: &str = "call me at 13800001111";

impl World {
    async fn looked(&self, roles: &[Role], path: &str) -> Value {
        let token = self.token(STRANGER, 1, roles);
        self.get(&format!("/api/v1/{path}")).token(&token).send().await.expect(200, "00000").data
    }
}

#[tokio::test(start_paused = true)]
async fn payloads_show_people_to_nobody_without_pii() {
    let world = World::new().await;
    let order = world.paid().await;
    let (_, dead) = world.dead_order().await;
    let lists = [format!("ops/outbox?aggregateId={order}"), format!("ops/outbox/{dead}")];
    for path in &lists {
        for role in [Role::Operator, Role::Platform] {
            let masked = world.looked(&[role], path).await;
            let masked = masked.get("items").map_or(&masked, |items| &items[0])["payload"].clone();
            assert_eq!((&masked["buyerId"], &masked["sellerId"]), (&json!("***"), &json!("***")));
            assert!(masked["orderId"].is_number() && masked["orderNo"].is_string(), "{masked}");
            let whole = world.looked(&[role, Role::Pii], path).await;
            let whole = whole.get("items").map_or(&whole, |items| &items[0])["payload"].clone();
            assert_eq!((&whole["buyerId"], &whole["sellerId"]), (&json!(BUYER), &json!(SELLER)));
        }
    }
    let body = |letters: Value| letters["items"][0]["body"].clone();
    assert_eq!(body(world.looked(&[Role::Operator], "ops/dead-letters").await), json!({ "a": "***" }));
    let pii = [Role::Operator, Role::Pii];
    assert_eq!(body(world.looked(&pii, "ops/dead-letters").await), json!({ "a": 1 }));
}

#[tokio::test(start_paused = true)]
async fn what_people_wrote_is_for_the_parties_and_for_pii() {
    let world = World::new().await;
    let order = world.paid().await;
    let refunds = format!("orders/{order}/refunds");
    let body = json!({ "reason": WORDS }).to_string();
    let request = |token: &str| world.post(&format!("/api/v1/{refunds}")).token(token).json(body.clone());
    let buyer = world.token(BUYER, 1, &[Role::User]);
    request(&buyer).send().await.expect(201, "00000");
    let timeline = format!("orders/{order}/timeline");
    let operator = [Role::Operator];
    // Asked for again, the buyer's refund is shown as it is to whoever may see it.
    let again = world.token(STRANGER, 1, &operator);
    assert_eq!(request(&again).send().await.expect(201, "00000").data["reason"], "***");
    for path in [&refunds, &timeline] {
        let masked = world.looked(&operator, path).await.to_string();
        assert!(!masked.contains(WORDS) && masked.contains("***"), "{masked}");
        let whole = world.looked(&[Role::Operator, Role::Pii], path).await.to_string();
        assert!(whole.contains(WORDS) && !whole.contains("***"), "{whole}");
        for party in [BUYER, SELLER] {
            let own = world.mine(party, path).await.to_string();
            assert!(own.contains(WORDS) && !own.contains("***"), "{own}");
        }
    }
}
