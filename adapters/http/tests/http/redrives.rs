//! `/api/v1/ops/outbox/redrive`, `/api/v1/ops/blocked`.

use handover_events::{EventId, OutboxStatus};
use handover_outbox::ports::FailedPublish;
use marketplace::Role;
use serde_json::{Value, json};

use crate::client::Answer;
use crate::world::{STRANGER, World};

const REDRIVE: &str = "/api/v1/ops/outbox/redrive";

impl World {
    pub(crate) fn operator(&self) -> String {
        self.token(STRANGER, 1, &[Role::Operator])
    }

    /// As an operator of tenant 1.
    pub(crate) async fn operate(&self, path: &str, body: &Value) -> Answer {
        self.post(path).token(&self.operator()).json(body.to_string()).send().await
    }

    /// As an operator of tenant 1.
    pub(crate) async fn look(&self, path: &str) -> Value {
        let answer = self.get(&format!("/api/v1/ops/{path}")).token(&self.operator()).send().await;
        answer.expect(200, "00000").data
    }

    /// What the audit log tells of changes, newest first.
    pub(crate) async fn changes(&self) -> Vec<Value> {
        self.look("audit?changes=true&limit=100").await["items"].as_array().unwrap().clone()
    }

    /// The events of an order that was just placed, given up by the relay: ORDER_CREATED, ORDER_TIMEOUT.
    pub(crate) async fn failed_order(&self) -> (i64, Vec<String>) {
        let order = self.order().await;
        let items = self.look(&format!("outbox?aggregateId={order}")).await["items"].clone();
        let items = items.as_array().unwrap().iter().rev();
        let ids: Vec<String> = items.map(|item| item["eventId"].as_str().unwrap().to_owned()).collect();
        let failed: Vec<FailedPublish> = ids
            .iter()
            .map(|id| FailedPublish {
                event_id: id.parse::<EventId>().unwrap(),
                status: OutboxStatus::Failed,
                retry_count: 4,
                next_retry_time: None,
                error: "消息发送失败: NO_ROUTE".into(),
            })
            .collect();
        let mut unit = self.app.tx.store.begin().await.unwrap();
        unit.outbox().mark_failed(&failed, self.app.now()).await.unwrap();
        unit.commit().await.unwrap();
        (order, ids)
    }
}

#[tokio::test(start_paused = true)]
async fn named_events_are_redriven_and_the_answer_says_what_became_of_each() {
    let world = World::new().await;
    let (_, ids) = world.failed_order().await;
    let on_its_way = world.order().await;
    let page = world.look(&format!("outbox?aggregateId={on_its_way}&limit=1")).await;
    let new = page["items"][0]["eventId"].as_str().unwrap();
    let body = json!({ "eventIds": [ids[1], ids[0], new, "no-such"], "perSecond": 2, "reason": "mended" });
    let answer = world.operate(REDRIVE, &body).await.expect(200, "00000");
    assert_eq!(
        answer.data,
        json!({
            "dryRun": false, "matched": 3, "redriven": 2, "skipped": 1, "notFound": ["no-such"], "more": false,
            "nextCursor": null, "firstDue": "2026-01-31T08:00:00.000000Z", "lastDue": "2026-01-31T08:00:00.500000Z"
        })
    );
    let row = world.look(&format!("outbox/{}", ids[1])).await;
    assert_eq!(
        (&row["status"], &row["nextRetryTime"]),
        (&json!("RETRY"), &json!("2026-01-31T08:00:00.500000Z"))
    );
    let entry = &world.changes().await[0];
    assert_eq!(
        entry,
        &json!({
            "auditId": entry["auditId"], "tenantId": 1, "actor": "user:9", "action": "outbox.redrive",
            "selection": { "eventIds": [ids[1], ids[0], new, "no-such"], "perSecond": 2 }, "matched": 2, "changed": 2,
            "reason": "mended", "traceId": answer.trace_id, "createTime": "2026-01-31T08:00:00.000000Z"
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_filter_means_failed_events_and_a_dry_run_changes_nothing() {
    let world = World::new().await;
    let (order, ids) = world.failed_order().await;
    let body = json!({ "filter": { "aggregateId": order }, "dryRun": true });
    let dry = world.operate(REDRIVE, &body).await.expect(200, "00000").data;
    assert_eq!((&dry["dryRun"], &dry["matched"], &dry["redriven"]), (&json!(true), &json!(2), &json!(0)));
    assert_eq!(world.look(&format!("outbox/{}", ids[0])).await["status"], "FAILED");
    assert_eq!(world.changes().await, [json!(null); 0]);
    let filters = [
        (json!({ "status": "SENT" }), 0),
        (json!({ "eventType": "ORDER_PAID" }), 0),
        (json!({ "to": "2026-01-31T08:00:00.000000Z" }), 0),
        (
            json!({ "tenantId": 1, "from": "2026-01-31T08:00:00.000000Z", "eventType": "ORDER_CREATED", "status": null }),
            1,
        ),
        (json!({ "status": "FAILED" }), 1),
    ];
    for (filter, count) in filters {
        let answer = world.operate(REDRIVE, &json!({ "filter": filter })).await.expect(200, "00000");
        assert_eq!(answer.data["redriven"], count, "{filter}");
    }
    let other = json!({ "filter": { "tenantId": 2 } });
    world.operate(REDRIVE, &other).await.expect(404, "A0404");
}

#[tokio::test(start_paused = true)]
async fn every_wrong_field_of_a_redrive_is_named() {
    let world = World::new().await;
    let (order, _) = world.failed_order().await;
    let many: Vec<String> = (0..=900).map(|number| format!("e-{number}")).collect();
    let many = json!({ "eventIds": many }).to_string();
    let long_reason = json!({ "filter": { "status": "FAILED" }, "reason": "x".repeat(501) }).to_string();
    let cases: [(&str, &[&str]); 37] = [
        ("", &["body"]),
        ("{", &["body"]),
        ("[]", &["body"]),
        ("{}", &["eventIds"]),
        (r#"{"eventIds":null,"filter":null}"#, &["eventIds"]),
        (r#"{"eventIds":[]}"#, &["eventIds"]),
        (r#"{"eventIds":"e-1"}"#, &["eventIds"]),
        (r#"{"eventIds":{"0":"e-1"}}"#, &["eventIds"]),
        (r#"{"eventIds":[1]}"#, &["eventIds"]),
        (r#"{"eventIds":["e-1",null]}"#, &["eventIds"]),
        (r#"{"eventIds":["a b"]}"#, &["eventIds"]),
        (&many, &["eventIds"]),
        (r#"{"eventIds":["e-1"],"filter":{"status":"FAILED"}}"#, &["filter"]),
        (r#"{"filter":{}}"#, &["filter"]),
        (r#"{"filter":[]}"#, &["filter"]),
        (r#"{"filter":"FAILED"}"#, &["filter"]),
        (r#"{"filter":{"status":null}}"#, &["filter"]),
        (r#"{"filter":{"status":"NEW"}}"#, &["filter.status"]),
        (r#"{"filter":{"status":"RETRY"}}"#, &["filter.status"]),
        (r#"{"filter":{"status":"failed"}}"#, &["filter.status"]),
        (r#"{"filter":{"status":7}}"#, &["filter.status"]),
        (r#"{"filter":{"eventType":""}}"#, &["filter.eventType"]),
        (r#"{"filter":{"aggregateId":"1"}}"#, &["filter.aggregateId"]),
        (r#"{"filter":{"aggregateId":1.5}}"#, &["filter.aggregateId"]),
        (r#"{"filter":{"tenantId":0}}"#, &["filter.tenantId"]),
        (r#"{"filter":{"from":"today","to":1}}"#, &["filter.from", "filter.to"]),
        (r#"{"filter":{"status":"SENT","status":"FAILED"}}"#, &["filter.status"]),
        (r#"{"filter":{"status":"FAILED","state":"x"}}"#, &["filter.state"]),
        (r#"{"filter":{"status":{"is":"FAILED"}}}"#, &["filter.status"]),
        (r#"{"eventIds":["e-1"],"dryRun":"true"}"#, &["dryRun"]),
        (r#"{"eventIds":["e-1"],"dryRun":1}"#, &["dryRun"]),
        (r#"{"eventIds":["e-1"],"perSecond":0}"#, &["perSecond"]),
        (r#"{"eventIds":["e-1"],"perSecond":10001}"#, &["perSecond"]),
        (r#"{"eventIds":["e-1"],"perSecond":-1,"reason":""}"#, &["perSecond", "reason"]),
        (r#"{"eventIds":["e-1"],"perSecond":1.5}"#, &["perSecond"]),
        (r#"{"eventIds":["e-1"],"reason":"a\nb","force":true}"#, &["reason", "force"]),
        (&long_reason, &["reason"]),
    ];
    for (body, fields) in cases {
        let request = world.post(REDRIVE).token(&world.operator()).json(body);
        assert_eq!(request.send().await.expect(400, "A0400").wrong_fields(), fields, "{body}");
    }
    assert_eq!(world.look("outbox?status=FAILED").await["items"].as_array().unwrap().len(), 2);
    assert_eq!(world.changes().await, [json!(null); 0]);
    let most: Vec<String> = (0..900).map(|number| format!("e-{number}")).collect();
    let greatest = json!({ "eventIds": most, "perSecond": 10_000, "reason": "字".repeat(500) });
    let answer = world.operate(REDRIVE, &greatest).await.expect(200, "00000");
    assert_eq!(answer.data["notFound"].as_array().unwrap().len(), 900);
    let negative = json!({ "filter": { "aggregateId": -3, "from": "2026-01-31T08:00:00+08:00" } });
    assert_eq!(world.operate(REDRIVE, &negative).await.expect(200, "00000").data["matched"], 0);
    assert!(order > 0);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_aggregate_is_listed_until_it_is_released() {
    let world = World::holding().await;
    let (order, ids) = world.failed_order().await;
    let page = world.look("blocked").await;
    assert_eq!(
        page,
        json!({
            "items": [{
                "aggregateType": "Order", "aggregateId": order, "tenantId": 1, "eventId": ids[0],
                "eventType": "ORDER_CREATED", "lastError": "消息发送失败: NO_ROUTE", "since": "2026-01-31T08:00:00.000000Z",
                "waitsFor": "DECISION", "until": null, "held": 0
            }],
            "nextCursor": null
        })
    );
    let release = format!("/api/v1/ops/blocked/Order/{order}/release");
    let elsewhere = world.token(STRANGER, 2, &[Role::Operator]);
    world.post(&release).token(&elsewhere).send().await.expect(404, "A0404");
    let other = json!({ "tenantId": 1 }).to_string();
    world.post(&release).token(&elsewhere).json(other).send().await.expect(404, "A0404");
    for (body, fields) in [
        (r#"{"reason":7,"tenantId":"1"}"#, ["reason", "tenantId"].as_slice()),
        (r#"{"force":true}"#, &["force"]),
        ("[]", &["body"]),
    ] {
        let request = world.post(&release).token(&world.operator()).json(body);
        assert_eq!(request.send().await.expect(400, "A0400").wrong_fields(), fields, "{body}");
    }
    let answer = world.post(&release).token(&world.operator()).send().await.expect(200, "00000");
    let released = answer.data["released"].as_u64().unwrap();
    assert_eq!(answer.data, json!({ "aggregateType": "Order", "aggregateId": order, "released": released }));
    assert!(released >= 1);
    assert_eq!(world.look("blocked").await["items"], json!([]));
    let again = world.post(&release).token(&world.operator()).send().await.expect(404, "A0404");
    assert_eq!(again.message, "no such blocked aggregate");
    assert_eq!(world.changes().await.len(), 1);
    for path in ["Order/x", "Order/+1", "Order/01", "Order/9223372036854775808", "%FF/1", "Payment/-1"] {
        let path = format!("/api/v1/ops/blocked/{path}/release");
        world.post(&path).token(&world.operator()).send().await.expect(404, "A0404");
    }
}

#[tokio::test(start_paused = true)]
async fn where_failed_events_hold_nothing_none_is_listed_and_a_release_is_a_conflict() {
    let world = World::new().await;
    let (order, _) = world.failed_order().await;
    assert_eq!(world.look("blocked").await, json!({ "items": [], "nextCursor": null }));
    assert_eq!(world.look("stats").await["blocked"], json!({ "aggregates": 0, "more": false }));
    let release = format!("/api/v1/ops/blocked/Order/{order}/release");
    let refused = world.post(&release).token(&world.operator()).send().await.expect(409, "A0409");
    assert_eq!(refused.message, "nothing is held: outbox.on-failed is continue");
    assert_eq!(world.changes().await, [json!(null); 0]);
    world.post(&release).token(&world.token(STRANGER, 1, &[Role::User])).send().await.expect(403, "A0303");
}
