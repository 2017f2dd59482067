//! A backlog of unpublished events is processed: each event takes effect exactly once, and memory stays bounded however
//! long the backlog is.

use std::time::{Duration, Instant};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::Server;
use handover_tests::snapshot::DatabaseSnapshot;

use crate::{WITHIN, literal};

handover_tests::on_pairs!([backlog_events_take_effect_once]:
    sqlite_and_database SqliteAlone, postgres_and_rabbitmq PostgresRabbitMq);

mod measured {
    use super::backlog_is_processed_in_bounded_memory;

    handover_tests::on_pairs!([backlog_is_processed_in_bounded_memory]:
        #[ignore = "long: measures memory and events per second"] sqlite_and_database SqliteAlone,
        #[ignore = "long: measures memory"] mariadb_and_rabbitmq MariaDbRabbitMq,
        #[ignore = "long: measures memory"] postgres_and_rabbitmq PostgresRabbitMq);
}

/// Maximum memory growth after the first tenth of the backlog was sent.
const GROWTH_KIB: u64 = 48 * 1024;
const MOST_KIB: u64 = 256 * 1024;
/// Time after the last effect until the slower consumers have applied their part of the largest backlog.
const SETTLED_WITHIN: Duration = Duration::from_secs(600);
/// Minimum rate on SQLite, where database and broker are in the same process.
const EVENTS_PER_SECOND: f64 = 700.0;

async fn backlog_events_take_effect_once(pair: Pair) {
    process_backlog(pair, 2_000).await;
}

async fn backlog_is_processed_in_bounded_memory(pair: Pair) {
    let events = if pair == Pair::SqliteAlone { 100_000 } else { 200_000 };
    let Measurements { applied, early, most, .. } = process_backlog(pair, events).await;
    let rate = events as f64 / applied.as_secs_f64();
    assert!(pair != Pair::SqliteAlone || rate > EVENTS_PER_SECOND, "{rate:.0} events/s");
    assert!(
        most < early + GROWTH_KIB,
        "memory grew from {early} to {most} KiB; the growth must be less than {GROWTH_KIB} KiB"
    );
    assert!(most < MOST_KIB, "{most} KiB");
}

async fn process_backlog(pair: Pair, events: i64) -> Measurements {
    let deployment = Deployment::start(pair).await;
    let snapshot = deployment.snapshot().await;
    // The first start subscribes the consumers but runs no relay. Then the backlog is inserted.
    deployment.launch().roles("api").start().unwrap().terminate(WITHIN).unwrap();
    insert_paid_orders(&snapshot, pair, events / 2).await;
    let server = deployment.launch().start().unwrap();
    let measurements = wait_until_processed(&server, &snapshot, events).await;
    println!("{pair:?}: {measurements}");
    snapshot.wait_until_settled(SETTLED_WITHIN).await;
    for table in ["listing_changes", "shipments"] {
        for counted in ["*", "DISTINCT event_id"] {
            let effects = snapshot.number(&format!("SELECT count({counted}) FROM {table}")).await;
            assert_eq!(effects, events / 2, "{counted} in {table}");
        }
    }
    assert_eq!(snapshot.number("SELECT count(*) FROM dead_letters").await, 0);
    measurements
}

/// Inserts paid orders with two unpublished events each.
async fn insert_paid_orders(snapshot: &DatabaseSnapshot, pair: Pair, orders: i64) {
    let time = |time: DateTime<Utc>| match pair.database_server() {
        None => format!("'{}'", time.to_rfc3339_opts(SecondsFormat::Micros, true)),
        Some(_) => literal(time),
    };
    let now = time(Utc::now());
    // The orders were created long ago; otherwise the consistency job would report their missing ORDER_TIMEOUT.
    let before = time(Utc::now() - TimeDelta::days(30));
    let numbers: Vec<i64> = (1_000_001..=1_000_000 + orders).collect();
    for part in numbers.chunks(1_000) {
        let rows = |row: &dyn Fn(&i64) -> String| part.iter().map(row).collect::<Vec<_>>().join(", ");
        let products = rows(&|n| format!("({n}, 1, 7, 'Lamp', 8850, 'sold', 2, {now}, {now})"));
        let sold = rows(&|n| {
            format!(
                "({n}, '20260204103000{n:010}', 1, {n}, 8, 7, 'paid', 8850, 8850, 2, {before}, {now}, {before})"
            )
        });
        let events = rows(&|n| {
            let payload = |more: &str| {
                format!(
                    r#"{{"orderId":{n},"orderNo":"20260204103000{n:010}","buyerId":8,"sellerId":7,"totalAmount":88.50,"productId":{n},{more}}}"#
                )
            };
            let event = |seq, event_type: &str, more: &str| {
                let payload = payload(more);
                format!(
                    "('backlog-{n}-{seq}', '{event_type}', 'Order', {n}, {seq}, '{payload}', {now}, {now})"
                )
            };
            let created = event(1, "ORDER_CREATED", r#""quantity":1,"price":88.50"#);
            let paid = event(2, "ORDER_PAID", r#""payTime":"2026-02-04T10:30:00Z","amount":88.50"#);
            format!("{created}, {paid}")
        });
        for (columns, rows) in [
            ("products (id, tenant_id, seller_id, title, price_minor, status, version, create_time, update_time)", products),
            (
                "orders (id, order_no, tenant_id, product_id, buyer_id, seller_id, status, total_minor, payable_minor,
                 version, create_time, pay_time, update_time)",
                sold,
            ),
            (
                "outbox_events (event_id, event_type, aggregate_type, aggregate_id, aggregate_seq, payload, create_time,
                 update_time)",
                events,
            ),
        ] {
            snapshot.change(&format!("INSERT INTO {columns} VALUES {rows}")).await;
        }
    }
}

/// Measurements of a processed backlog.
struct Measurements {
    events: i64,
    sent: Duration,
    applied: Duration,
    /// Anonymous memory in KiB when a tenth of the events was sent.
    early: u64,
    /// Maximum anonymous memory in KiB.
    most: u64,
}

impl std::fmt::Display for Measurements {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Measurements { events, sent, applied, early, most } = self;
        write!(
            formatter,
            "{events} events sent in {sent:.1?} and applied in {applied:.1?}, memory {early} to {most} KiB"
        )
    }
}

/// Waits until every event is sent and has taken effect.
async fn wait_until_processed(server: &Server, snapshot: &DatabaseSnapshot, events: i64) -> Measurements {
    let begun = Instant::now();
    let within = Duration::from_secs(600);
    let mut early = None;
    let mut most = 0;
    let mut sent_after = None;
    loop {
        let memory = server.anonymous_kib().unwrap();
        most = most.max(memory);
        let sent = snapshot.number("SELECT count(*) FROM outbox_events WHERE status = 'SENT'").await;
        if sent >= events / 10 {
            early.get_or_insert(memory);
        }
        if sent == events {
            let sent = *sent_after.get_or_insert(begun.elapsed());
            let effects = "SELECT (SELECT count(*) FROM listing_changes) + (SELECT count(*) FROM shipments)";
            if snapshot.number(effects).await >= events {
                let early = early.unwrap_or(memory);
                return Measurements { events, sent, applied: begun.elapsed(), early, most };
            }
        }
        assert!(begun.elapsed() < within, "{sent} of {events} sent after {within:?}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
