//! The figures: latency from commit to effect, idle processor time, throughput and memory under a backlog. Printed as
//! measured; held loosely, because test machines are noisy, and with `HANDOVER_LONG` to what is promised.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use handover_tests::books::Books;
use handover_tests::client::Api;
use handover_tests::process::Server;
use sqlx::Row;
use tokio::task::JoinSet;

use crate::{alone, eventually, fresh};

/// The least value that so many percent of the values do not exceed.
pub(crate) fn percentile(values: &mut [Duration], percent: usize) -> Duration {
    values.sort();
    values[(values.len() * percent).div_ceil(100) - 1]
}

pub(crate) fn shown(values: &mut [Duration]) -> String {
    let [p50, p95, p99, most] = [50, 95, 99, 100].map(|percent| percentile(values, percent));
    format!("p50 {p50:.1?}, p95 {p95:.1?}, p99 {p99:.1?}, max {most:.1?}")
}

#[tokio::test(flavor = "multi_thread")]
async fn at_50_orders_a_second_effects_follow_their_commit_at_once() {
    let _turn = alone().await;
    let (seconds, promised) = if handover_tests::long() {
        (60, Duration::from_millis(100))
    } else {
        (8, Duration::from_millis(1_000))
    };
    let (_folder, launch) = fresh();
    let server = launch.start().unwrap();
    let api = Api::of(&server);
    api.sign_in(1..=2);
    let mut products = Vec::new();
    for n in 0..seconds * 50 {
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
    let mut answers = orders.join_all().await;
    let books = Books::open(&launch.database()).await;
    let all = products.len() as i64;
    eventually(Duration::from_secs(10), async || {
        let effects = books.number("SELECT count(*) FROM listing_changes").await;
        if effects == all { Ok(()) } else { Err(format!("{effects} of {all} effects").into()) }
    })
    .await;
    let cpu = (server.cpu_time().unwrap() - cpu).as_secs_f64() / seconds as f64;
    let rows = sqlx::query(
        "SELECT e.create_time, c.create_time FROM outbox_events e JOIN listing_changes c ON c.event_id = e.event_id",
    )
    .fetch_all(books.pool())
    .await
    .unwrap();
    let time = |text: String| text.parse::<DateTime<Utc>>().unwrap();
    let mut effects: Vec<Duration> =
        rows.iter().map(|row| (time(row.get(1)) - time(row.get(0))).to_std().unwrap_or_default()).collect();
    println!("50 orders/s for {seconds} s, {:.0} % of a core", cpu * 100.0);
    println!("  from the order's decision to its effect: {}", shown(&mut effects));
    println!("  POST /api/v1/orders: {}", shown(&mut answers));
    let p99 = percentile(&mut effects, 99);
    assert!(p99 < promised, "{p99:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idle_service_uses_next_to_no_processor_time() {
    let _turn = alone().await;
    let promised = if handover_tests::long() { 0.02 } else { 0.05 };
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
    assert!(share < promised, "{:.1} % of a core", share * 100.0);
}

/// Paid orders with the two events each that nobody has published yet; half as many orders as events.
///
/// The orders were changed long ago, or the consistency job would miss their ORDER_TIMEOUT.
const BACKLOG: [&str; 3] = [
    "INSERT INTO products (id, tenant_id, seller_id, title, price_minor, status, version, create_time, update_time)
     WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
     SELECT 1000000 + n, 1, 7, 'Lamp', 8850, 'sold', 2, ?2, ?2 FROM n",
    "INSERT INTO orders (id, order_no, tenant_id, product_id, buyer_id, seller_id, status, total_minor, payable_minor,
        version, create_time, pay_time, update_time)
     WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1)
     SELECT 1000000 + n, printf('20260204103000%010d', 1000000 + n), 1, 1000000 + n, 8, 7, 'paid', 8850, 8850, 2, '2026-02-04T10:30:00.000000Z',
        ?2, '2026-02-04T10:30:00.000000Z'
     FROM n",
    "INSERT INTO outbox_events (event_id, event_type, aggregate_type, aggregate_id, aggregate_seq, payload, metadata,
        create_time, update_time)
     WITH RECURSIVE n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?1),
     step (seq, type, more) AS (VALUES (1, 'ORDER_CREATED', '\"quantity\":1,\"price\":88.50'),
        (2, 'ORDER_PAID', '\"payTime\":\"' || ?2 || '\",\"amount\":88.50'))
     SELECT printf('backlog-%s-%d', type, n), type, 'Order', 1000000 + n, seq,
        printf('{\"orderId\":%d,\"orderNo\":\"20260204103000%010d\",\"buyerId\":8,\"sellerId\":7,\"totalAmount\":88.50,\"productId\":%d,%s}',
            1000000 + n, 1000000 + n, 1000000 + n, more),
        printf('{\"traceId\":\"backlog-%d\"}', n), ?2, ?2
     FROM n, step ORDER BY n, seq",
];

#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_is_worked_off_fast_in_flat_memory() {
    let _turn = alone().await;
    let (events, promised) = if handover_tests::long() { (100_000_i64, 700.0) } else { (20_000, 400.0) };
    let (_folder, launch) = fresh();
    // A first start makes the database and subscribes the consumers; then the backlog is put in their way.
    let server = launch.clone().roles("api").start().unwrap();
    server.terminate(Duration::from_secs(10)).unwrap();
    let books = Books::open(&launch.database()).await;
    let now = Utc::now().to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
    let mut transaction = books.pool().begin().await.unwrap();
    for sql in BACKLOG {
        sqlx::query(sql).bind(events / 2).bind(&now).execute(&mut *transaction).await.unwrap();
    }
    transaction.commit().await.unwrap();
    let server = launch.start().unwrap();
    let (took, memory) = worked_off(&server, &books, events).await;
    let rate = events as f64 / took.as_secs_f64();
    println!(
        "{events} events applied in {took:.1?}: {rate:.0} events/s, {:.1} s of processor time, memory {memory:?} KiB",
        server.cpu_time().unwrap().as_secs_f64()
    );
    for (what, sql) in [
        ("listing changes doubled", "SELECT count(*) - count(DISTINCT event_id) FROM listing_changes"),
        ("shipments doubled", "SELECT count(*) - count(DISTINCT event_id) FROM shipments"),
        ("dead letters", "SELECT count(*) FROM dead_letters"),
    ] {
        assert_eq!(books.number(sql).await, 0, "{what}");
    }
    books.wait_until_quiet(Duration::from_secs(30)).await;
    assert!(rate > promised, "{rate:.0} events/s");
    let (early, most) = memory;
    assert!(most < early + 48 * 1024, "memory grew from {early} to {most} KiB");
    assert!(most < 256 * 1024, "{most} KiB");
}

/// Until all effects are there: how long, and the memory of its own that the process had after a fifth and at most.
async fn worked_off(server: &Server, books: &Books, events: i64) -> (Duration, (u64, u64)) {
    let begun = Instant::now();
    let within = Duration::from_secs(if handover_tests::long() { 300 } else { 120 });
    let (mut early, mut most) = (None, 0);
    loop {
        let effects =
            books.number("SELECT (SELECT count(*) FROM listing_changes) + (SELECT count(*) FROM shipments)");
        let effects = effects.await;
        let memory = server.anonymous_kib().unwrap();
        most = most.max(memory);
        if effects >= events / 5 {
            early.get_or_insert(memory);
        }
        if effects >= events {
            return (begun.elapsed(), (early.unwrap_or(memory), most));
        }
        assert!(begun.elapsed() < within, "{effects} of {events} after {within:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
