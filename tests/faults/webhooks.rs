//! Webhooks while the process that sends them is killed: every delivery arrives at least once, none is lost or stuck.
//! Receivers that never answer, and the limits of endpoints for several processes.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use chrono::Utc;
use handover_tests::client::{Api, Caller};
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::long;
use handover_tests::process::{Launch, Server, eventually};
use handover_tests::random::RandomSource;
use handover_tests::receiver::{Answer, WebhookReceiver};
use handover_tests::snapshot::DatabaseSnapshot;
use serde_json::{Value, json};

use crate::{WITHIN, literal};

handover_tests::on_pairs!([killed_process_loses_no_webhook]:
    sqlite_and_database SqliteAlone, mariadb_and_database MariaDbAlone, postgres_and_database PostgresAlone);

mod receivers {
    handover_tests::on_pairs!([
        receivers_that_never_answer_delay_no_others,
        limits_of_endpoints_hold_for_two_processes_together,
    ]: postgres_and_database PostgresAlone);
    handover_tests::on_pairs!([
        request_in_flight_at_the_end_of_the_process_is_sent_again_by_the_next,
        thousand_deliveries_to_one_endpoint_use_few_connections,
    ]: sqlite_and_database SqliteAlone);

    use super::{
        limits_of_endpoints_hold_for_two_processes_together, receivers_that_never_answer_delay_no_others,
        request_in_flight_at_the_end_of_the_process_is_sent_again_by_the_next,
        thousand_deliveries_to_one_endpoint_use_few_connections,
    };
}

const DELIVERED: &str = "SELECT count(*) FROM webhook_deliveries WHERE state = 'DELIVERED'";

/// A deployment whose receivers are on this machine.
pub(crate) fn sending(launch: Launch) -> Launch {
    launch
        .set("HANDOVER_WEBHOOK__KEY", "the key that encrypts secrets of endpoints")
        .set("HANDOVER_WEBHOOK__ALLOW_NETWORKS", r#"["127.0.0.0/8"]"#)
}

/// Creates an endpoint for the events of [`insert_events`]. Returns its secret.
pub(crate) async fn create_endpoint(api: &Api, tenant: i64, mut endpoint: Value) -> String {
    endpoint["eventTypes"] = json!(["invoice.*"]);
    let operator = Caller::of_tenant(tenant, 9).operator();
    let created = api.post(operator, "/api/v1/webhooks", endpoint).await.unwrap().value();
    created["secret"].as_str().unwrap().to_owned()
}

/// Waits until this number of deliveries has arrived.
pub(crate) async fn delivered(within: Duration, snapshot: &DatabaseSnapshot, deliveries: u32) {
    eventually(within, async || match snapshot.count(DELIVERED).await? {
        delivered if delivered == i64::from(deliveries) => Ok(()),
        other => Err(format!("{other} of {deliveries} are delivered").into()),
    })
    .await;
}

/// Inserts events of a tenant that only the consumer of webhooks takes.
pub(crate) async fn insert_events(snapshot: &DatabaseSnapshot, tenant: i64, events: std::ops::Range<u32>) {
    let now = literal(Utc::now());
    let columns =
        "event_id, event_type, tenant_id, aggregate_type, aggregate_id, payload, create_time, update_time";
    let row = |n: u32| {
        let id = n + 1;
        let payload = json!({
            "invoiceId": id, "periodStart": "2026-01-01", "periodEnd": "2026-01-31", "total": 88.5, "currency": "CNY",
        });
        format!("('webhook-{n}', 'INVOICE_GENERATED', {tenant}, 'Invoice', {id}, '{payload}', {now}, {now})")
    };
    for chunk in events.collect::<Vec<u32>>().chunks(500) {
        let rows: Vec<String> = chunk.iter().map(|n| row(*n)).collect();
        snapshot.change(&format!("INSERT INTO outbox_events ({columns}) VALUES {}", rows.join(", "))).await;
    }
}

async fn killed_process_loses_no_webhook(pair: Pair) {
    let deliveries = if long() { 10_000 } else { 300 };
    let random = RandomSource::of_test(&format!("webhooks on {pair:?}"));
    let kills = random.stream("kills");
    let deployment = Deployment::start(pair).await;
    // With a short time limit, claims end soon after a kill.
    let launch = sending(deployment.launch())
        .set("HANDOVER_WEBHOOK__TIMEOUT", "1s")
        .set("HANDOVER_WEBHOOK__DELAYS", r#"["200ms", "1s", "2s", "4s", "8s", "16s", "32s"]"#);
    let mut process = launch.start().unwrap();
    let api = Api::of(&process);
    let snapshot = deployment.snapshot().await;
    // Every seventh request fails, and some take longer than the process lives.
    let receiver = WebhookReceiver::start(|earlier, _| match earlier % 7 {
        0 => Answer::Status(500),
        1 => Answer::Slow(Duration::from_millis(200), 204),
        _ => Answer::Status(204),
    })
    .await;
    let secret = create_endpoint(&api, 1, json!({"url": receiver.url("/hooks"), "maxInFlight": 8})).await;
    insert_events(&snapshot, 1, 0..deliveries).await;
    for kill in 0..5 {
        let before = receiver.received().len();
        eventually(WITHIN, async || match receiver.received().len() {
            // After the last events, the rest may be in claims of killed processes.
            received if received > before || kill > 0 => Ok(()),
            _ => Err("no webhook is sent".into()),
        })
        .await;
        tokio::time::sleep(kills.millis(0..400)).await;
        process.kill().unwrap();
        process = launch.start().unwrap();
        api.set_server(&process);
    }
    delivered(4 * WITHIN, &snapshot, deliveries).await;
    let received = receiver.received();
    let ids: BTreeSet<&str> = received.iter().map(|request| request.id()).collect();
    assert_eq!(ids.len(), deliveries as usize, "a delivery was recorded but never arrived");
    received.iter().for_each(|request| request.assert_signed(&secret));
    println!("{pair:?}: {deliveries} deliveries in {} requests", received.len());
    drop(process);
}

/// A request to the API that does not end takes its whole time, too.
async fn request_in_flight_at_the_end_of_the_process_is_sent_again_by_the_next(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    // A claim that was not released, or a retry, would be due only after a minute.
    let launch = sending(deployment.launch())
        .set("HANDOVER_WEBHOOK__TIMEOUT", "30s")
        .set("HANDOVER_WEBHOOK__DELAYS", r#"["1h"]"#);
    let process = launch.start().unwrap();
    let snapshot = deployment.snapshot().await;
    let receiver =
        WebhookReceiver::start(|earlier, _| if earlier == 0 { Answer::Hang } else { Answer::Status(204) })
            .await;
    let api = Api::of(&process);
    create_endpoint(&api, 1, json!({"url": receiver.url("/hooks")})).await;
    insert_events(&snapshot, 1, 0..1).await;
    eventually(WITHIN, async || match receiver.received().len() {
        1 => Ok(()),
        other => Err(format!("{other} requests").into()),
    })
    .await;
    let mut unfinished = TcpStream::connect(process.base().trim_start_matches("http://")).unwrap();
    let head = format!(
        "POST /api/v1/orders HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
         Content-Length: 100\r\nIdempotency-Key: unfinished\r\n\r\n{{",
        api.token(3)
    );
    unfinished.write_all(head.as_bytes()).unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (status, _) = process.terminate(WITHIN).unwrap();
    assert_eq!(status.code(), Some(0), "{}", launch.log());
    // SQLite stores times as text in this form.
    let now = Utc::now().format("%Y-%m-%dT%H:%M:%S%.6fZ");
    let released = format!(
        "SELECT count(*) FROM webhook_deliveries WHERE state = 'PENDING' AND attempts = 0 AND claims = 0 \
         AND claim_id IS NULL AND due_time <= '{now}'"
    );
    assert_eq!(snapshot.number(&released).await, 1);
    let outcomes = snapshot.rows("SELECT outcome FROM webhook_attempts").await.unwrap();
    assert_eq!(outcomes, ["INTERRUPTED"]);
    let process = launch.start().unwrap();
    delivered(WITHIN, &snapshot, 1).await;
    let [first, second] = receiver.received().try_into().unwrap();
    assert_eq!((first.id(), &first.body), (second.id(), &second.body));
    drop(process);
}

async fn receivers_that_never_answer_delay_no_others(pair: Pair) {
    const ENDPOINTS: u32 = 50;
    const HANGING: u32 = 5;
    const EVENTS: u32 = 10;
    let deployment = Deployment::start(pair).await;
    // The deliveries to receivers that never answer would fill all places if they were not limited for each endpoint.
    let launch = sending(deployment.launch())
        .set("HANDOVER_WEBHOOK__TIMEOUT", "30s")
        .set("HANDOVER_WEBHOOK__CONCURRENCY", "16");
    let process = launch.start().unwrap();
    let api = Api::of(&process);
    let snapshot = deployment.snapshot().await;
    let receiver = WebhookReceiver::start(|_, request| match request.path.starts_with("/hanging") {
        true => Answer::Hang,
        false => Answer::Status(204),
    })
    .await;
    for n in 0..ENDPOINTS {
        let path = if n < HANGING { format!("/hanging/{n}") } else { format!("/hooks/{n}") };
        create_endpoint(&api, 1, json!({"url": receiver.url(&path)})).await;
    }
    insert_events(&snapshot, 1, 0..EVENTS).await;
    delivered(4 * WITHIN, &snapshot, (ENDPOINTS - HANGING) * EVENTS).await;
    let pending = "SELECT count(*) FROM webhook_deliveries WHERE state = 'PENDING'";
    assert_eq!(snapshot.number(pending).await, i64::from(HANGING * EVENTS));
    let received = receiver.received();
    let paths: BTreeSet<&str> = received.iter().map(|request| request.path.as_str()).collect();
    assert_eq!(paths.len(), ENDPOINTS as usize, "{paths:?}");
    drop(process);
}

async fn limits_of_endpoints_hold_for_two_processes_together(pair: Pair) {
    const EVENTS: u32 = 30;
    const MAX_IN_FLIGHT: usize = 3;
    const PER_SECOND: u32 = 5;
    const PAUSE: Duration = Duration::from_millis(300);
    let deployment = Deployment::start(pair).await;
    let launch = || sending(deployment.launch()).set("HANDOVER_WEBHOOK__SCAN_INTERVAL", "50ms");
    let processes = [launch(), launch()].map(|launch| launch.start().unwrap());
    let api = Api::of(&processes[0]);
    let snapshot = deployment.snapshot().await;
    let receiver = WebhookReceiver::start(|_, request| match request.path.as_str() {
        "/slow" => Answer::Slow(PAUSE, 204),
        _ => Answer::Status(204),
    })
    .await;
    let slow = json!({"url": receiver.url("/slow"), "maxInFlight": MAX_IN_FLIGHT});
    let rated = json!({"url": receiver.url("/rated"), "maxInFlight": 64, "perSecond": PER_SECOND});
    create_endpoint(&api, 1, slow).await;
    create_endpoint(&api, 1, rated).await;
    insert_events(&snapshot, 1, 0..EVENTS).await;
    delivered(4 * WITHIN, &snapshot, 2 * EVENTS).await;
    let received = receiver.received();
    let arrivals = |path: &str| -> Vec<Instant> {
        received.iter().filter(|request| request.path == path).map(|request| request.at).collect()
    };
    let slow = arrivals("/slow");
    let in_flight_at = |at: &Instant| slow.iter().filter(|one| *one <= at && *at < **one + PAUSE).count();
    let in_flight = slow.iter().map(in_flight_at).max().unwrap();
    assert!(in_flight <= MAX_IN_FLIGHT, "{in_flight}");
    // A burst of one second, then 5 s. With a limit for each process, it would be 2 s after the bursts.
    let rated = arrivals("/rated");
    let took = *rated.iter().max().unwrap() - *rated.iter().min().unwrap();
    assert!(took > Duration::from_millis(3_500), "{took:?}");
    for process in &processes {
        assert_ne!(sent(process).await, 0, "one of the processes has sent nothing");
    }
}

/// Number of deliveries that a process has sent.
async fn sent(process: &Server) -> u64 {
    let url = format!("{}/metrics", process.base());
    let metrics = reqwest::get(url).await.unwrap().text().await.unwrap();
    let name = "handover_webhook_delivered";
    let value =
        metrics.lines().find(|line| line.starts_with(name)).and_then(|line| line.split(' ').next_back());
    value.map_or(0, |value| value.parse().unwrap())
}

async fn thousand_deliveries_to_one_endpoint_use_few_connections(pair: Pair) {
    const EVENTS: u32 = 1_000;
    let deployment = Deployment::start(pair).await;
    let process = sending(deployment.launch()).start().unwrap();
    let api = Api::of(&process);
    let snapshot = deployment.snapshot().await;
    let receiver = WebhookReceiver::start(|_, _| Answer::Status(204)).await;
    create_endpoint(&api, 1, json!({"url": receiver.url("/hooks"), "maxInFlight": 8})).await;
    insert_events(&snapshot, 1, 0..EVENTS).await;
    delivered(4 * WITHIN, &snapshot, EVENTS).await;
    let connections = receiver.connections();
    assert!((1..=10).contains(&connections), "{connections} connections for {EVENTS} deliveries");
    drop(process);
}
