//! `outbox redrive|blocked|release`, `audit list`: directly on the database.

use std::path::Path;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use handover_events::*;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::*;
use handover_sql::{SqlStore, SqliteOptions};
use handover_system::SystemClock;
use marketplace::ports::*;
use marketplace_sql::SqlMarket;
use serde_json::{Value, json};

use crate::program::World;

impl World {
    pub(crate) async fn store(&self) -> SqlMarket {
        open(&self.path("handover.db")).await
    }

    /// Runs `work` in a unit of work.
    pub(crate) async fn change(&self, work: impl AsyncFnOnce(&mut Work)) {
        change(&self.path("handover.db"), work).await;
    }

    /// Appends a FAILED event of order 7.
    async fn add_failed_event(&self, id: &str) {
        let now = SystemClock.now();
        let row = event_of(id, 7, 1, now);
        let failed = failed_publish(&row.event_id);
        self.change(async move |unit| {
            unit.outbox().append(&[row]).await.unwrap();
            assert_eq!(unit.outbox().mark_failed(&[failed], now).await.unwrap(), 1);
        })
        .await;
    }

    fn event(&self, id: &str) -> Value {
        self.run(&format!("outbox show {id} --output json")).json()
    }
}

pub(crate) async fn open(database: &Path) -> SqlMarket {
    let options = SqliteOptions::file(database.to_owned());
    SqlMarket::on(
        SqlStore::open_sqlite(&options, Arc::new(SystemClock), WakeupNotifier::default()).await.unwrap(),
    )
}

/// Runs `work` in a unit of work on this database file.
pub(crate) async fn change(database: &Path, work: impl AsyncFnOnce(&mut Work)) {
    let store = open(database).await;
    let mut unit = store.begin().await.unwrap();
    work(unit.as_mut()).await;
    unit.commit().await.unwrap();
    store.close().await;
}

pub(crate) fn event_of(id: &str, order: i64, seq: i64, now: DateTime<Utc>) -> NewEvent {
    NewEvent {
        event_id: id.parse().unwrap(),
        event_type: "ORDER_STATUS_CHANGED".into(),
        aggregate: AggregateRef { tenant: TenantId::DEFAULT, kind: "Order".into(), id: order.into() },
        aggregate_seq: Some(seq),
        payload: format!(r#"{{"orderId":{order}}}"#),
        metadata: EventMetadata::default(),
        occurred_at: now,
        max_retry_count: 3,
        idle_consumers: IdleConsumers::default(),
        routing_key: None,
        due: None,
    }
}

pub(crate) fn failed_publish(event: &EventId) -> FailedPublish {
    FailedPublish {
        event_id: event.clone(),
        status: OutboxStatus::Failed,
        retry_count: 4,
        next_retry_time: None,
        error: "消息发送失败: NO_ROUTE".into(),
    }
}

#[tokio::test]
async fn redrive_by_id_or_filter_is_recorded_with_its_actor() {
    let world = World::new().set("USER", "eve").set("SUDO_USER", "ada");
    world.run("migrate").done();
    for id in ["e-1", "e-2", "e-3"] {
        world.add_failed_event(id).await;
    }
    let dry = world.run("outbox redrive --status failed --dry-run --output json").json();
    assert_eq!((&dry["matched"], &dry["redriven"], &dry["dryRun"]), (&json!(3), &json!(0), &json!(true)));
    assert_eq!(world.event("e-1")["status"], "FAILED");
    let named = world.run("outbox redrive e-2 e-1 --per-second 1 --reason corrected --output json");
    named.done();
    assert_eq!((&named.json()["redriven"], &named.json()["more"]), (&json!(2), &json!(false)));
    assert_eq!(world.event("e-1")["nextRetryTime"], named.json()["firstDue"]);
    assert_eq!(world.event("e-2")["nextRetryTime"], named.json()["lastDue"]);
    let table = world.run(
        "outbox redrive --event-type ORDER_STATUS_CHANGED --aggregate-type Order --aggregate-id 7 --tenant 1",
    );
    let lines: Vec<&str> = table.done().lines().collect();
    assert_eq!(lines[..4], ["dryRun      false", "matched     1", "redriven    1", "skipped     0"]);
    let audit = world.run("audit list --output json").json();
    let calls: Vec<_> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["action"].as_str().unwrap(), entry["matched"].clone(), entry["changed"].clone()))
        .collect();
    let redrive = "outbox.redrive";
    let show = ("outbox.show", json!(1), json!(0));
    assert_eq!(
        calls,
        [
            (redrive, json!(1), json!(1)),
            show.clone(),
            show.clone(),
            (redrive, json!(2), json!(2)),
            show,
            (redrive, json!(3), json!(0))
        ]
    );
    assert_eq!(audit["items"][5]["selection"]["dryRun"], true);
    let entry = &audit["items"][3];
    assert_eq!(
        (&entry["action"], &entry["reason"], &entry["changed"]),
        (&json!("outbox.redrive"), &json!("corrected"), &json!(2))
    );
    let actor = entry["actor"].as_str().unwrap();
    assert!(actor.starts_with("command-line:") && actor.ends_with(" (SUDO_USER ada)"), "{actor}");
    assert!(!actor.contains("eve"), "the caller can choose the variable USER: {actor}");
    assert_eq!(entry["selection"], json!({ "eventIds": ["e-2", "e-1"], "perSecond": 1 }));
    assert!(world.run("audit list").done().contains("(SUDO_USER ada)"));
}

#[tokio::test]
async fn redrive_of_sent_events_continues_until_rows_match_and_prints_the_cursor_for_the_rest() {
    let world = World::new();
    world.run("migrate").done();
    let now = SystemClock.now();
    let paid = NewEvent { event_type: "ORDER_PAID".to_owned(), ..event_of("e-2", 8, 1, now) };
    world.change(async |unit| unit.outbox().append(&[event_of("e-1", 7, 1, now), paid]).await.unwrap()).await;
    let store = world.store().await;
    let mut unit = SqlStore::begin(&store).await.unwrap();
    // More than the 100,000 ids that one call searches are between the two rows.
    let sent = "UPDATE outbox_events SET status = 'SENT', sent_time = create_time, \
                id = CASE event_id WHEN 'e-1' THEN 1 ELSE 200002 END";
    unit.execute(sent, Vec::new()).await.unwrap();
    unit.commit().await.unwrap();
    store.close().await;
    let redrive = |arguments: &str| {
        let ran = world.run(&format!("outbox redrive --status sent --output json {arguments}"));
        let result = ran.json();
        (result["matched"].clone(), result["nextCursor"].clone(), ran.stderr)
    };
    let none = |matched: u8, stderr: &str| (json!(matched), Value::Null, stderr.to_owned());
    assert_eq!(redrive("--event-type ORDER_PAID --dry-run"), none(1, ""));
    let first = redrive("--event-type ORDER_STATUS_CHANGED");
    let rest = "rows remain: continue with --cursor 200001\n";
    assert_eq!(first, (json!(1), json!("200001"), rest.to_owned()));
    assert_eq!(redrive("--event-type ORDER_STATUS_CHANGED --cursor 200001"), none(0, "no rows match\n"));
    let audit = world.run("audit list --output json").json();
    let cursors: Vec<_> =
        audit["items"].as_array().unwrap().iter().map(|entry| &entry["selection"]["cursor"]).collect();
    assert_eq!(cursors, [&json!(200_001), &Value::Null, &json!(200_001), &Value::Null]);
}

#[tokio::test]
async fn unknown_id_exits_with_1_and_filter_without_matches_with_0() {
    let world = World::new().set("HANDOVER_OUTBOX__ON_FAILED", "hold");
    world.run("migrate").done();
    world.add_failed_event("e-1").await;
    let some = world.run("outbox redrive e-1 no-such nor-this --output json");
    assert_eq!((some.code, &some.json()["redriven"]), (Some(1), &json!(1)), "{some:?}");
    assert!(some.stderr.contains("error: not found in handover.db: event no-such, nor-this"), "{some:?}");
    for (command, what) in [
        ("dlq replay no-such", "dead letter no-such"),
        ("dlq discard no-such --reason r", "dead letter no-such"),
    ] {
        let ran = world.run(command);
        assert_eq!(ran.code, Some(1), "{ran:?}");
        assert!(ran.stderr.contains(&format!("error: not found in handover.db: {what}")), "{ran:?}");
        assert!(ran.stderr.contains("see `handover dlq list`"), "{ran:?}");
    }
    world.run("outbox release Order 8").refused(
        1,
        &[
            "error: not found in handover.db: failed event of Order 8 that blocks later events",
            "see `handover outbox blocked`",
        ],
    );
    world.run("order timeline 404").refused(1, &["error: not found in handover.db: order 404"]);
    for command in [
        "outbox redrive --status sent",
        "dlq replay --all",
        "dlq discard --queue inventory.update.queue --reason r",
    ] {
        let ran = world.run(command);
        ran.done();
        assert_eq!(ran.stderr, "no rows match\n", "{command}");
    }
    let audit = world.run("audit list --changes --output json").json();
    assert_eq!(audit["items"].as_array().unwrap().len(), 1, "{audit}");
}

#[tokio::test]
async fn operations_without_selection_or_with_too_many_ids_are_usage_errors() {
    let world = World::new();
    world.run("outbox redrive").refused(2, &["error: name events, or a filter such as --status failed"]);
    world.run("outbox redrive --status new").refused(2, &["--status must be failed or sent"]);
    let many: String = (0..=900).map(|number| format!(" e-{number}")).collect();
    world.run(&format!("outbox redrive{many}")).refused(2, &["at most 900 events can be named at a time"]);
    world.run(&format!("dlq replay{many}")).refused(2, &["at most 900 dead letters can be named at a time"]);
}

#[tokio::test]
async fn blocked_order_is_listed_until_released() {
    let world = World::new().set("HANDOVER_OUTBOX__ON_FAILED", "hold");
    world.run("migrate").done();
    world.add_failed_event("e-1").await;
    let blocked = world.run("outbox blocked --output json").json();
    assert_eq!(blocked["items"][0]["aggregateId"], 7);
    let table = world.run("outbox blocked --tenant 1");
    assert!(table.done().starts_with("aggregateType  aggregateId  tenantId  eventType"), "{table:?}");
    assert_eq!(world.run("outbox blocked --tenant 2 --output json").json()["items"], json!([]));
    let released = world.run("outbox release Order 7 --reason refunded --output json").json();
    assert_eq!(released, json!({ "aggregateType": "Order", "aggregateId": 7, "released": 1 }));
    assert_eq!(world.run("outbox blocked --output json").json()["items"], json!([]));
    let event = world.event("e-1");
    assert_eq!((&event["status"], event["releasedTime"].is_string()), (&json!("FAILED"), true));
    world.run("outbox release Order 7").refused(1, &["failed event of Order 7"]);
}

#[tokio::test]
async fn without_hold_no_event_is_blocked_and_release_is_refused() {
    let world = World::new();
    world.run("migrate").done();
    world.add_failed_event("e-1").await;
    assert_eq!(world.run("outbox blocked --output json").json()["items"], json!([]));
    let parts = ["failed events do not block later events in this service", "nothing was changed"];
    world.run("outbox release Order 7").refused(1, &parts);
    assert_eq!(world.event("e-1")["releasedTime"], Value::Null);
}

#[tokio::test]
async fn replay_is_refused_with_memory_broker_and_other_operations_work() {
    let world = World::new().set("HANDOVER_BROKER__URL", "memory:");
    world.run("migrate").done();
    world.run("dlq replay --all").refused(2, &["broker.url = \"memory:\"", "POST .../dead-letters/replay"]);
    world.add_failed_event("e-1").await;
    world.run("outbox redrive e-1").done();
    world.run("dlq discard --all --reason r").done();
}
