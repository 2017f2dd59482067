//! `dlq replay|discard`, `order timeline`: while a process serves the same database.

use handover_events::*;
use handover_outbox::ports::*;
use handover_system::SystemClock;
use marketplace::ports::*;
use marketplace_domain::*;
use serde_json::{Value, json};

use crate::inspect::market;
use crate::program::{World, eventually};
use crate::redrive::{event_of, failed_publish};

const QUEUE: &str = "order.status.sync.queue";

/// Parks an event of order 1 as a dead letter of its consumer. No message carries the event.
async fn park_event(world: &World, id: &str) {
    let store = world.store().await;
    let mut view = store.view().await.unwrap();
    let filter = OutboxFilter {
        event_type: Some("ORDER_CREATED".into()),
        aggregate_id: Some(1.into()),
        ..Default::default()
    };
    let created = view.outbox_view().outbox_page(&filter, None, 1).await.unwrap().remove(0);
    let order = view.order_by_id(TenantId::DEFAULT, 1.try_into().unwrap()).await.unwrap().unwrap();
    drop(view);
    store.close().await;
    let facts: Value = serde_json::from_str(&created.payload).unwrap();
    let now = SystemClock.now();
    let payload = json!({
        "orderId": 1, "orderNo": facts["orderNo"], "buyerId": 2, "sellerId": 1, "totalAmount": facts["totalAmount"],
        "oldStatus": "paid", "newStatus": "shipped", "changedAt": "2026-01-31T08:00:00Z"
    });
    let event: EventId = id.parse().unwrap();
    let row = NewEvent { payload: payload.to_string(), ..event_of(id, 1, 100, now) };
    let consumption = Consumption {
        consumer: "status-sync".into(),
        event_id: event.clone(),
        event_type: row.event_type.clone(),
        aggregate: row.aggregate.clone(),
        aggregate_seq: row.aggregate_seq.unwrap_or_default(),
        expected: Expected::Absent,
        status: ConsumeStatus::Dead,
        attempts: 4,
        next_retry_time: None,
        lease_until: None,
        error_message: Some("out of paper".into()),
        idempotency_key: None,
        consume_result: None,
        payload_hash: String::new(),
        trace_id: "t".into(),
        cost_ms: 0,
        consume_time: now,
    };
    let dead_letter = DeadLetter {
        queue: QUEUE.into(),
        key: id.into(),
        tenant: TenantId::DEFAULT,
        event_type: Some(row.event_type.clone()),
        trace_id: None,
        body: payload.to_string(),
        reason: "out of paper".into(),
        died_at: now,
        status: DeadLetterStatus::Open,
        decided_at: None,
        note: None,
    };
    world
        .change(async move |unit| {
            ship(unit, order).await;
            unit.outbox().append(&[row]).await.unwrap();
            // The row becomes FAILED, so that the running relay does not publish it.
            assert_eq!(unit.outbox().mark_failed(&[failed_publish(&event)], now).await.unwrap(), 1);
            unit.outbox().record(&[consumption]).await.unwrap();
            unit.outbox().park(&[dead_letter]).await.unwrap();
        })
        .await;
}

/// Ships the order without an event, so that only the parked event announces the shipment.
async fn ship(unit: &mut Work, order: Order) {
    if order.status != OrderStatus::Pending {
        return;
    }
    let now = SystemClock.now();
    let (paid, _) = order.apply(&OrderAction::Pay, OrderActor::System, now).unwrap();
    assert_eq!(unit.advance_order(&paid).await.unwrap(), Changed::One);
    let shipment = Shipment::new("SF".into(), "SF1".into()).unwrap();
    let (shipped, _) = paid.apply(&OrderAction::Ship(shipment), OrderActor::Seller, now).unwrap();
    assert_eq!(unit.advance_order(&shipped).await.unwrap(), Changed::One);
}

#[tokio::test]
async fn replayed_dead_letter_is_applied_by_serving_process_without_waiting_for_a_sweep() {
    let world = World::new().set("HANDOVER_CONSUMER__SWEEP_INTERVAL", "1h");
    let _server = market(&world);
    park_event(&world, "e-1").await;
    let dry = world.run(&format!("dlq replay --queue {QUEUE} --dry-run --output json")).json();
    assert_eq!((&dry["matched"], &dry["replayed"]), (&json!(1), &json!(0)));
    let answer = world.run("dlq replay e-1 --reason corrected --output json");
    answer.done();
    let result = answer.json()["results"][0].clone();
    assert_eq!(
        answer.json(),
        json!({
            "dryRun": false, "matched": 1, "replayed": 1, "refused": [], "notFound": [], "more": false, "results": [result]
        })
    );
    assert_eq!(
        (&result["eventId"], &result["consumer"], &result["result"]),
        (&json!("e-1"), &json!("status-sync"), &json!("APPLIED")),
        "the command waits for the result"
    );
    let notifications = || {
        let timeline = world.run("order timeline 1 --output json").json();
        let items = timeline["items"].as_array().unwrap().clone();
        items.iter().filter(|item| item["what"] == "buyer notified: paid -> shipped").count()
    };
    eventually(|| notifications() == 1);
    let page = world.run("dlq list --output json").json();
    let shown = world.run("dlq show e-1 --output json").json();
    assert_eq!(shown, page["items"][0]);
    assert_eq!((&shown["status"], &shown["note"]), (&json!("REPLAYED"), &json!("corrected")));
    assert_eq!(world.run("dlq show e-1 --queue inventory.update.queue").code, Some(1));
    assert_eq!(world.run("dlq show e-1 --queue no.queue").code, Some(2));
    let missing = world.run("dlq show e-9");
    assert_eq!(missing.code, Some(1), "{missing:?}");
    assert!(missing.stderr.contains("dead letter e-9"), "{missing:?}");
    for (period, count) in [("--from 2020-01-01T00:00:00Z", 1), ("--to 2020-01-01T00:00:00Z", 0)] {
        for list in ["dlq list", "consumptions --event-id e-1 --consumer status-sync", "audit list --limit 1"]
        {
            let page = world.run(&format!("{list} {period} --output json")).json();
            assert_eq!(page["items"].as_array().unwrap().len(), count, "{list} {period}: {page}");
        }
    }
    let replay = world.run("dlq replay --to 2020-01-01T00:00:00Z --dry-run --output json").json();
    assert_eq!(replay["matched"], json!(0));
    let log = world.run("consumptions --status success --event-id e-1 --output json").json();
    assert_eq!(
        (&log["items"][0]["consumer"], &log["items"][0]["attempts"]),
        (&json!("status-sync"), &json!(1))
    );
    let again = world.run("dlq replay e-1");
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.stdout.contains("the dead letter was already replayed"), "{again:?}");
    assert!(again.stderr.contains("error: 1 of 1 dead letters was not replayed"), "{again:?}");
    assert_eq!(notifications(), 1);
    let table = world.run("order timeline 1");
    assert!(table.done().starts_with("time "), "{table:?}");
    assert!(table.stdout.contains("command-line:"), "the replay names its operator: {table:?}");
    let table = world.run("order timeline 1 --wide");
    for part in
        ["order placed", "parked as dead letter", "replayed by an operator", "replay confirmed by the broker"]
    {
        assert!(table.done().contains(part), "no {part}: {table:?}");
    }
}

#[tokio::test]
async fn discarded_dead_letter_keeps_its_reason_and_commands_print_the_api_responses() {
    let world = World::new();
    let server = market(&world);
    park_event(&world, "e-1").await;
    park_event(&world, "e-2").await;
    assert_eq!(world.run("dlq discard e-1").code, Some(2), "a reason is required");
    let answer = world.run("dlq discard e-1 --reason duplicate --output json").json();
    assert_eq!(
        answer,
        json!({ "dryRun": false, "matched": 1, "discarded": 1, "refused": [], "notFound": [], "more": false })
    );
    let again = world.run("dlq discard e-1 e-2 --dry-run --reason duplicate");
    assert_eq!(again.code, Some(1), "a dry run has the exit code of the real call: {again:?}");
    assert!(again.stdout.contains("the dead letter was discarded\n"), "{again:?}");
    assert!(again.stderr.contains("error: 1 of 2 dead letters cannot be discarded"), "{again:?}");
    let again = world.run("dlq discard e-1 --reason duplicate");
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.stdout.contains("the dead letter was discarded\n"), "{again:?}");
    assert!(again.stderr.contains("error: 1 of 1 dead letters was not discarded"), "{again:?}");
    let rest = world.run("dlq discard --event-type ORDER_STATUS_CHANGED --reason too_late");
    assert!(rest.done().contains("discarded  1\n"), "{rest:?}");
    let page = world.run("dlq list --status discarded --output json").json();
    let notes: Vec<&Value> = page["items"].as_array().unwrap().iter().map(|item| &item["note"]).collect();
    assert_eq!(notes, ["too_late", "duplicate"]);
    let operator = world.token("--user 9 --role operator --role pii");
    for (query, command) in [
        ("dead-letters", "dlq list"),
        ("dead-letters?status=DISCARDED&limit=1", "dlq list --status discarded --limit 1"),
        ("audit?changes=true", "audit list --changes"),
        ("blocked", "outbox blocked"),
    ] {
        let response = server.ask(&operator, &format!("GET /api/v1/ops/{query}"), "");
        assert_eq!(world.run(&format!("{command} --output json")).json(), response, "{command}");
    }
    let response = server.ask(&operator, "GET /api/v1/ops/orders/1/timeline", "");
    assert_eq!(world.run("order timeline 1 --output json").json(), response);
    assert_eq!(world.run("order timeline 1 --tenant 2").code, Some(1));
}
