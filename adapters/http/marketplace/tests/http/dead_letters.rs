//! `/api/v1/ops/dead-letters`.

use handover_events::{ConsumeStatus, EventId, TenantId};
use handover_outbox::ports::{Consumption, DeadLetter, DeadLetterStatus, Expected};
use marketplace::Role;
use serde_json::{Value, json};

use crate::world::{OTHER_USER, World};

const DEAD_LETTERS: &str = "/api/v1/ops/dead-letters";
const REPLAY: &str = "/api/v1/ops/dead-letters/replay";
const DISCARD: &str = "/api/v1/ops/dead-letters/discard";
const QUEUE: &str = "inventory.update.queue";

impl World {
    /// Creates an order whose ORDER_CREATED is a dead letter of the inventory consumer; returns the ids of the order
    /// and of the event.
    pub(crate) async fn dead_order(&self) -> (i64, String) {
        let order = self.order().await;
        let id = self.get_ops_data(&format!("outbox?aggregateId={order}&eventType=ORDER_CREATED")).await;
        let id = id["items"][0]["eventId"].as_str().unwrap().to_owned();
        let mut unit = self.app.tx.begin().await.unwrap();
        let event: EventId = id.parse().unwrap();
        let row = unit.outbox().outbox_by_event(&[event]).await.unwrap().remove(0);
        let now = self.app.tx.now();
        let dead = Consumption {
            consumer: "inventory".into(),
            event_id: row.event_id.clone(),
            event_type: row.event_type.clone(),
            aggregate: row.aggregate.clone(),
            aggregate_seq: row.aggregate_seq,
            expected: Expected::Absent,
            status: ConsumeStatus::Dead,
            attempts: 4,
            next_retry_time: None,
            lease_until: None,
            error_message: Some("out of paper".into()),
            idempotency_key: None,
            consume_result: None,
            payload_hash: "h".into(),
            trace_id: row.trace_id().to_owned(),
            cost_ms: 0,
            consume_time: now,
        };
        unit.outbox().record(&[dead]).await.unwrap();
        unit.outbox().park(&[dead_letter(QUEUE, &id, r#"{"a":1}"#, now)]).await.unwrap();
        unit.commit().await.unwrap();
        (order, id)
    }

    /// Parks a message that is not an event of this service; returns its key.
    async fn foreign_message(&self) -> String {
        let key = "0123456789abcdef".repeat(4);
        let mut unit = self.app.tx.begin().await.unwrap();
        unit.outbox().park(&[dead_letter(QUEUE, &key, "not JSON", self.app.tx.now())]).await.unwrap();
        unit.commit().await.unwrap();
        key
    }

    async fn dead_letter_status(&self, key: &str) -> Value {
        let page = self.get_ops_data("dead-letters").await;
        let items = page["items"].as_array().unwrap();
        items.iter().find(|item| item["key"] == key).unwrap()["status"].clone()
    }
}

pub(crate) fn dead_letter(
    queue: &str,
    key: &str,
    body: &str,
    died_at: chrono::DateTime<chrono::Utc>,
) -> DeadLetter {
    DeadLetter {
        queue: queue.into(),
        key: key.into(),
        tenant: TenantId::DEFAULT,
        event_type: Some("ORDER_CREATED".into()),
        trace_id: Some("t-1".into()),
        body: body.into(),
        reason: "消息消费失败: out of paper".into(),
        died_at,
        status: DeadLetterStatus::Open,
        decided_at: None,
        note: None,
    }
}

#[tokio::test(start_paused = true)]
async fn dead_letters_are_listed_newest_first_with_their_event() {
    let world = World::new().await;
    let (_, id) = world.dead_order().await;
    let foreign = world.foreign_message().await;
    let page = world.get_ops_data("dead-letters").await;
    assert_eq!(page["nextCursor"], Value::Null);
    let items = page["items"].as_array().unwrap();
    assert_eq!(
        items[1],
        json!({
            "queue": QUEUE, "key": id, "eventId": id, "tenantId": 1, "eventType": "ORDER_CREATED",
            "traceId": "t-1", "reason": "消息消费失败: out of paper", "diedAt": "2026-01-31T08:00:00.000000Z",
            "status": "OPEN", "decidedAt": null, "note": null, "body": { "a": "***" }
        })
    );
    assert_eq!(
        (&items[0]["key"], &items[0]["eventId"], &items[0]["body"]),
        (&json!(foreign), &Value::Null, &json!("***"))
    );
    let cases = [
        ("?queue=inventory.update.queue", 2),
        ("?queue=order.timeout.queue", 0),
        ("?eventType=ORDER_CREATED", 2),
        ("?eventType=ORDER_PAID", 0),
        ("?status=OPEN", 2),
        ("?status=REPLAYED", 0),
        ("?tenantId=1", 2),
        ("?limit=1", 1),
    ];
    for (query, count) in cases {
        let page = world.get_ops_data(&format!("dead-letters{query}")).await;
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{query}");
    }
    let first = world.get_ops_data("dead-letters?limit=1").await;
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = world.get_ops_data(&format!("dead-letters?limit=1&cursor={cursor}")).await;
    assert_eq!(rest, json!({ "items": [items[1]], "nextCursor": null }));
    let other_tenant = world.token(OTHER_USER, 2, &[Role::Operator]);
    let other = world.get(DEAD_LETTERS).token(&other_tenant).send().await.expect(200, "00000");
    assert_eq!(other.data["items"], json!([]));
    world.get(&format!("{DEAD_LETTERS}?tenantId=1")).token(&other_tenant).send().await.expect(404, "A0404");
    let wrong =
        world.get(&format!("{DEAD_LETTERS}?status=open&page=2&cursor=x")).token(&world.operator_token());
    let wrong = wrong.send().await.expect(400, "A0400");
    assert_eq!(wrong.wrong_fields(), ["status", "cursor", "page"]);
}

#[tokio::test(start_paused = true)]
async fn replayed_dead_letter_takes_effect_and_foreign_message_is_refused() {
    let world = World::new().await;
    let (order, id) = world.dead_order().await;
    let foreign = world.foreign_message().await;
    let body = json!({ "keys": [id, foreign, "no-such"], "queue": QUEUE, "reason": "fixed" });
    let dry = json!({ "keys": [id, foreign, "no-such"], "dryRun": true });
    let dry = world.post_op(REPLAY, &dry).await.expect(200, "00000").data;
    assert_eq!((&dry["dryRun"], &dry["replayed"]), (&json!(true), &json!(0)));
    assert_eq!(world.dead_letter_status(&id).await, "OPEN");
    let response = world.post_op(REPLAY, &body).await.expect(200, "00000").data;
    let refused = json!([{ "queue": QUEUE, "key": foreign,
        "why": "the message is not an event of this outbox: discard it" }]);
    assert_eq!(
        response,
        json!({
            "dryRun": false, "matched": 2, "replayed": 1, "refused": refused, "notFound": ["no-such"], "more": false
        })
    );
    assert_eq!(dry["refused"], refused);
    assert_eq!(world.dead_letter_status(&id).await, "REPLAYED");
    world.run_until_idle().await;
    let log = world.get_ops_data(&format!("consumptions?eventId={id}&consumer=inventory")).await;
    assert_eq!((&log["items"][0]["status"], &log["items"][0]["attempts"]), (&json!("SUCCESS"), &json!(1)));
    assert!(order > 0);
    assert_eq!(
        world.audited_changes().await[0]["selection"],
        json!({ "keys": [id, foreign, "no-such"], "queue": QUEUE })
    );
}

#[tokio::test(start_paused = true)]
async fn replay_is_503_and_changes_nothing_if_broker_is_unreachable() {
    let world = World::new().await;
    let (_, id) = world.dead_order().await;
    world.broker.set_reachable(false);
    let refused = world.post_op(REPLAY, &json!({ "filter": {} })).await.expect(503, "C0001");
    assert_eq!(refused.headers["retry-after"], "5");
    assert_eq!(world.dead_letter_status(&id).await, "OPEN");
    assert_eq!(world.audited_changes().await, [json!(null); 0]);
}

#[tokio::test(start_paused = true)]
async fn discarded_dead_letter_is_closed_with_its_reason() {
    let world = World::new().await;
    let (_, id) = world.dead_order().await;
    let foreign = world.foreign_message().await;
    let body = json!({ "filter": { "queue": QUEUE }, "dryRun": true, "reason": "foreign message" });
    let dry = world.post_op(DISCARD, &body).await.expect(200, "00000").data;
    assert_eq!((&dry["matched"], &dry["discarded"]), (&json!(2), &json!(0)));
    let body = json!({ "keys": [foreign, "no-such"], "reason": "foreign message" });
    let response = world.post_op(DISCARD, &body).await.expect(200, "00000").data;
    assert_eq!(
        response,
        json!({
            "dryRun": false, "matched": 1, "discarded": 1, "refused": [], "notFound": ["no-such"], "more": false
        })
    );
    let again = world.post_op(DISCARD, &body).await.expect(200, "00000").data;
    assert_eq!(
        (&again["discarded"], &again["refused"]),
        (&json!(0), &json!([{ "queue": QUEUE, "key": foreign, "why": "the dead letter was discarded" }]))
    );
    let page = world.get_ops_data("dead-letters?status=DISCARDED").await;
    let item = &page["items"][0];
    assert_eq!(
        (&item["key"], &item["note"], &item["decidedAt"]),
        (&json!(foreign), &json!("foreign message"), &json!("2026-01-31T08:00:00.000000Z"))
    );
    assert_eq!(world.dead_letter_status(&id).await, "OPEN");
}

#[tokio::test(start_paused = true)]
async fn replay_and_discard_with_invalid_fields_reports_every_field() {
    let world = World::new().await;
    let (_, id) = world.dead_order().await;
    let long = format!(r#"{{"keys":["{}"],"reason":"r"}}"#, "x".repeat(65));
    let cases: [(&str, &[&str]); 14] = [
        ("null", &["body"]),
        (r#"{"reason":"r"}"#, &["keys"]),
        (r#"{"keys":[],"reason":"r"}"#, &["keys"]),
        (r#"{"keys":[true],"reason":"r"}"#, &["keys"]),
        (&long, &["keys"]),
        (r#"{"keys":["e"],"filter":{},"reason":"r"}"#, &["filter"]),
        (r#"{"filter":{},"queue":"q","reason":"r"}"#, &["queue"]),
        (r#"{"keys":["e"],"queue":"a b","reason":"r"}"#, &["queue"]),
        (r#"{"filter":{"status":"OPEN"},"reason":"r"}"#, &["filter.status"]),
        (
            r#"{"filter":{"queue":"","eventType":1,"tenantId":"1"},"reason":"r"}"#,
            &["filter.queue", "filter.eventType", "filter.tenantId"],
        ),
        (r#"{"filter":{"queue":"a","queue":"b"},"reason":"r"}"#, &["filter.queue"]),
        (r#"{"filter":{},"dryRun":"yes","reason":"r"}"#, &["dryRun"]),
        (r#"{"filter":{},"reason":" "}"#, &["reason"]),
        (r#"{"filter":{},"reason":"r","perSecond":1}"#, &["perSecond"]),
    ];
    for (body, fields) in cases {
        for path in [REPLAY, DISCARD] {
            let request = world.post(path).token(&world.operator_token()).json(body);
            assert_eq!(request.send().await.expect(400, "A0400").wrong_fields(), fields, "{path} {body}");
        }
    }
    let request = world.post(DISCARD).token(&world.operator_token()).json(r#"{"filter":{}}"#);
    assert_eq!(request.send().await.expect(400, "A0400").wrong_fields(), ["reason"]);
    assert_eq!(world.dead_letter_status(&id).await, "OPEN");
    let other_tenant = world.token(OTHER_USER, 2, &[Role::Operator]);
    let other = world.post(REPLAY).token(&other_tenant).json(r#"{"filter":{"tenantId":1}}"#);
    other.send().await.expect(404, "A0404");
}

#[tokio::test(start_paused = true)]
async fn maximum_number_of_longest_keys_fits_into_one_body() {
    let world = World::new().await;
    let named = |count: usize| -> Value {
        let keys: Vec<String> = (0..count).map(|number| format!("{number:064}")).collect();
        json!({ "keys": keys, "queue": "q".repeat(255), "reason": "字".repeat(500), "dryRun": false })
    };
    for path in [REPLAY, DISCARD] {
        let response = world.post_op(path, &named(900)).await.expect(200, "00000");
        assert_eq!(response.data["notFound"].as_array().unwrap().len(), 900);
        let many = json!({ "keys": vec!["e"; 901], "reason": "r" });
        let many = world.post_op(path, &many).await.expect(400, "A0400");
        assert_eq!(many.data["errors"][0]["message"], "must be a list of 1 to 900 items");
    }
}
