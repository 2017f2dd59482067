//! Measurements on an otherwise idle machine: latency from commit to effect, CPU time when idle, and webhooks.

mod archive;
mod capacity;
mod fairness;
mod migrations;
mod sustained;
mod webhooks;

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use handover_tests::client::Api;
use handover_tests::snapshot::DatabaseSnapshot;
use sqlx::Row;
use tokio::task::JoinSet;

use crate::{eventually, fresh};

/// The smallest value such that at least `percent` % of the values are not greater (nearest rank).
pub(crate) fn percentile(values: &mut [Duration], percent: usize) -> Duration {
    values.sort();
    values[(values.len() * percent).div_ceil(100) - 1]
}

pub(crate) fn summary(values: &mut [Duration]) -> String {
    let [p50, p95, p99, most] = [50, 95, 99, 100].map(|percent| percentile(values, percent));
    format!("p50 {p50:.1?}, p95 {p95:.1?}, p99 {p99:.1?}, max {most:.1?}")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: measures latency"]
async fn p99_from_commit_to_effect_is_below_100_ms_at_50_orders_per_second() {
    const SECONDS: u32 = 60;
    const PROMISED: Duration = Duration::from_millis(100);
    let (_folder, launch) = fresh();
    let server = launch.start().unwrap();
    let api = Api::of(&server);
    api.issue_tokens(1..=2);
    let mut products = Vec::new();
    for n in 0..SECONDS * 50 {
        products.push(api.list_product(1, &format!("Lamp {n}")).await.unwrap().id("productId"));
    }
    let cpu = server.cpu_time().unwrap();
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    let mut orders = JoinSet::new();
    for product in products.iter().copied() {
        tick.tick().await;
        let api = api.clone();
        orders.spawn(async move {
            let begun = Instant::now();
            assert_eq!(api.place_order(2, product).await.unwrap().status, 201);
            begun.elapsed()
        });
    }
    let mut latencies = orders.join_all().await;
    let snapshot = DatabaseSnapshot::open(&launch.database()).await;
    let all = products.len() as i64;
    eventually(Duration::from_secs(10), async || {
        let effects = snapshot.number("SELECT count(*) FROM listing_changes").await;
        if effects == all { Ok(()) } else { Err(format!("{effects} of {all} listing changes exist").into()) }
    })
    .await;
    let cpu = (server.cpu_time().unwrap() - cpu).as_secs_f64() / f64::from(SECONDS);
    let rows = sqlx::query(
        "SELECT e.create_time, c.create_time FROM outbox_events e JOIN listing_changes c ON c.event_id = e.event_id",
    )
    .fetch_all(snapshot.pool())
    .await
    .unwrap();
    let time = |text: String| text.parse::<DateTime<Utc>>().unwrap();
    let mut effects: Vec<Duration> =
        rows.iter().map(|row| (time(row.get(1)) - time(row.get(0))).to_std().unwrap_or_default()).collect();
    println!("50 orders/s for {SECONDS} s, {:.0} % of a core", cpu * 100.0);
    println!("  from the order to its effect: {}", summary(&mut effects));
    println!("  POST /api/v1/orders: {}", summary(&mut latencies));
    let p99 = percentile(&mut effects, 99);
    assert!(p99 < PROMISED, "{p99:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: measures processor time"]
async fn idle_service_uses_little_cpu_time() {
    const PROMISED: f64 = 0.02;
    let (_folder, launch) = fresh();
    let server = launch.start().unwrap();
    let api = Api::of(&server);
    let product = api.list_product(1, "Desk lamp").await.unwrap().id("productId");
    assert!(api.place_order(2, product).await.unwrap().done());
    tokio::time::sleep(Duration::from_secs(3)).await;
    const MEASURED: Duration = Duration::from_secs(10);
    let before = server.cpu_time().unwrap();
    tokio::time::sleep(MEASURED).await;
    let share = (server.cpu_time().unwrap() - before).as_secs_f64() / MEASURED.as_secs_f64();
    println!(
        "idle: {:.1} % of a core, {} MiB resident",
        share * 100.0,
        server.resident_kib().unwrap() / 1024
    );
    assert!(
        share < PROMISED,
        "idle: {:.1} % of a core, must be less than {:.1} %",
        share * 100.0,
        PROMISED * 100.0
    );
}
