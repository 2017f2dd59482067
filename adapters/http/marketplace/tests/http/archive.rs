//! `/api/v1/ops/outbox/archive`, `/api/v1/ops/outbox/restore`, and archived events in lists and timelines.

use std::time::Duration;

use handover_memory::MemoryArchive;
use marketplace::Role;
use serde_json::{Value, json};

use crate::client::ApiResponse;
use crate::world::{BUYER, OTHER_USER, Setup, World};

const ARCHIVE: &str = "/api/v1/ops/outbox/archive";
const RESTORE: &str = "/api/v1/ops/outbox/restore";
const OUTBOX: &str = "/api/v1/ops/outbox";

/// Time within which an order has to be paid.
const PENDING_TIMEOUT: Duration = Duration::from_secs(900);

impl World {
    async fn archive(&self, body: &str) -> ApiResponse {
        let token = self.token(OTHER_USER, 1, &[Role::Platform]);
        self.post(ARCHIVE).token(&token).json(body).send().await
    }

    async fn restore(&self, body: &Value) -> ApiResponse {
        self.post_as_operator(RESTORE).json(body.to_string()).send().await
    }

    async fn timeline_of(&self, order: i64) -> Vec<Value> {
        let path = format!("/api/v1/ops/orders/{order}/timeline");
        let shown = self.get_as_operator(&path).send().await.expect(200, "00000").data;
        shown["items"].as_array().unwrap().clone()
    }
}

/// A world with an order, all of whose events are settled.
async fn world_with_order(files: &MemoryArchive) -> (World, i64) {
    let world = World::with(Setup { archive: Some(files.clone()), ..Setup::default() }).await;
    let order = world.completed_order().await;
    world.run_until_idle().await;
    // The consumer of timeouts settles an order when its time to pay is over.
    world.app.tx.sleep(PENDING_TIMEOUT * 2).await;
    (world, order)
}

#[tokio::test(start_paused = true)]
async fn archived_events_are_listed_and_shown_and_return_to_the_outbox() {
    let (world, order) = world_with_order(&MemoryArchive::new()).await;
    let before = world.get_as_operator(OUTBOX).send().await.expect(200, "00000").data["items"].clone();
    let id = before[0]["eventId"].as_str().unwrap();
    let dry = world.archive(r#"{"dryRun":true}"#).await.expect(200, "00000").data;
    let done = world.archive("{}").await.expect(200, "00000").data;
    let count = before.as_array().unwrap().len();
    assert_eq!((&dry["events"], &dry["files"], &dry["dryRun"]), (&json!(count), &json!(0), &json!(true)));
    assert_eq!((&done["events"], &done["dryRun"]), (&json!(count), &json!(false)));
    let left = world.get_as_operator(OUTBOX).send().await.expect(200, "00000").data;
    assert_eq!(left["items"], json!([]));
    let archived = world.get_as_operator(&format!("{OUTBOX}?archived=true")).send().await;
    let archived = archived.expect(200, "00000").data["items"].clone();
    let ids = |items: &Value| -> Vec<Value> {
        items.as_array().unwrap().iter().map(|item| item["eventId"].clone()).collect()
    };
    assert_eq!(ids(&archived), ids(&before));
    assert!(archived[0].get("payload").is_none(), "{archived}");
    let of_order = format!("{OUTBOX}?archived=true&aggregateType=Order&aggregateId={order}&limit=1");
    let page = world.get_as_operator(&of_order).send().await.expect(200, "00000").data;
    assert_eq!((&page["items"][0]["aggregateId"], page["nextCursor"].is_null()), (&json!(order), false));
    let mut shown = world.get_as_operator(&format!("{OUTBOX}/{id}")).send().await.expect(200, "00000").data;
    assert!(shown["archiveFile"].as_str().unwrap().ends_with(".jsonl"), "{shown}");
    shown["archiveFile"] = Value::Null;
    assert_eq!(shown, before[0]);
    let reason = "a customer asked";
    let by_id = world.restore(&json!({ "eventIds": [id, "none"], "reason": reason })).await;
    let by_id = by_id.expect(200, "00000").data;
    assert_eq!(by_id, json!({ "restored": 1, "notFound": ["none"], "more": false }));
    let aggregate = json!({ "aggregateType": "Order", "aggregateId": order });
    let of_order = world.restore(&json!({ "aggregate": aggregate, "reason": reason })).await;
    assert!(of_order.expect(200, "00000").data["restored"].as_u64() > Some(1));
    let period = json!({ "from": "2026-01-01T00:00:00Z", "to": "2027-01-01T00:00:00Z", "reason": reason });
    world.restore(&period).await.expect(200, "00000");
    let mut after = world.get_as_operator(OUTBOX).send().await.expect(200, "00000").data["items"].clone();
    for event in after.as_array_mut().unwrap() {
        assert!(event["restoredTime"].take().is_string(), "{event}");
    }
    assert_eq!(after, before);
}

#[tokio::test(start_paused = true)]
async fn timeline_shows_archived_events_and_answers_without_the_files_of_the_archive() {
    let files = MemoryArchive::new();
    let (world, order) = world_with_order(&files).await;
    let before = world.timeline_of(order).await;
    world.archive("{}").await.expect(200, "00000");
    let mut archived = world.timeline_of(order).await;
    let is_marked = |item: &&Value| item["archived"] == true;
    assert!(archived.iter().filter(is_marked).any(|item| item["kind"] == "consumed"), "{archived:?}");
    for item in &mut archived {
        item.as_object_mut().unwrap().remove("archived");
    }
    assert_eq!(archived, before);
    files.clear();
    let lost = world.timeline_of(order).await;
    let unreadable: Vec<&Value> =
        lost.iter().filter(|item| item["what"].as_str().unwrap().ends_with("cannot be read")).collect();
    assert_eq!(unreadable.len(), before.iter().filter(|item| item["kind"] == "event").count());
    let detail = unreadable[0]["detail"].as_str().unwrap();
    assert!(detail.starts_with("there is no file") && unreadable[0]["archived"] == true, "{unreadable:?}");
    let buyers = world.get_as(BUYER, &format!("/api/v1/orders/{order}/timeline")).send().await;
    assert!(!buyers.expect(200, "00000").text.contains("there is no file"), "details are for operators");
}

#[tokio::test(start_paused = true)]
async fn redrive_by_aggregate_is_refused_while_its_events_are_in_the_archive() {
    let (world, order) = world_with_order(&MemoryArchive::new()).await;
    world.archive("{}").await.expect(200, "00000");
    let filter = json!({ "status": "SENT", "aggregateType": "Order", "aggregateId": order });
    let body = json!({ "filter": filter }).to_string();
    let refused = world.post_as_operator(&format!("{OUTBOX}/redrive")).json(body).send().await;
    let message = refused.expect(409, "A0409").message;
    let restore = format!("`handover outbox restore --aggregate Order {order} --tenant 1`");
    assert!(message.contains(&restore), "{message}");
}

#[tokio::test(start_paused = true)]
async fn process_without_an_archive_answers_409() {
    let world = World::with(Setup { archive: None, ..Setup::default() }).await;
    let refused = world.archive("{}").await.expect(409, "A0409");
    assert!(refused.message.contains("this process has no storage for it"), "{}", refused.text);
    world.restore(&json!({ "eventIds": ["e-1"], "reason": "known" })).await.expect(409, "A0409");
}

#[tokio::test(start_paused = true)]
async fn invalid_selections_are_refused_with_the_field() {
    let world = World::new().await;
    for older_than in ["59m", "7", "d", "7w", "-7d", "9999999999d"] {
        let refused =
            world.archive(&json!({ "olderThan": older_than }).to_string()).await.expect(400, "A0400");
        assert_eq!(refused.wrong_fields(), ["olderThan"], "{older_than}");
    }
    world.archive(r#"{"olderThan":"1h"}"#).await.expect(200, "00000");
    let (from, reason) = ("2026-01-01T00:00:00Z", "known");
    let aggregate = json!({ "aggregateType": "Order", "aggregateId": 1 });
    for (body, field) in [
        (json!({ "reason": reason }), "eventIds"),
        (json!({ "from": from, "reason": reason }), "eventIds"),
        (json!({ "eventIds": ["e-1"], "aggregate": aggregate, "reason": reason }), "eventIds"),
        (json!({ "eventIds": ["e-1"] }), "reason"),
        (json!({ "aggregate": { "aggregateType": "Order" }, "reason": reason }), "aggregate.aggregateId"),
    ] {
        assert_eq!(world.restore(&body).await.expect(400, "A0400").wrong_fields(), [field], "{body}");
    }
    for other in ["status=SENT", "oldest=true"] {
        let refused = world.get_as_operator(&format!("{OUTBOX}?archived=true&{other}")).send().await;
        assert_eq!(refused.expect(400, "A0400").wrong_fields(), ["archived"], "{other}");
    }
    let others = json!({ "aggregateType": "Order", "aggregateId": 1, "tenantId": 2 });
    world.restore(&json!({ "aggregate": others, "reason": reason })).await.expect(404, "A0404");
}
