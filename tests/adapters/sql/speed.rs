//! How long the hot statements take on SQLite:
//! `cargo test --release -p handover-tests --test adapters -- --ignored --nocapture speed`.

use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use chrono::Utc;
use handover_contract::samples::{due_at, unordered};
use handover_events::{ConsumeStatus, OutboxStatus, TenantId};
use handover_outbox::ports::{
    Broker, ConsumedFilter, Consumption, DueQuery, Expected, FailedPublish, Message, OnFailed, OutboxRow,
    Outgoing, PublishOutcome, Store,
};
use handover_sql::DatabaseBroker;
use marketplace::queues::{self, INVENTORY_QUEUE};
use marketplace_sql::SqlMarket;

use super::{append, event, fixture};

const WINDOW: u32 = 200;

async fn due(store: &SqlMarket) -> (Vec<OutboxRow>, Duration) {
    let mut view = store.view().await.unwrap();
    let start = Instant::now();
    let rows = view
        .outbox_view()
        .outbox_due(&DueQuery { on_failed: OnFailed::Hold, limit: WINDOW, ..due_at(Utc::now()) })
        .await
        .unwrap();
    (rows, start.elapsed())
}

fn outgoing(row: &OutboxRow) -> Outgoing {
    let message = Message {
        message_id: Some(row.event_id.to_string()),
        body: row.payload.clone(),
        ..Message::default()
    };
    Outgoing::new(row.event_id.clone(), "order.created".into(), message)
}

async fn fill(store: &SqlMarket, events: i64) {
    for chunk in 0..events / 200 {
        let events: Vec<_> =
            (0..200).map(|i| chunk * 200 + i).map(|i| event(&format!("e{i}"), i, 1)).collect();
        append(store, &events).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: prints how long the hot statements take"]
async fn a_window_is_fast_behind_a_backlog() {
    let fixture = fixture().await;
    let store = &fixture.store;
    let start = Instant::now();
    fill(store, 20_000).await;
    println!("append: {:?} per 200 rows", start.elapsed() / 100);
    let start = Instant::now();
    for i in 0..500 {
        append(store, &[event(&format!("single{i}"), 1_000_000 + i, 1)]).await.unwrap();
    }
    println!("append: {:?} per unit of one row", start.elapsed() / 500);
    let broker = DatabaseBroker::new(store);
    broker.declare(&queues::topology(Duration::from_secs(60))).await.unwrap();
    let (mut looked, mut published, mut marked) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let (rows, took) = due(store).await;
        if rows.is_empty() {
            break;
        }
        looked.push(took);
        let start = Instant::now();
        let outcomes = broker.publish(rows.iter().map(outgoing).collect()).await.unwrap();
        published.push(start.elapsed());
        let confirmed: Vec<_> = outcomes
            .iter()
            .filter_map(|outcome| match outcome {
                PublishOutcome::Confirmed(confirmed) => Some(confirmed),
                PublishOutcome::Returned { .. }
                | PublishOutcome::Nacked { .. }
                | PublishOutcome::Unknown { .. } => None,
            })
            .collect();
        let start = Instant::now();
        let mut unit = store.begin().await.unwrap();
        assert_eq!(unit.outbox().mark_sent(&confirmed, Utc::now()).await.unwrap(), confirmed.len() as u64);
        unit.commit().await.unwrap();
        marked.push(start.elapsed());
    }
    for (what, mut times) in [("due", looked), ("publish", published), ("mark", marked)] {
        times.sort();
        println!("{what}: median {:?}, worst {:?} per 200", times[times.len() / 2], times[times.len() - 1]);
    }
    let subscription = broker.subscribe(INVENTORY_QUEUE, NonZeroU16::new(20).unwrap()).await.unwrap();
    let start = Instant::now();
    for _ in 0..500 {
        let tags: Vec<_> = subscription.next().await.unwrap().iter().map(|delivery| delivery.tag).collect();
        subscription.ack(&tags).await.unwrap();
    }
    println!("claim and ack: {:?} per 20", start.elapsed() / 500);
}

#[tokio::test]
#[ignore = "long: prints how long the hot statements take"]
async fn rows_that_are_held_back_delay_nobody() {
    for aggregates in [1, 10_000] {
        let fixture = fixture().await;
        let store = &fixture.store;
        let blockers: Vec<_> = (0..aggregates).map(|i| event(&format!("blocker{i}"), i, 1)).collect();
        append(store, &blockers).await.unwrap();
        let held: Vec<_> = (0..10_000).map(|i| event(&format!("held{i}"), i % aggregates, 2 + i)).collect();
        append(store, &held).await.unwrap();
        let free: Vec<_> = (0..200).map(|i| event(&format!("free{i}"), 100_000 + i, 1)).collect();
        append(store, &free).await.unwrap();
        let failed: Vec<_> = blockers
            .iter()
            .map(|event| FailedPublish {
                event_id: event.event_id.clone(),
                status: OutboxStatus::Retry,
                retry_count: 1,
                next_retry_time: Some(Utc::now() + chrono::Duration::hours(1)),
                error: "away".into(),
            })
            .collect();
        let mut unit = store.begin().await.unwrap();
        let start = Instant::now();
        assert_eq!(unit.outbox().mark_failed(&failed, Utc::now()).await.unwrap(), failed.len() as u64);
        println!("mark failed: {:?} for {}", start.elapsed(), failed.len());
        unit.commit().await.unwrap();
        for _ in 0..3 {
            let (rows, took) = due(store).await;
            assert_eq!(rows.len(), 200);
            println!("10,000 held of {aggregates} aggregates: {took:?}");
        }
    }
}

fn consumption(consumer: &str, number: i64) -> Consumption {
    let event = event(&format!("e{number}"), number, 1);
    Consumption {
        consumer: consumer.to_owned(),
        event_id: event.event_id,
        event_type: event.event_type,
        aggregate: event.aggregate,
        aggregate_seq: 1,
        expected: Expected::Absent,
        status: ConsumeStatus::Success,
        attempts: 1,
        next_retry_time: None,
        lease_until: None,
        error_message: None,
        idempotency_key: None,
        consume_result: None,
        payload_hash: "ab".repeat(32),
        trace_id: "trace".into(),
        cost_ms: 3,
        consume_time: event.occurred_at,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: prints how long the hot statements take"]
async fn what_operators_ask_of_a_long_history() {
    let fixture = fixture().await;
    let store = &fixture.store;
    fill(store, 100_000).await;
    let all_sent = "UPDATE outbox_events SET status = 'SENT', sent_time = create_time";
    sqlx::Executor::execute(&mut fixture.outside().await, all_sent).await.unwrap();
    let mut recorded = Vec::new();
    for chunk in 0..500 {
        let consumer = if chunk % 2 == 0 { "inventory" } else { "webhooks" };
        let rows: Vec<_> = (0..200).map(|i| consumption(consumer, chunk * 200 + i)).collect();
        let start = Instant::now();
        let mut unit = store.begin().await.unwrap();
        unit.outbox().record(&rows).await.unwrap();
        unit.commit().await.unwrap();
        recorded.push(start.elapsed());
    }
    recorded.sort();
    println!("record: median {:?} per 200", recorded[250]);
    let mut view = store.view().await.unwrap();
    for tenant in [None, Some(TenantId::DEFAULT)] {
        let start = Instant::now();
        view.outbox_view().outbox_counts(tenant).await.unwrap();
        let counted = start.elapsed();
        view.outbox_view().consume_counts(tenant).await.unwrap();
        let log = start.elapsed() - counted;
        view.outbox_view().blocked_page(&unordered(), tenant, None, 100).await.unwrap();
        let blocked = start.elapsed() - counted - log;
        println!("100,000 of {tenant:?}: outbox counts {counted:?}, log counts {log:?}, blocked {blocked:?}");
        let dead = ConsumedFilter { tenant, status: Some(ConsumeStatus::Dead), ..ConsumedFilter::default() };
        let start = Instant::now();
        assert!(view.outbox_view().consumed_page(&dead, None, 100).await.unwrap().is_empty());
        println!("a page of the dead, of which there are none: {:?}", start.elapsed());
    }
}
