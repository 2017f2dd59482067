//! `/api/v1/ops/outbox/redrive`, `/api/v1/ops/blocked`.

use handover_events::{EventId, OutboxStatus};
use handover_outbox::ports::FailedPublish;
use marketplace::Role;
use serde_json::{Value, json};

use crate::client::ApiResponse;
use crate::world::{OTHER_USER, World};

const REDRIVE: &str = "/api/v1/ops/outbox/redrive";

impl World {
    pub(crate) fn operator_token(&self) -> String {
        self.token(OTHER_USER, 1, &[Role::Operator])
    }

    /// POST as an operator of tenant 1.
    pub(crate) async fn post_op(&self, path: &str, body: &Value) -> ApiResponse {
        self.post(path).token(&self.operator_token()).json(body.to_string()).send().await
    }

    /// GET below `/api/v1/ops` as an operator of tenant 1; returns the data.
    pub(crate) async fn get_ops_data(&self, path: &str) -> Value {
        let response = self.get(&format!("/api/v1/ops/{path}")).token(&self.operator_token()).send().await;
        response.expect(200, "00000").data
    }

    /// Audit log entries of changes, newest first.
    pub(crate) async fn audited_changes(&self) -> Vec<Value> {
        self.get_ops_data("audit?changes=true&limit=100").await["items"].as_array().unwrap().clone()
    }

    /// Creates an order whose events are FAILED: ORDER_CREATED, ORDER_TIMEOUT. Returns the order id and the event ids.
    pub(crate) async fn failed_order(&self) -> (i64, Vec<String>) {
        let order = self.order().await;
        let items = self.get_ops_data(&format!("outbox?aggregateId={order}")).await["items"].clone();
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
        let mut unit = self.app.tx.begin().await.unwrap();
        unit.outbox().mark_failed(&failed, self.app.tx.now()).await.unwrap();
        unit.commit().await.unwrap();
        (order, ids)
    }
}

#[tokio::test(start_paused = true)]
async fn redrive_of_named_events_reports_each_result() {
    let world = World::new().await;
    let (_, ids) = world.failed_order().await;
    let pending = world.order().await;
    let page = world.get_ops_data(&format!("outbox?aggregateId={pending}&limit=1")).await;
    let new = page["items"][0]["eventId"].as_str().unwrap();
    let body = json!({ "eventIds": [ids[1], ids[0], new, "no-such"], "perSecond": 2, "reason": "fixed" });
    let response = world.post_op(REDRIVE, &body).await.expect(200, "00000");
    assert_eq!(
        response.data,
        json!({
            "dryRun": false, "matched": 3, "redriven": 2, "skipped": 1, "notFound": ["no-such"], "more": false,
            "nextCursor": null, "firstDue": "2026-01-31T08:00:00.000000Z", "lastDue": "2026-01-31T08:00:00.500000Z"
        })
    );
    let row = world.get_ops_data(&format!("outbox/{}", ids[1])).await;
    assert_eq!(
        (&row["status"], &row["nextRetryTime"]),
        (&json!("RETRY"), &json!("2026-01-31T08:00:00.500000Z"))
    );
    let entry = &world.audited_changes().await[0];
    assert_eq!(
        entry,
        &json!({
            "auditId": entry["auditId"], "tenantId": 1, "actor": "user:9", "action": "outbox.redrive",
            "selection": { "eventIds": [ids[1], ids[0], new, "no-such"], "perSecond": 2 }, "matched": 2, "changed": 2,
            "reason": "fixed", "traceId": response.trace_id, "createTime": "2026-01-31T08:00:00.000000Z"
        })
    );
}

#[tokio::test(start_paused = true)]
async fn redrive_filter_defaults_to_failed_events_and_dry_run_changes_nothing() {
    let world = World::new().await;
    let (order, ids) = world.failed_order().await;
    let body = json!({ "filter": { "aggregateId": order }, "dryRun": true });
    let dry = world.post_op(REDRIVE, &body).await.expect(200, "00000").data;
    assert_eq!((&dry["dryRun"], &dry["matched"], &dry["redriven"]), (&json!(true), &json!(2), &json!(0)));
    assert_eq!(world.get_ops_data(&format!("outbox/{}", ids[0])).await["status"], "FAILED");
    assert_eq!(world.audited_changes().await, [json!(null); 0]);
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
        let response = world.post_op(REDRIVE, &json!({ "filter": filter })).await.expect(200, "00000");
        assert_eq!(response.data["redriven"], count, "{filter}");
    }
    let other = json!({ "filter": { "tenantId": 2 } });
    world.post_op(REDRIVE, &other).await.expect(404, "A0404");
}

#[tokio::test(start_paused = true)]
async fn redrive_with_invalid_fields_reports_every_field() {
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
        let request = world.post(REDRIVE).token(&world.operator_token()).json(body);
        assert_eq!(request.send().await.expect(400, "A0400").wrong_fields(), fields, "{body}");
    }
    assert_eq!(world.get_ops_data("outbox?status=FAILED").await["items"].as_array().unwrap().len(), 2);
    assert_eq!(world.audited_changes().await, [json!(null); 0]);
    let max_ids: Vec<String> = (0..900).map(|number| format!("e-{number}")).collect();
    let largest = json!({ "eventIds": max_ids, "perSecond": 10_000, "reason": "字".repeat(500) });
    let response = world.post_op(REDRIVE, &largest).await.expect(200, "00000");
    assert_eq!(response.data["notFound"].as_array().unwrap().len(), 900);
    let negative = json!({ "filter": { "aggregateId": -3, "from": "2026-01-31T08:00:00+08:00" } });
    assert_eq!(world.post_op(REDRIVE, &negative).await.expect(200, "00000").data["matched"], 0);
    assert!(order > 0);
}

#[tokio::test(start_paused = true)]
async fn blocked_aggregate_is_listed_until_released() {
    let world = World::with_hold().await;
    let (order, ids) = world.failed_order().await;
    let page = world.get_ops_data("blocked").await;
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
    let other_tenant = world.token(OTHER_USER, 2, &[Role::Operator]);
    world.post(&release).token(&other_tenant).send().await.expect(404, "A0404");
    let other = json!({ "tenantId": 1 }).to_string();
    world.post(&release).token(&other_tenant).json(other).send().await.expect(404, "A0404");
    for (body, fields) in [
        (r#"{"reason":7,"tenantId":"1"}"#, ["reason", "tenantId"].as_slice()),
        (r#"{"force":true}"#, &["force"]),
        ("[]", &["body"]),
    ] {
        let request = world.post(&release).token(&world.operator_token()).json(body);
        assert_eq!(request.send().await.expect(400, "A0400").wrong_fields(), fields, "{body}");
    }
    let response = world.post(&release).token(&world.operator_token()).send().await.expect(200, "00000");
    let released = response.data["released"].as_u64().unwrap();
    assert_eq!(
        response.data,
        json!({ "aggregateType": "Order", "aggregateId": order, "released": released })
    );
    assert!(released >= 1);
    assert_eq!(world.get_ops_data("blocked").await["items"], json!([]));
    let again = world.post(&release).token(&world.operator_token()).send().await.expect(404, "A0404");
    assert_eq!(again.message, "no such blocked aggregate");
    assert_eq!(world.audited_changes().await.len(), 1);
    for path in ["Order/x", "Order/+1", "Order/01", "Order/9223372036854775808", "%FF/1", "Payment/-1"] {
        let path = format!("/api/v1/ops/blocked/{path}/release");
        world.post(&path).token(&world.operator_token()).send().await.expect(404, "A0404");
    }
}

#[tokio::test(start_paused = true)]
async fn on_failed_continue_lists_no_blocked_aggregate_and_release_is_409() {
    let world = World::new().await;
    let (order, _) = world.failed_order().await;
    assert_eq!(world.get_ops_data("blocked").await, json!({ "items": [], "nextCursor": null }));
    assert_eq!(world.get_ops_data("stats").await["blocked"], json!({ "aggregates": 0, "more": false }));
    let release = format!("/api/v1/ops/blocked/Order/{order}/release");
    let refused = world.post(&release).token(&world.operator_token()).send().await.expect(409, "A0409");
    assert_eq!(refused.message, "failed events do not block later events in this service");
    assert_eq!(world.audited_changes().await, [json!(null); 0]);
    world.post(&release).token(&world.token(OTHER_USER, 1, &[Role::User])).send().await.expect(403, "A0303");
}
