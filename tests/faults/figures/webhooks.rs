//! Webhooks: time until the first attempt beside receivers that never answer, and throughput compared with a loop that
//! signs, posts and records each result.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::receiver::{Answer, WebhookReceiver};
use handover_tests::servers::Durability;
use handover_tests::servers::database::DatabaseServer;
use handover_tests::snapshot::DatabaseSnapshot;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::{percentile, summary};
use crate::WITHIN;
use crate::webhooks::{create_endpoint, delivered, insert_events, sending};

handover_tests::on_pairs!([receivers_that_never_answer_raise_p99_of_first_attempts_at_others_by_less_than_half]:
    #[ignore = "long: measures latency"] postgres_and_database PostgresAlone);

mod throughput {
    handover_tests::on_pairs!([dispatcher_reaches_0_6_of_a_loop_without_its_guarantees]:
        #[ignore = "long: measures throughput"] postgres_and_database PostgresAlone,
        #[ignore = "long: measures throughput"] mariadb_and_database MariaDbAlone);

    use super::dispatcher_reaches_0_6_of_a_loop_without_its_guarantees;
}

const TENANTS: u32 = 20;
/// Endpoints of a tenant that answer.
const ANSWERING: u32 = 45;
/// Endpoints of a tenant that accept the connection and never answer.
const HANGING: u32 = 5;
const EVENTS: u32 = 40;
/// Time between two events. It is so long that nothing but receivers that never answer could delay an attempt.
const INTERVAL: Duration = Duration::from_secs(1);

async fn create_endpoints(api: &Api, receiver: &WebhookReceiver, path: &str, count: u32) {
    let mut tenants = JoinSet::new();
    for tenant in 1..=TENANTS {
        let api = api.clone();
        let url = receiver.url(path);
        tenants.spawn(async move {
            for n in 0..count {
                create_endpoint(&api, i64::from(tenant), json!({"url": format!("{url}/{tenant}/{n}")})).await;
            }
        });
    }
    tenants.join_all().await;
}

/// Inserts events at a fixed rate. Returns the times from the commit of each event to its arrival at each receiver that
/// answers.
async fn first_attempts(
    snapshot: &DatabaseSnapshot,
    receiver: &WebhookReceiver,
    first: u32,
    earlier: u32,
) -> Vec<Duration> {
    let mut committed = BTreeMap::new();
    let mut tick = tokio::time::interval(INTERVAL);
    for n in first..first + EVENTS {
        tick.tick().await;
        insert_events(snapshot, i64::from(n % TENANTS + 1), n..n + 1).await;
        committed.insert(format!("webhook-{n}"), Instant::now());
    }
    delivered(2 * WITHIN, snapshot, earlier + EVENTS * ANSWERING).await;
    let received = receiver.received();
    let answered = received.iter().filter(|request| request.path.starts_with("/hooks"));
    let of_these = answered.filter_map(|request| Some((request.at, *committed.get(request.id())?)));
    of_these.map(|(arrived, committed)| arrived.saturating_duration_since(committed)).collect()
}

async fn receivers_that_never_answer_raise_p99_of_first_attempts_at_others_by_less_than_half(pair: Pair) {
    const PROMISED: f64 = 1.5;
    let deployment = Deployment::start(pair).await;
    let process = sending(deployment.launch()).start().unwrap();
    let api = Api::of(&process);
    let snapshot = deployment.snapshot().await;
    let receiver = WebhookReceiver::start(|_, request| match request.path.starts_with("/hanging") {
        true => Answer::Hang,
        false => Answer::Status(204),
    })
    .await;
    create_endpoints(&api, &receiver, "/hooks", ANSWERING).await;
    // Not measured: connections are opened, and statements are prepared.
    let warm_up = EVENTS * ANSWERING;
    first_attempts(&snapshot, &receiver, 0, 0).await;
    let mut without = first_attempts(&snapshot, &receiver, EVENTS, warm_up).await;
    create_endpoints(&api, &receiver, "/hanging", HANGING).await;
    let mut with = first_attempts(&snapshot, &receiver, 2 * EVENTS, 2 * warm_up).await;
    println!("from the commit of an event to the first attempt at {} endpoints", TENANTS * ANSWERING);
    println!("  alone: {}", summary(&mut without));
    println!("  beside {} that never answer: {}", TENANTS * HANGING, summary(&mut with));
    let hanging = receiver.received().iter().filter(|request| request.path.starts_with("/hanging")).count();
    assert!(hanging >= (TENANTS * HANGING) as usize, "{hanging}");
    let ratio = percentile(&mut with, 99).as_secs_f64() / percentile(&mut without, 99).as_secs_f64();
    println!("  ratio of p99: {ratio:.2}");
    assert!(ratio <= PROMISED, "{ratio}");
    drop(process);
}

/// The built benchmark: `HANDOVER_BENCH`, or the output of `cargo build --release`.
fn benchmark() -> PathBuf {
    std::env::var_os("HANDOVER_BENCH").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/release/handover-bench")),
        PathBuf::from,
    )
}

async fn dispatcher_reaches_0_6_of_a_loop_without_its_guarantees(pair: Pair) {
    const PROMISED: f64 = 0.6;
    let server = DatabaseServer::start(pair.database_server().unwrap(), Durability::Full).await.unwrap();
    let database = server.database(None).await.unwrap();
    let measured = Command::new(benchmark())
        .args(["webhooks", "--rounds", "3", "--output", "json"])
        // The URL has a password, which the benchmark refuses in its arguments.
        .env("HANDOVER_DATABASE__URL", database.url())
        .output()
        .unwrap();
    assert!(measured.status.success(), "{}", String::from_utf8_lossy(&measured.stderr));
    let report: Value = serde_json::from_slice(&measured.stdout).unwrap();
    let figure = &report["figures"][0];
    let ratio = figure["ratio"].as_f64().unwrap();
    println!(
        "{pair:?}: {:.0} deliveries/s, {:.0} by the loop, ratio {ratio:.2}",
        figure["ours"]["median"].as_f64().unwrap(),
        figure["ceiling"]["median"].as_f64().unwrap()
    );
    assert!(ratio >= PROMISED, "{ratio}");
}
