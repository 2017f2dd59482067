//! Latency of orders beside the archive job, with a table of settled events that the archive may take, the sizes of the tables, and
//! restored rows. `HANDOVER_SETTLED_ROWS` is the number of these events.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::{Launch, eventually};
use handover_tests::servers::database::ServerKind;
use handover_tests::snapshot::{DatabaseSnapshot, Table};
use tokio::task::JoinSet;

use super::capacity::table_sizes;
use super::{percentile, summary};
use crate::{WITHIN, literal};

handover_tests::on_pairs!([latency_beside_archive_job_is_printed]:
    #[ignore = "long: measures latency"] mariadb MariaDbAlone,
    #[ignore = "long: measures latency"] postgres PostgresAlone);

/// Number of settled events, unless the variable sets another.
const SETTLED: i64 = 10_000_000;
const ROWS_PER_STATEMENT: i64 = 100_000;
const ORDERS_PER_SECOND: u32 = 300;
/// Length of one phase. Phases without and with the archive job alternate.
const PHASE_SECONDS: u32 = 30;
const PHASES_OF_EACH: usize = 2;
/// The oldest of the settled events, which the archive takes first.
const RESTORED: i64 = 500;
const SELLER: i64 = 1;
const BUYER: i64 = 2;
const TABLES: [&str; 3] = ["outbox_events", "event_consume_log", "outbox_archived_events"];

async fn latency_beside_archive_job_is_printed(pair: Pair) {
    let settled: i64 = std::env::var("HANDOVER_SETTLED_ROWS").map_or(SETTLED, |rows| rows.parse().unwrap());
    let deployment = Deployment::with_own_servers(pair).await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file:{}", folder.path().display());
    let launch = || deployment.launch().set("HANDOVER_ARCHIVE__URL", &url);
    let server = launch().roles("api,relay,consumers").start().unwrap();
    let api = Api::of(&server);
    api.issue_tokens(1..=BUYER);
    let snapshot = deployment.snapshot().await;
    let filled = Filled::fill(&api, &snapshot, pair, settled).await;
    let restored = filled.oldest(&snapshot).await;
    print_sizes(&snapshot, pair, "before").await;

    let mut without = Vec::new();
    let mut with = Vec::new();
    for _ in 0..PHASES_OF_EACH {
        let jobs = deployment.launch().roles("jobs").start().unwrap();
        without.extend(phase(&api).await);
        jobs.terminate(WITHIN).unwrap();
        let archiving = launch().set("HANDOVER_ARCHIVE__INTERVAL", "1s").roles("jobs").start().unwrap();
        let begun = Instant::now();
        with.extend(phase(&api).await);
        eventually(WITHIN, async || match archived(&snapshot).await {
            count if count >= RESTORED => Ok(()),
            count => Err(format!("{count} events are archived").into()),
        })
        .await;
        archiving.terminate(WITHIN).unwrap();
        println!(
            "  {} events are archived after {:.0?} of this phase",
            archived(&snapshot).await,
            begun.elapsed()
        );
    }
    println!("{pair:?}: POST /api/v1/orders at {ORDERS_PER_SECOND} orders/s, {settled} settled events");
    println!("  without the archive job: {}", summary(&mut without));
    println!("  with the archive job:    {}", summary(&mut with));
    let ratio = percentile(&mut with, 99).as_secs_f64() / percentile(&mut without, 99).as_secs_f64();
    println!("  ratio of p99: {ratio:.2}");
    print_sizes(&snapshot, pair, "after").await;

    filled.restore_oldest(&launch()).await;
    // The only value that a restore adds.
    snapshot.change("UPDATE outbox_events SET restored_time = NULL WHERE restored_time IS NOT NULL").await;
    assert!(filled.oldest(&snapshot).await == restored, "the restored rows differ");
    println!("  {RESTORED} restored events and their records are identical");
    assert!(ratio <= 1.3, "the archive job multiplies p99 by {ratio:.2}");
}

/// Lists products, then orders each of them at a constant rate. Returns the latencies of the orders.
async fn phase(api: &Api) -> Vec<Duration> {
    const CLIENTS: u32 = 8;
    let orders = ORDERS_PER_SECOND * PHASE_SECONDS;
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let api = api.clone();
        clients.spawn(async move {
            let mut products = Vec::new();
            for n in 0..orders / CLIENTS {
                let title = format!("Lamp {client}-{n}");
                products.push(api.list_product(SELLER, &title).await.unwrap().id("productId"));
            }
            products
        });
    }
    let products = clients.join_all().await.concat();
    let mut tick = tokio::time::interval(Duration::from_secs(1) / ORDERS_PER_SECOND);
    let mut placed = JoinSet::new();
    for product in products {
        tick.tick().await;
        let api = api.clone();
        placed.spawn(async move {
            let begun = Instant::now();
            assert_eq!(api.place_order(BUYER, product).await.unwrap().status, 201);
            begun.elapsed()
        });
    }
    placed.join_all().await
}

async fn archived(snapshot: &DatabaseSnapshot) -> i64 {
    snapshot.number("SELECT count(*) FROM outbox_archived_events").await
}

async fn print_sizes(snapshot: &DatabaseSnapshot, pair: Pair, when: &str) {
    let sizes = table_sizes(snapshot, pair.database_server()).await;
    let of_tables = sizes.iter().filter(|(table, _)| TABLES.contains(&table.as_str()));
    let mut line = String::new();
    for (table, bytes) in of_tables {
        write!(line, " {table} {} MB", bytes / 1_000_000).unwrap();
    }
    println!("  {when}:{line}");
}

/// Settled events, which are copies of one event with another id, aggregate and time.
struct Filled {
    from: DateTime<Utc>,
    /// Time between two events.
    step: TimeDelta,
}

impl Filled {
    async fn fill(api: &Api, snapshot: &DatabaseSnapshot, pair: Pair, count: i64) -> Filled {
        let product = api.list_product(SELLER, "Template").await.unwrap().id("productId");
        let order = api.place_order(BUYER, product).await.unwrap().id("orderId");
        assert!(api.cancel(BUYER, order).await.unwrap().done());
        snapshot.wait_until_settled(WITHIN).await;
        let newest = "SELECT event_id FROM outbox_events ORDER BY id DESC LIMIT 1";
        let template = snapshot.rows(newest).await.unwrap().remove(0);
        // 40 to 50 days old: the archive takes what is older than 30 days.
        let filled = Filled {
            from: Utc::now() - TimeDelta::days(50),
            step: TimeDelta::microseconds(TimeDelta::days(10).num_microseconds().unwrap() / count),
        };
        let begun = Instant::now();
        let mut first = 1;
        while first <= count {
            let last = count.min(first + ROWS_PER_STATEMENT - 1);
            for table in ["outbox_events", "event_consume_log"] {
                snapshot
                    .change(&filled.statement(snapshot, pair, table, &template, first..=last).await)
                    .await;
            }
            first = last + 1;
        }
        for table in ["outbox_events", "event_consume_log"] {
            let analyze = match pair.database_server() {
                Some(ServerKind::MariaDb) => format!("ANALYZE TABLE {table}"),
                Some(ServerKind::Postgres) | None => format!("ANALYZE {table}"),
            };
            snapshot.table(&analyze).await.unwrap();
        }
        println!("{pair:?}: {count} settled events in {:.0?}", begun.elapsed());
        filled
    }

    /// Copies the rows of the template, once for each number.
    async fn statement(
        &self,
        snapshot: &DatabaseSnapshot,
        pair: Pair,
        table: &str,
        template: &str,
        numbers: std::ops::RangeInclusive<i64>,
    ) -> String {
        let (first, last) = numbers.into_inner();
        let from = literal(self.from);
        let step = self.step.num_microseconds().unwrap();
        let (schema, series, id, time) = match pair.database_server() {
            Some(ServerKind::MariaDb) => (
                "DATABASE()",
                format!("seq_{first}_to_{last} n"),
                "CONCAT('00000000-0000-7000-8000-', LPAD(LOWER(HEX(n.seq)), 12, '0'))",
                format!("{from} + INTERVAL n.seq * {step} MICROSECOND"),
            ),
            Some(ServerKind::Postgres) | None => (
                "current_schema()",
                format!("generate_series({first}::bigint, {last}::bigint) n (seq)"),
                "'00000000-0000-7000-8000-' || lpad(to_hex(n.seq), 12, '0')",
                format!("TIMESTAMPTZ {from} + n.seq * {step} * INTERVAL '1 microsecond'"),
            ),
        };
        let columns = format!(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = {schema} \
             AND table_name = '{table}' AND is_generated = 'NEVER' AND column_name <> 'id'"
        );
        let columns = snapshot.rows(&columns).await.unwrap();
        let value = |column: &String| match column.as_str() {
            "event_id" => id.to_owned(),
            "aggregate_id" => "1000000000 + n.seq".to_owned(),
            "create_time" | "update_time" | "sent_time" | "consume_time" => time.clone(),
            other => format!("t.{other}"),
        };
        let values: Vec<String> = columns.iter().map(value).collect();
        format!(
            "INSERT INTO {table} ({}) SELECT {} FROM {series}, {table} t WHERE t.event_id = '{template}'",
            columns.join(", "),
            values.join(", ")
        )
    }

    /// Every column of the oldest events and of their records.
    async fn oldest(&self, snapshot: &DatabaseSnapshot) -> [Table; 2] {
        let oldest = format!("create_time < {} AND sent_time IS NOT NULL", literal(self.end()));
        let events = format!("SELECT * FROM outbox_events WHERE {oldest} ORDER BY id");
        let records = format!(
            "SELECT * FROM event_consume_log WHERE event_id IN (SELECT event_id FROM outbox_events WHERE {oldest}) \
             ORDER BY event_id, consumer"
        );
        let tables = [snapshot.table(&events).await.unwrap(), snapshot.table(&records).await.unwrap()];
        assert_eq!(tables[0].len() as i64, RESTORED);
        assert!(tables[1].len() >= tables[0].len(), "each event has a record");
        tables
    }

    async fn restore_oldest(&self, launch: &Launch) {
        let time = |time: DateTime<Utc>| time.to_rfc3339_opts(chrono::SecondsFormat::Micros, true);
        let (from, to) = (time(self.from), time(self.end()));
        let arguments = ["outbox", "restore", "--from", &from, "--to", &to, "--reason", "test"];
        let (code, stdout, stderr) = launch.run(&arguments).unwrap();
        assert_eq!(code, Some(0), "{stdout}{stderr}");
    }

    /// The first time that is later than those of the oldest events.
    fn end(&self) -> DateTime<Utc> {
        self.from + self.step * i32::try_from(RESTORED + 1).unwrap()
    }
}
