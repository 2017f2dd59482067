//! Duration of the hot statements on SQLite. Run with:
//! `cargo test --release -p handover-tests --test adapters -- --ignored --nocapture speed`.

use std::num::NonZeroU16;
use std::time::{Duration, Instant};

use chrono::Utc;
use handover_contract::samples::{due_at, unordered};
use handover_events::{ConsumeStatus, OutboxStatus, TenantId};
use handover_outbox::operations::MAX_IDS_COUNTED;
use handover_outbox::ports::{
    Broker, ConsumedFilter, Consumption, DueQuery, Expected, FailedPublish, Message, OnFailed, OutboxRow,
    Outgoing, PublishOutcome, Store,
};
use handover_sql::DatabaseBroker;
use marketplace::consumers::{self, INVENTORY_QUEUE};
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
    (rows.rows, start.elapsed())
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
#[ignore = "slow: prints the duration of the hot statements"]
async fn duration_of_publishing_and_consuming_a_backlog_is_printed() {
    let fixture = fixture().await;
    let store = &fixture.store;
    let start = Instant::now();
    fill(store, 20_000).await;
    println!("append: {:?} per 200 rows", start.elapsed() / 100);
    let start = Instant::now();
    for i in 0..500 {
        append(store, &[event(&format!("single{i}"), 1_000_000 + i, 1)]).await.unwrap();
    }
    println!("append: {:?} per unit of work with one row", start.elapsed() / 500);
    let broker = DatabaseBroker::new(store);
    broker.declare(&consumers::topology(Duration::from_secs(60))).await.unwrap();
    let mut query_times = Vec::new();
    let mut publish_times = Vec::new();
    let mut mark_times = Vec::new();
    loop {
        let (rows, duration) = due(store).await;
        if rows.is_empty() {
            break;
        }
        query_times.push(duration);
        let start = Instant::now();
        let outcomes = broker.publish(rows.iter().map(outgoing).collect()).await.unwrap();
        publish_times.push(start.elapsed());
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
        mark_times.push(start.elapsed());
    }
    let measurements = [("due", query_times), ("publish", publish_times), ("mark", mark_times)];
    for (statement, mut times) in measurements {
        times.sort();
        println!(
            "{statement}: median {:?}, worst {:?} per 200 rows",
            times[times.len() / 2],
            times[times.len() - 1]
        );
    }
    let subscription = broker.subscribe(INVENTORY_QUEUE, NonZeroU16::new(20).unwrap()).await.unwrap();
    let start = Instant::now();
    for _ in 0..500 {
        let tags: Vec<_> = subscription.next().await.unwrap().iter().map(|delivery| delivery.tag).collect();
        subscription.ack(&tags).await.unwrap();
    }
    println!("claim and ack: {:?} per 20 messages", start.elapsed() / 500);
}

#[tokio::test]
#[ignore = "slow: prints the duration of the hot statements"]
async fn duration_of_query_for_due_rows_behind_10000_blocked_rows_is_printed() {
    for aggregates in [1, 10_000] {
        let fixture = fixture().await;
        let store = &fixture.store;
        let blockers: Vec<_> = (0..aggregates).map(|i| event(&format!("blocker{i}"), i, 1)).collect();
        append(store, &blockers).await.unwrap();
        let blocked: Vec<_> =
            (0..10_000).map(|i| event(&format!("blocked{i}"), i % aggregates, 2 + i)).collect();
        append(store, &blocked).await.unwrap();
        let free: Vec<_> = (0..200).map(|i| event(&format!("free{i}"), 100_000 + i, 1)).collect();
        append(store, &free).await.unwrap();
        let failed: Vec<_> = blockers
            .iter()
            .map(|event| FailedPublish {
                event_id: event.event_id.clone(),
                status: OutboxStatus::Retry,
                retry_count: 1,
                next_retry_time: Some(Utc::now() + chrono::Duration::hours(1)),
                error: "broker unreachable".into(),
            })
            .collect();
        let mut unit = store.begin().await.unwrap();
        let start = Instant::now();
        assert_eq!(unit.outbox().mark_failed(&failed, Utc::now()).await.unwrap(), failed.len() as u64);
        println!("mark failed: {:?} for {} rows", start.elapsed(), failed.len());
        unit.commit().await.unwrap();
        for _ in 0..3 {
            let (rows, duration) = due(store).await;
            assert_eq!(rows.len(), 200);
            println!("query for due rows, 10,000 blocked rows of {aggregates} aggregates: {duration:?}");
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
#[ignore = "slow: prints the duration of the hot statements"]
async fn duration_of_operator_queries_on_100000_rows_is_printed() {
    let fixture = fixture().await;
    let store = &fixture.store;
    fill(store, 100_000).await;
    let all_sent = "UPDATE outbox_events SET status = 'SENT', sent_time = create_time";
    sqlx::Executor::execute(&mut fixture.direct_connection().await, all_sent).await.unwrap();
    let mut record_times = Vec::new();
    for chunk in 0..500 {
        let consumer = if chunk % 2 == 0 { "inventory" } else { "webhooks" };
        let rows: Vec<_> = (0..200).map(|i| consumption(consumer, chunk * 200 + i)).collect();
        let start = Instant::now();
        let mut unit = store.begin().await.unwrap();
        unit.outbox().record(&rows).await.unwrap();
        unit.commit().await.unwrap();
        record_times.push(start.elapsed());
    }
    record_times.sort();
    println!("record: median {:?} per 200 rows", record_times[250]);
    let mut view = store.view().await.unwrap();
    for tenant in [None, Some(TenantId::DEFAULT)] {
        let start = Instant::now();
        view.outbox_view().outbox_counts(tenant, MAX_IDS_COUNTED).await.unwrap();
        let outbox_counts = start.elapsed();
        view.outbox_view().consume_counts(tenant, MAX_IDS_COUNTED).await.unwrap();
        let log_counts = start.elapsed() - outbox_counts;
        view.outbox_view().blocked_page(&unordered(), tenant, None, 100).await.unwrap();
        let blocked = start.elapsed() - outbox_counts - log_counts;
        println!(
            "100,000 rows, tenant {tenant:?}: outbox counts {outbox_counts:?}, log counts {log_counts:?}, blocked {blocked:?}"
        );
        let dead = ConsumedFilter { tenant, status: Some(ConsumeStatus::Dead), ..ConsumedFilter::default() };
        let start = Instant::now();
        assert!(view.outbox_view().consumed_page(&dead, None, 100).await.unwrap().is_empty());
        println!("empty page of DEAD records: {:?}", start.elapsed());
    }
}
