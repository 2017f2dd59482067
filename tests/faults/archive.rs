//! The program is killed while it archives and restores, and the folder or bucket of the archive refuses files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{TimeDelta, Utc};
use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::{Launch, Server, eventually};
use handover_tests::random::RandomSource;
use handover_tests::snapshot::{DatabaseSnapshot, Table};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::{WITHIN, literal, share_of};

handover_tests::on_pairs!([
    kills_while_archiving_and_restoring_lose_nothing
]: sqlite_and_database SqliteAlone, postgres_and_database PostgresAlone, mariadb_and_database MariaDbAlone);
handover_tests::on_pairs!([
    folder_that_refuses_files_starts_the_alert_and_no_event_leaves
]: refusing_folder SqliteAlone);
handover_tests::on_pairs!([
    bucket_that_refuses_files_starts_the_alert_and_no_event_leaves
]: refusing_bucket SqliteAlone);

const SELLER: i64 = 1;
const BUYER: i64 = 2;
/// Number of orders, each with an event that is archived.
const ORDERS: usize = 12;

/// A deployment with cancelled orders, whose settled events are 40 to 49 days old. No process serves it.
async fn with_old_events(deployment: &Deployment) -> DatabaseSnapshot {
    let server = deployment.launch().start().unwrap();
    let api = Api::of(&server);
    for n in 0..ORDERS {
        let product = api.list_product(SELLER, &format!("Lamp {n}")).await.unwrap().id("productId");
        let order = api.place_order(BUYER, product).await.unwrap().id("orderId");
        assert!(api.cancel(BUYER, order).await.unwrap().done());
    }
    let snapshot = deployment.snapshot().await;
    snapshot.wait_until_settled(WITHIN).await;
    server.terminate(WITHIN).unwrap();
    for id in snapshot.rows("SELECT id FROM outbox_events").await.unwrap() {
        let age = TimeDelta::days(40 + id.parse::<i64>().unwrap() % 10);
        let time = literal(Utc::now() - age);
        let set = format!("create_time = {time}, update_time = {time}, sent_time = {time}");
        // The consumer of a time-out has not applied it yet: an old one would be a finding.
        let settled = "sent_time IS NOT NULL AND event_type <> 'ORDER_TIMEOUT'";
        let sql = format!("UPDATE outbox_events SET {set} WHERE id = {id} AND {settled}");
        snapshot.change(&sql).await;
    }
    let time = literal(Utc::now() - TimeDelta::days(40));
    snapshot.change(&format!("UPDATE event_consume_log SET consume_time = {time}")).await;
    snapshot
}

/// Every row of outbox and consume log.
async fn rows(snapshot: &DatabaseSnapshot) -> [Table; 2] {
    let events = snapshot.table("SELECT * FROM outbox_events ORDER BY id").await.unwrap();
    let records = "SELECT * FROM event_consume_log ORDER BY event_id, consumer";
    [events, snapshot.table(records).await.unwrap()]
}

/// Numbers of events in the outbox and in the archive; no event is in both.
async fn places(snapshot: &DatabaseSnapshot) -> (i64, i64) {
    let archived = "SELECT count(*) FROM outbox_archived_events";
    let in_both = format!("{archived} WHERE event_id IN (SELECT event_id FROM outbox_events)");
    assert_eq!(snapshot.number(&in_both).await, 0);
    (snapshot.number("SELECT count(*) FROM outbox_events").await, snapshot.number(archived).await)
}

fn run(launch: &Launch, arguments: &[&str]) -> serde_json::Value {
    let (code, stdout, stderr) = launch.run(arguments).unwrap();
    assert_eq!(code, Some(0), "{arguments:?}: {stderr}");
    serde_json::from_str(&stdout).unwrap()
}

/// Kills the program after this time, unless it has ended.
async fn killed_after(launch: &Launch, arguments: &[&str], time: Duration) {
    let mut child = launch.spawn(arguments).unwrap();
    tokio::time::sleep(time).await;
    child.kill().unwrap();
    child.wait().unwrap();
}

async fn kills_while_archiving_and_restoring_lose_nothing(pair: Pair) {
    const ARCHIVE: &[&str] = &["outbox", "archive", "--output", "json"];
    const RESTORE: &[&str] = &[
        "outbox",
        "restore",
        "--from",
        "2000-01-01T00:00:00Z",
        "--to",
        "2100-01-01T00:00:00Z",
        "--reason",
        "test",
        "--output",
        "json",
    ];
    let random = RandomSource::of_test(&format!("kills of the archive on {pair:?}"));
    let deployment = Deployment::start(pair).await;
    let snapshot = with_old_events(&deployment).await;
    let folder = tempfile::tempdir().unwrap();
    let url = format!("file:{}", folder.path().display());
    let launch = deployment.launch().set("HANDOVER_ARCHIVE__URL", &url);
    let before = rows(&snapshot).await;
    let all = i64::try_from(before[0].len()).unwrap();
    let delays = random.stream("delays");
    let mut in_the_middle = 0;
    for _ in 0..share_of(40) {
        killed_after(&launch, ARCHIVE, delays.millis(0..400)).await;
        let (left, archived) = places(&snapshot).await;
        assert_eq!(left + archived, all);
        in_the_middle += i64::from(archived > 0);
        run(&launch, ARCHIVE);
        let (left, archived) = places(&snapshot).await;
        assert_eq!((left + archived, archived >= ORDERS as i64), (all, true), "{archived} of {all}");
        let unfinished = "SELECT count(*) FROM outbox_archive_files WHERE done_time IS NULL";
        assert_eq!(snapshot.number(unfinished).await, 0);
        killed_after(&launch, RESTORE, delays.millis(0..400)).await;
        let (left, archived) = places(&snapshot).await;
        assert_eq!(left + archived, all);
        run(&launch, RESTORE);
        assert_eq!(places(&snapshot).await, (all, 0));
        // So that the events are archived again at once.
        snapshot.change("UPDATE outbox_events SET restored_time = NULL").await;
        assert!(rows(&snapshot).await == before, "the restored rows differ");
    }
    println!("{pair:?}: {in_the_middle} kills after an event was archived");
    // A file that a killed process left is removed after an hour.
    let time = literal(Utc::now() - TimeDelta::hours(2));
    snapshot.change(&format!("UPDATE outbox_archive_unrecorded SET create_time = {time}")).await;
    run(&launch, ARCHIVE);
    assert_eq!(snapshot.number("SELECT count(*) FROM outbox_archive_unrecorded").await, 0);
    let recorded = snapshot.number("SELECT count(*) FROM outbox_archive_files").await;
    // Each has a manifest.
    assert_eq!(i64::try_from(files_in(folder.path())).unwrap(), 2 * recorded);
}

/// Number of files in a folder and the folders below it, without the lock.
fn files_in(folder: &Path) -> usize {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let of = |path: PathBuf| match path.is_dir() {
        true => files_in(&path),
        false => usize::from(path.file_name().is_some_and(|name| name != ".lock")),
    };
    entries.map(of).sum()
}

fn is_alert_active(launch: &Launch) -> bool {
    let alerts = run(launch, &["alerts", "--output", "json"]);
    alerts["items"].as_array().unwrap().iter().any(|each| each["alert"] == "archive-failed")
}

/// Starts a process that archives every second, and waits until the alert is active.
async fn started_with_alert(launch: Launch) -> (Server, Launch) {
    let launch =
        launch.set("HANDOVER_ARCHIVE__INTERVAL", "1s").set("HANDOVER_METRICS__STATE_INTERVAL", "500ms");
    let server = launch.start().unwrap();
    eventually(WITHIN, async || match is_alert_active(&launch) {
        true => Ok(()),
        false => Err("the alert is not active yet".into()),
    })
    .await;
    (server, launch)
}

async fn folder_that_refuses_files_starts_the_alert_and_no_event_leaves(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let snapshot = with_old_events(&deployment).await;
    let before = rows(&snapshot).await;
    let folder = tempfile::tempdir().unwrap();
    // Files in place of the folders of the years in which the events happened.
    let years = [40, 50].map(|days| (Utc::now() - TimeDelta::days(days)).format("%Y").to_string());
    let obstacles: BTreeSet<PathBuf> = years.iter().map(|year| folder.path().join(year)).collect();
    for obstacle in &obstacles {
        std::fs::write(obstacle, "").unwrap();
    }
    let launch =
        deployment.launch().set("HANDOVER_ARCHIVE__URL", &format!("file:{}", folder.path().display()));
    let (server, launch) = started_with_alert(launch).await;
    assert!(rows(&snapshot).await == before, "an event left the outbox without its file");
    assert_eq!(places(&snapshot).await.1, 0);
    for obstacle in &obstacles {
        std::fs::remove_file(obstacle).unwrap();
    }
    eventually(WITHIN, async || match (places(&snapshot).await.1, is_alert_active(&launch)) {
        (archived, false) if archived >= ORDERS as i64 => Ok(()),
        (archived, active) => Err(format!("{archived} events are archived; alert: {active}").into()),
    })
    .await;
    server.terminate(WITHIN).unwrap();
}

/// A server that refuses every request, as an object store does without permission.
async fn refusing_server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        let body = "<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>";
        let length = body.len();
        let response = format!(
            "HTTP/1.1 403 Forbidden\r\ncontent-type: application/xml\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{body}"
        );
        while let Ok((mut client, _)) = listener.accept().await {
            let response = response.clone();
            tokio::spawn(async move {
                let mut request = [0; 65_536];
                let _ = client.read(&mut request).await;
                let _ = client.write_all(response.as_bytes()).await;
                let _ = client.shutdown().await;
                // The rest of the request, so that the response is not lost with the connection.
                while client.read(&mut request).await.is_ok_and(|read| read > 0) {}
            });
        }
    });
    endpoint
}

async fn bucket_that_refuses_files_starts_the_alert_and_no_event_leaves(pair: Pair) {
    let deployment = Deployment::start(pair).await;
    let snapshot = with_old_events(&deployment).await;
    let before = rows(&snapshot).await;
    let endpoint = refusing_server().await;
    let launch = deployment
        .launch()
        .set("HANDOVER_ARCHIVE__URL", &format!("s3://archive?region=eu-central-1&endpoint={endpoint}"))
        .set("AWS_ACCESS_KEY_ID", "key")
        .set("AWS_SECRET_ACCESS_KEY", "secret");
    // In a thread of its own: this one serves the requests.
    let command = launch.clone();
    let ran = tokio::task::spawn_blocking(move || command.run(&["outbox", "archive"]).unwrap());
    let (code, _, stderr) = ran.await.unwrap();
    assert_eq!(code, Some(3), "{stderr}");
    assert!(stderr.contains("denies access"), "{stderr}");
    let (server, _) = started_with_alert(launch).await;
    assert!(rows(&snapshot).await == before, "an event left the outbox without its file");
    assert_eq!(places(&snapshot).await.1, 0);
    server.terminate(WITHIN).unwrap();
}
