//! `/api/v1/orders/{id}/timeline` and `/api/v1/ops/orders/{id}/timeline`.

use marketplace::Role;
use serde_json::{Value, json};

use crate::world::{BUYER, OTHER_USER, SELLER, World};

fn path(order: i64) -> String {
    format!("/api/v1/orders/{order}/timeline")
}

fn operators_path(order: i64) -> String {
    format!("/api/v1/ops/orders/{order}/timeline")
}

#[tokio::test(start_paused = true)]
async fn timeline_shows_entries_to_parties_in_chronological_order() {
    let world = World::new().await;
    let order = world.completed_order().await;
    world.run_until_idle().await;
    let shown = world.get_as(BUYER, &path(order)).send().await.expect(200, "00000").data;
    assert_eq!(shown["orderId"], order);
    let items = shown["items"].as_array().unwrap();
    // The seller sees the same entries, except asset operations of the buyer, entries of the consumers of assets, and which
    // of them have no work.
    let is_of_asset = |item: &Value| ["coupon", "wallet", "points"].iter().any(|it| item["consumer"] == *it);
    let (asset_operations, rest): (Vec<&Value>, Vec<&Value>) =
        items.iter().partition(|item| !item["idempotencyKey"].is_null());
    let mut rest: Vec<Value> = rest.into_iter().filter(|item| !is_of_asset(item)).cloned().collect();
    for item in rest.iter_mut().filter(|item| item["kind"] == "event") {
        item.as_object_mut().unwrap().remove("detail");
    }
    let sellers = world.get_as(SELLER, &path(order)).send().await.expect(200, "00000").data;
    assert_eq!(sellers, json!({ "orderId": order, "items": rest }));
    assert!(items.iter().any(|item| item["kind"] == "consumed" && item["consumer"] == "points"));
    let earned = asset_operations.iter().find(|item| item["consumer"] == "points").unwrap();
    let key = format!("points:{order}:earn");
    assert_eq!(
        (&earned["idempotencyKey"], &earned["amount"], &earned["balanceAfter"]),
        (&json!(key), &json!("88"), &json!("88"))
    );
    let times: Vec<&str> = items.iter().map(|item| item["at"].as_str().unwrap()).collect();
    let mut sorted: Vec<chrono::DateTime<chrono::FixedOffset>> =
        times.iter().map(|time| time.parse().unwrap()).collect();
    let as_shown = sorted.clone();
    sorted.sort();
    assert_eq!(as_shown, sorted);
    let of_kind = |kind: &str| items.iter().filter(|item| item["kind"] == kind).collect::<Vec<_>>();
    let states: Vec<&str> = of_kind("state").iter().map(|item| item["status"].as_str().unwrap()).collect();
    assert_eq!(states, ["pending", "paid", "shipped", "completed"]);
    for kind in ["payment", "event", "published", "consumed", "effect"] {
        assert!(!of_kind(kind).is_empty(), "no {kind}");
    }
    assert_eq!(of_kind("event")[0]["detail"], "no work for coupon, points, wallet");
    let first = &items[0];
    assert_eq!(
        first,
        &json!({
            "at": "2026-01-31T08:00:00.000000Z", "kind": "state", "eventId": first["eventId"],
            "eventType": "ORDER_CREATED", "status": "pending", "what": "order placed", "traceId": first["traceId"]
        })
    );
    let applied = of_kind("consumed").into_iter().find(|item| item["consumer"] == "fulfillment").unwrap();
    assert_eq!(
        (&applied["status"], &applied["attempts"], &applied["detail"]),
        (&json!("SUCCESS"), &json!(1), &json!("shipment task opened"))
    );
}

#[tokio::test(start_paused = true)]
async fn timeline_is_404_for_other_users_and_shows_errors_to_operators() {
    let world = World::new().await;
    let (order, id) = world.dead_order().await;
    let detail = |shown: &Value, kind: &str| {
        let items = shown["items"].as_array().unwrap();
        items.iter().find(|item| item["kind"] == kind).unwrap()["detail"].clone()
    };
    let buyers = world.get_as(BUYER, &path(order)).send().await.expect(200, "00000");
    assert!(!buyers.text.contains("out of paper"), "{}", buyers.text);
    assert_eq!(detail(&buyers.data, "deadLetter"), Value::Null);
    for (tenant, role) in [(1, Role::Operator), (2, Role::Platform)] {
        let token = world.token(OTHER_USER, tenant, &[role]);
        let shown = world.get(&operators_path(order)).token(&token).send().await.expect(200, "00000").data;
        assert_eq!(detail(&shown, "deadLetter"), "消息消费失败: out of paper");
        assert_eq!(detail(&shown, "consumed"), "out of paper");
        assert_eq!(shown["items"][0]["eventId"], id);
        world.get(&path(order)).token(&token).send().await.expect(404, "A0404");
    }
    world.get_as(OTHER_USER, &path(order)).send().await.expect(404, "A0404");
    let other_tenant = world.token(BUYER, 2, &[Role::User, Role::Operator]);
    for path in [path(order), operators_path(order)] {
        world.get(&path).token(&other_tenant).send().await.expect(404, "A0404");
    }
    world.get_as(BUYER, &path(order + 1)).send().await.expect(404, "A0404");
    let wrong = world.get_as(BUYER, &format!("{}?limit=5", path(order))).send().await.expect(400, "A0400");
    assert_eq!(wrong.wrong_fields(), ["limit"]);
}
