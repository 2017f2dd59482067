//! `/api/v1/ops/consumptions`, `/stats`, `/audit`.

use handover_outbox::ports::{AlertRecord, Resolution, StatSample, Thousandths};
use handover_outbox::state::ALERTS;
use handover_outbox::with_tx;
use marketplace::Role;
use serde_json::{Value, json};

use crate::world::{OTHER_USER, World};

#[tokio::test(start_paused = true)]
async fn consume_log_is_listed_with_filters() {
    let world = World::new().await;
    let (order, id) = world.dead_order().await;
    let page = world.get_ops_data("consumptions").await;
    let item = &page["items"][0];
    assert_eq!(
        item,
        &json!({
            "consumer": "inventory", "eventId": id, "eventType": "ORDER_CREATED", "aggregateType": "Order",
            "aggregateId": order, "aggregateSeq": 1, "tenantId": 1, "status": "DEAD", "attempts": 4,
            "nextRetryTime": null, "leaseUntil": null, "errorMessage": "out of paper", "idempotencyKey": null,
            "consumeResult": null, "payloadHash": "h", "traceId": item["traceId"], "costMs": 0,
            "consumeTime": "2026-01-31T08:00:00.000000Z"
        })
    );
    let about = format!("?eventId={id}");
    let cases: [(&str, usize); 7] = [
        (&about, 1),
        ("?eventId=no-such", 0),
        ("?consumer=inventory", 1),
        ("?consumer=webhooks", 0),
        ("?status=DEAD", 1),
        ("?status=SUCCESS", 0),
        ("?tenantId=1", 1),
    ];
    for (query, count) in cases {
        let page = world.get_ops_data(&format!("consumptions{query}")).await;
        assert_eq!(page["items"].as_array().unwrap().len(), count, "{query}");
    }
    let wrong = "/api/v1/ops/consumptions?eventId=a%20b&status=dead&tenantId=0&limit=101&queue=q";
    let response = world.get(wrong).token(&world.operator_token()).send().await.expect(400, "A0400");
    assert_eq!(response.wrong_fields(), ["tenantId", "eventId", "status", "limit", "queue"]);
}

#[tokio::test(start_paused = true)]
async fn alerts_are_listed_and_acknowledged_by_an_operator_of_all_tenants() {
    let world = World::new().await;
    let outbox = &world.app.outbox;
    let started = AlertRecord {
        started: Some(outbox.now()),
        value: Thousandths(1_200_000),
        subject: "queue=q".to_owned(),
        ..AlertRecord::new("queue-depth")
    };
    with_tx(&outbox.tx, started, |unit, record, _| {
        Box::pin(async move { unit.outbox().save_alert(record).await })
    })
    .await
    .unwrap();
    let page = world.get_ops_data("alerts").await;
    assert_eq!(page["items"].as_array().unwrap().len(), ALERTS.len() + marketplace::ALERTS.len());
    let active = json!({
        "alert": "queue-depth", "severity": "ticket", "active": true, "startedAt": "2026-01-31T08:00:00.000000Z",
        "endedAt": null, "value": 1200.0, "subject": "queue=q", "limit": "1000", "acknowledged": false,
        "acknowledgedUntil": null, "acknowledgedBy": null, "reason": null, "meaning": ALERTS[0].meaning,
    });
    assert_eq!(page["items"][0], active, "the active one is the first");
    assert_eq!(world.get_ops_data("stats").await["alerts"], json!([active]));
    let acknowledge = "/api/v1/ops/alerts/queue-depth/acknowledge";
    let body = r#"{ "until": "2026-01-31T10:00:00Z", "reason": "known" }"#;
    let own_tenant = world.token(OTHER_USER, 1, &[Role::Operator]);
    world.post(acknowledge).token(&own_tenant).json(body).send().await.expect(403, "A0303");
    let platform = world.token(OTHER_USER, 1, &[Role::Operator, Role::Platform]);
    let wrong = world.post(acknowledge).token(&platform).json(r#"{ "until": "soon" }"#).send().await;
    assert_eq!(wrong.expect(400, "A0400").wrong_fields(), ["until", "reason"]);
    let unknown = "/api/v1/ops/alerts/none/acknowledge";
    world.post(unknown).token(&platform).json(body).send().await.expect(404, "A0404");
    let done = world.post(acknowledge).token(&platform).json(body).send().await.expect(200, "00000").data;
    let expected = [json!(true), json!("2026-01-31T10:00:00.000000Z"), json!("known")];
    assert_eq!(["acknowledged", "acknowledgedUntil", "reason"].map(|name| done[name].clone()), expected);
}

#[tokio::test(start_paused = true)]
async fn history_of_statistics_is_listed_by_metric() {
    let world = World::new().await;
    let outbox = &world.app.outbox;
    let sample = |metric: &str, minutes: i64, mean| StatSample {
        resolution: Resolution::Minute,
        at: outbox.now() - chrono::TimeDelta::minutes(minutes),
        metric: metric.to_owned(),
        labels: "queue=q".to_owned(),
        mean: Thousandths(mean),
        max: Thousandths(9_000),
    };
    let samples =
        vec![sample("a", 90, 1), sample("a", 30, 1_500), sample("a", 20, 2_500), sample("b", 20, 1)];
    with_tx(&outbox.tx, samples, |unit, samples, _| {
        Box::pin(async move { unit.outbox().add_stat_samples(samples).await })
    })
    .await
    .unwrap();
    let point = |at: &str, mean: f64| json!({ "at": at, "mean": mean, "max": 9.0 });
    let values =
        json!([point("2026-01-31T07:30:00.000000Z", 1.5), point("2026-01-31T07:40:00.000000Z", 2.5)]);
    let page = world.get_ops_data("stats/history?metric=a").await;
    assert_eq!(page["items"], json!([{ "metric": "a", "labels": "queue=q", "values": values }]));
    let all = world.get_ops_data("stats/history?since=2026-01-31T06:00:00Z").await;
    let counts: Vec<_> = all["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|series| series["values"].as_array().unwrap().len())
        .collect();
    assert_eq!(counts, [3, 1]);
}

#[tokio::test(start_paused = true)]
async fn stats_show_counts_and_broker_state() {
    let world = World::with_hold().await;
    world.dead_order().await;
    world.failed_order().await;
    tokio::time::advance(std::time::Duration::from_millis(61_900)).await;
    let stats = world.get_ops_data("stats").await;
    let fields: Vec<&str> = stats.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        fields,
        ["outbox", "consumers", "deadLetters", "blocked", "queues", "broker", "recent", "alerts"]
    );
    let times = json!({ "count": 0, "p50Ms": null, "p95Ms": null, "p99Ms": null });
    assert_eq!(stats["recent"], json!({ "publishes": 0, "failedPublishes": 0, "commitToConfirm": times }));
    assert_eq!(stats["alerts"], json!([]));
    assert_eq!(
        stats["outbox"],
        json!({
            "new": 2, "retry": 0, "sent": 0, "moreSent": false, "failed": 2, "oldestPendingSeconds": 61
        })
    );
    let consumers = stats["consumers"].as_array().unwrap();
    assert_eq!(consumers.len(), 9, "{consumers:?}");
    let inventory = consumers.iter().find(|consumer| consumer["consumer"] == "inventory").unwrap();
    let recent = json!({ "attempts": 0, "meanCostMs": null, "maxCostMs": 0, "commitToEffect": times });
    let expected = json!({
        "consumer": "inventory", "processing": 0, "waiting": 0, "success": 0, "moreSuccess": false, "failed": 0, "dead": 1,
        "recent": recent,
    });
    assert_eq!(inventory, &expected);
    assert_eq!(
        (&stats["deadLetters"], &stats["blocked"]),
        (&json!({ "open": 1 }), &json!({ "aggregates": 1, "more": false }))
    );
    let queue = &stats["queues"][0];
    assert_eq!(queue, &json!({ "name": queue["name"], "ready": 0, "unacked": 0, "consumers": 0 }));
    let available = json!({ "state": "AVAILABLE", "since": null, "error": null, "blocked": null });
    assert_eq!(stats["broker"], available);
    world.broker.set_blocked(Some("low on disk"));
    let why = "low on disk";
    let blocked = json!({ "state": "UNAVAILABLE", "since": null, "error": why, "blocked": why });
    assert_eq!(world.get_ops_data("stats").await["broker"], blocked);
    world.broker.set_reachable(false);
    assert_eq!(world.get_ops_data("stats").await["queues"], Value::Null);
    let other_tenant = world.token(OTHER_USER, 2, &[Role::Operator]);
    let other = world.get("/api/v1/ops/stats").token(&other_tenant).send().await.expect(200, "00000").data;
    let none = json!({ "new": 0, "retry": 0, "sent": 0, "moreSent": false, "failed": 0, "oldestPendingSeconds": null });
    assert_eq!((&other["outbox"], &other["deadLetters"]), (&none, &json!({ "open": 0 })));
    world.get("/api/v1/ops/stats?tenantId=1").token(&other_tenant).send().await.expect(404, "A0404");
}

#[tokio::test(start_paused = true)]
async fn audit_log_is_paged_newest_first_and_limited_to_the_tenant() {
    let world = World::new().await;
    for reason in ["first", "second", "third"] {
        let (_, ids) = world.failed_order().await;
        let body = json!({ "eventIds": ids, "reason": reason });
        world.post_op("/api/v1/ops/outbox/redrive", &body).await.expect(200, "00000");
    }
    let reasons = |page: &Value| -> Vec<String> {
        let items = page["items"].as_array().unwrap().iter();
        items.filter_map(|item| item["reason"].as_str().map(str::to_owned)).collect()
    };
    // `failed_order` also reads the outbox as an operator; the audit log contains these reads, without a reason.
    let first = world.get_ops_data("audit?limit=3").await;
    assert_eq!(reasons(&first), ["third", "second"]);
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = world.get_ops_data(&format!("audit?limit=3&cursor={cursor}")).await;
    assert_eq!((reasons(&rest), &rest["nextCursor"]), (vec!["first".to_owned()], &Value::Null));
    let other_tenant = world.token(OTHER_USER, 2, &[Role::Operator]);
    let other = world.get("/api/v1/ops/audit").token(&other_tenant).send().await.expect(200, "00000");
    assert_eq!(other.data["items"], json!([]));
    let platform = world.token(OTHER_USER, 2, &[Role::Platform]);
    let all = world.get("/api/v1/ops/audit?tenantId=1").token(&platform).send().await.expect(200, "00000");
    assert_eq!(reasons(&all.data).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn audit_log_records_each_read_with_selection_and_row_count() {
    let world = World::new().await;
    let (order, ids) = world.failed_order().await;
    let path = format!("/api/v1/ops/outbox?aggregateId={order}&limit=1");
    let sees_personal_data = world.token(OTHER_USER, 1, &[Role::Operator, Role::Pii]);
    let response = world.get(&path).token(&sees_personal_data).header("x-trace-id", "t-1").send().await;
    let cursor = response.expect(200, "00000").data["nextCursor"].as_str().unwrap().to_owned();
    world.get_ops_data(&format!("outbox?aggregateId={order}&status=FAILED&cursor={cursor}")).await;
    world.get_ops_data(&format!("outbox/{}", ids[0])).await;
    let missing = world.get("/api/v1/ops/outbox/no-such").token(&sees_personal_data).send().await;
    missing.expect(404, "A0404");
    let audit = world.get_ops_data("audit?limit=4").await;
    let entries: Vec<Value> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| json!([entry["action"], entry["selection"], entry["matched"], entry["changed"]]))
        .collect();
    let cursor: i64 = cursor.parse().unwrap();
    assert_eq!(
        entries,
        [
            json!(["outbox.show", { "eventId": "no-such", "unmasked": true }, 0, 0]),
            json!(["outbox.show", { "eventId": ids[0] }, 1, 0]),
            json!(["outbox.list", { "aggregateId": order, "status": "FAILED", "tenantId": 1, "cursor": cursor }, 1, 0]),
            json!(["outbox.list", { "aggregateId": order, "tenantId": 1, "unmasked": true }, 1, 0]),
        ]
    );
    let first = &audit["items"][3];
    assert_eq!((&first["actor"], &first["traceId"]), (&json!(format!("user:{OTHER_USER}")), &json!("t-1")));
}
