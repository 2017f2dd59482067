//! A constant rate of orders for a long time: beside a transaction that someone leaves open, and for hours.
//! `HANDOVER_SUSTAINED_SECONDS` sets the length: 600 for the transaction and 7200 for the other test are what the limits are
//! promised for.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::eventually;
use handover_tests::servers::database::ServerKind;
use handover_tests::snapshot::{DatabaseSnapshot, moment};
use tokio::task::{JoinHandle, JoinSet};

use super::{percentile, summary};
use crate::{WITHIN, literal};

handover_tests::on_pairs!([order_latency_beside_open_transaction_is_printed, memory_and_latency_stay_constant]:
    #[ignore = "long: measures latency"] mariadb_and_rabbitmq MariaDbRabbitMq,
    #[ignore = "long: measures latency"] postgres_and_rabbitmq PostgresRabbitMq);

const ORDERS_PER_SECOND: u32 = 300;
/// The first orders open connections, prepare statements and fill caches.
const WARM_UP: Duration = Duration::from_secs(20);
/// Length of the phase after the transaction.
const AFTER: Duration = Duration::from_secs(60);
/// Length of the windows in which the service recovers.
const WINDOW: Duration = Duration::from_secs(5);
/// A payment deadline after the end of every run: nobody pays the orders, and after 15 minutes their timeouts would double the load.
const NEVER: &str = "1440";
const SELLER: i64 = 1;
const BUYER: i64 = 2;

fn length(seconds: u64) -> Duration {
    let set = std::env::var("HANDOVER_SUSTAINED_SECONDS").map(|seconds| seconds.parse().unwrap());
    Duration::from_secs(set.unwrap_or(seconds))
}

async fn order_latency_beside_open_transaction_is_printed(pair: Pair) {
    const PROMISED_RATE: f64 = 0.9;
    const PROMISED_LATENCY: f64 = 1.5;
    const PROMISED_RECOVERY: Duration = Duration::from_secs(60);
    // The phase before the transaction is as long, because each one of some minutes contains a checkpoint of the database.
    let held_for = length(120);
    let deployment = Deployment::with_own_servers(pair).await;
    let server = deployment.launch().set("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", NEVER).start().unwrap();
    let snapshot = deployment.snapshot().await;
    let orders = place_orders(&Api::of(&server), &snapshot, WARM_UP + held_for + held_for + AFTER).await;
    tokio::time::sleep(WARM_UP).await;

    let clean_from = Utc::now();
    tokio::time::sleep(held_for).await;
    let held_from = Utc::now();
    let holder = snapshot.on_one_connection();
    let begin: &[&str] = match pair.database_server() {
        // The level of the server, SERIALIZABLE, would lock the rows that the transaction reads.
        Some(ServerKind::MariaDb) => &[
            "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
            "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        ],
        Some(ServerKind::Postgres) | None => &["BEGIN ISOLATION LEVEL REPEATABLE READ"],
    };
    for statement in begin {
        holder.change(statement).await;
    }
    holder.number("SELECT count(*) FROM outbox_partitions").await;
    tokio::time::sleep(held_for).await;
    holder.change("ROLLBACK").await;
    let held_to = Utc::now();
    let placed = orders.await.unwrap();
    wait_for_effects(&snapshot, placed.len()).await;

    let effects = async |from: DateTime<Utc>, to: DateTime<Utc>| effects(&snapshot, from, to).await;
    let mut clean = effects(clean_from, held_from).await;
    let mut held = effects(held_from, held_to).await;
    let mut last = effects((held_to - TimeDelta::minutes(1)).max(held_from), held_to).await;
    println!("{pair:?}, {ORDERS_PER_SECOND} orders/s, a transaction open for {held_for:?}");
    println!(
        "  POST /api/v1/orders: {}",
        summary(&mut placed.iter().map(|(_, took)| *took).collect::<Vec<_>>())
    );
    println!("  commit to effect, before:                  {}", summary(&mut clean));
    println!("  commit to effect, beside the transaction:  {}", summary(&mut held));
    println!("  commit to effect, in its last minute:      {}", summary(&mut last));
    let rate = held.len() as f64 / (f64::from(ORDERS_PER_SECOND) * held_for.as_secs_f64());
    let limit = percentile(&mut clean, 99).mul_f64(PROMISED_LATENCY);
    let ratio = percentile(&mut held, 99).as_secs_f64() / percentile(&mut clean, 99).as_secs_f64();
    let mut recovered = None;
    for window in 1..=u32::try_from(AFTER.as_secs() / WINDOW.as_secs()).unwrap() {
        let to = held_to + WINDOW * window;
        let mut after = effects(to - WINDOW, to).await;
        if percentile(&mut after, 99) <= limit {
            recovered = Some(WINDOW * window);
            break;
        }
    }
    println!("  rate {rate:.2}, ratio of p99 {ratio:.2}, p99 as before within {recovered:?}");
    assert!(rate >= PROMISED_RATE, "share of the rate: {rate:.2}");
    assert!(ratio <= PROMISED_LATENCY, "the open transaction multiplies p99 by {ratio:.2}");
    assert!(recovered.is_some_and(|after| after <= PROMISED_RECOVERY), "not recovered after {AFTER:?}");
}

async fn memory_and_latency_stay_constant(pair: Pair) {
    const PROMISED_MEMORY: f64 = 1.1;
    const PROMISED_LATENCY: f64 = 1.2;
    let lasts = length(600);
    // A tenth of a short run; ten minutes of two hours.
    let part = (lasts / 10).min(Duration::from_secs(600));
    let deployment = Deployment::with_own_servers(pair).await;
    let server = deployment.launch().set("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", NEVER).start().unwrap();
    let snapshot = deployment.snapshot().await;
    let orders = place_orders(&Api::of(&server), &snapshot, WARM_UP + lasts).await;
    tokio::time::sleep(WARM_UP).await;

    let from = Utc::now();
    let begun = Instant::now();
    let mut memory = Vec::new();
    while begun.elapsed() < lasts {
        memory.push(server.anonymous_kib().unwrap() / 1024);
        tokio::time::sleep(part / 20).await;
    }
    let to = Utc::now();
    let placed = orders.await.unwrap();
    wait_for_effects(&snapshot, placed.len()).await;
    let part_time = TimeDelta::from_std(part).unwrap();
    let mut first = effects(&snapshot, from, from + part_time).await;
    let mut last = effects(&snapshot, to - part_time, to).await;
    // The memory of a part is its greatest, because it varies with the load.
    let most = |samples: &[u64]| samples.iter().copied().max().unwrap();
    let samples = memory.len() / 10;
    let (early, late) = (most(&memory[..samples]), most(&memory[memory.len() - samples..]));
    println!("{pair:?}, {ORDERS_PER_SECOND} orders/s for {lasts:?}, its first and last {part:?}");
    println!("  commit to effect, first: {}", summary(&mut first));
    println!("  commit to effect, last:  {}", summary(&mut last));
    // Whether memory grows all the time, or only until a load that was heavier.
    let parts: Vec<u64> = memory.chunks(samples).map(most).collect();
    println!("  memory: {early} MiB, {late} MiB; greatest of each part {parts:?}");
    let ratio = percentile(&mut last, 99).as_secs_f64() / percentile(&mut first, 99).as_secs_f64();
    let grown = late as f64 / early as f64;
    println!("  ratio of p99 {ratio:.2}, of the memory {grown:.2}");
    assert!(grown <= PROMISED_MEMORY, "memory grew from {early} to {late} MiB");
    assert!(ratio <= PROMISED_LATENCY, "p99 is {ratio:.2} of that at the beginning");
}

/// Orders products at a constant rate for this long. Returns when each order was placed and how long it took.
async fn place_orders(
    api: &Api,
    snapshot: &DatabaseSnapshot,
    lasts: Duration,
) -> JoinHandle<Vec<(DateTime<Utc>, Duration)>> {
    let number = u64::from(ORDERS_PER_SECOND) * lasts.as_secs();
    list_products(snapshot, number).await;
    api.issue_tokens(BUYER..=BUYER);
    let api = api.clone();
    tokio::spawn(async move {
        let mut tick = tokio::time::interval(Duration::from_secs(1) / ORDERS_PER_SECOND);
        let mut orders = JoinSet::new();
        let mut placed = Vec::new();
        for product in 1..=number {
            tick.tick().await;
            let api = api.clone();
            orders.spawn(async move {
                let (at, begun) = (Utc::now(), Instant::now());
                assert_eq!(api.place_order(BUYER, product as i64).await.unwrap().status, 201);
                (at, begun.elapsed())
            });
            // A finished task keeps its memory until it is joined.
            while let Some(order) = orders.try_join_next() {
                placed.push(order.unwrap());
            }
        }
        placed.extend(orders.join_all().await);
        placed
    })
}

/// Puts at least this number of products on sale, with the ids from 1.
async fn list_products(snapshot: &DatabaseSnapshot, number: u64) {
    const COLUMNS: &str =
        "tenant_id, seller_id, title, price_minor, status, version, create_time, update_time";
    const AT: &str = "'2026-02-04 10:30:00.000001'";
    let first = format!("VALUES (1, 1, {SELLER}, 'Lamp', 1000, 'on_sale', 0, {AT}, {AT})");
    snapshot.change(&format!("INSERT INTO products (id, {COLUMNS}) {first}")).await;
    let mut listed = 1;
    while listed < number {
        let next = format!("SELECT id + {listed}, {COLUMNS} FROM products");
        snapshot.change(&format!("INSERT INTO products (id, {COLUMNS}) {next}")).await;
        listed *= 2;
    }
}

async fn wait_for_effects(snapshot: &DatabaseSnapshot, orders: usize) {
    eventually(WITHIN, async || match snapshot.count("SELECT count(*) FROM listing_changes").await? {
        effects if effects >= orders as i64 => Ok(()),
        effects => Err(format!("{effects} of {orders} orders have their effect").into()),
    })
    .await;
}

/// Times from the commit of the orders that were placed in this period to their effect.
async fn effects(snapshot: &DatabaseSnapshot, from: DateTime<Utc>, to: DateTime<Utc>) -> Vec<Duration> {
    let rows = snapshot
        .table(&format!(
            "SELECT e.create_time, c.create_time FROM outbox_events e \
             JOIN listing_changes c ON c.event_id = e.event_id \
             WHERE e.create_time >= {} AND e.create_time < {}",
            literal(from),
            literal(to)
        ))
        .await
        .unwrap();
    assert!(!rows.is_empty(), "no order has an effect");
    let time = |text: &Option<String>| moment(text.as_deref().unwrap());
    rows.iter().map(|row| (time(&row[1]) - time(&row[0])).to_std().unwrap_or_default()).collect()
}
