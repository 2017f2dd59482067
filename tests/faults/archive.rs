//! The program is killed while it archives and restores.

use std::time::Duration;

use chrono::{TimeDelta, Utc};
use handover_tests::client::Api;
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::process::Launch;
use handover_tests::random::RandomSource;
use handover_tests::snapshot::{DatabaseSnapshot, Table};

use crate::{WITHIN, literal, share_of};

handover_tests::on_pairs!([
    kills_while_archiving_and_restoring_lose_nothing
]: sqlite_and_database SqliteAlone, postgres_and_database PostgresAlone, mariadb_and_database MariaDbAlone);
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
        let sql = format!("UPDATE outbox_events SET {set} WHERE id = {id} AND sent_time IS NOT NULL");
        snapshot.change(&sql).await;
    }
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
        assert!(rows(&snapshot).await == before, "the restored rows differ");
    }
    println!("{pair:?}: {in_the_middle} kills after an event was archived");
}
