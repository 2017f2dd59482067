//! Webhooks while the process that sends them is killed: every delivery arrives at least once, none is lost or stuck.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::Utc;
use handover_tests::client::{Api, Caller};
use handover_tests::deployment::{Deployment, Pair};
use handover_tests::long;
use handover_tests::process::{Launch, eventually};
use handover_tests::random::RandomSource;
use handover_tests::receiver::{Answer, WebhookReceiver};
use handover_tests::snapshot::DatabaseSnapshot;
use serde_json::json;

use crate::{WITHIN, literal};

handover_tests::on_pairs!([killed_process_loses_no_webhook]:
    sqlite_and_database SqliteAlone, mariadb_and_database MariaDbAlone, postgres_and_database PostgresAlone);

const OPERATOR: Caller = Caller::of_tenant(1, 9).operator();

/// A deployment whose receivers are on this machine, with a short time limit, so that claims end soon after a kill.
pub(crate) fn sending(launch: Launch) -> Launch {
    launch
        .set("HANDOVER_WEBHOOK__KEY", "the key that encrypts secrets of endpoints")
        .set("HANDOVER_WEBHOOK__ALLOW_NETWORKS", r#"["127.0.0.0/8"]"#)
        .set("HANDOVER_WEBHOOK__TIMEOUT", "1s")
        .set("HANDOVER_WEBHOOK__DELAYS", r#"["200ms", "1s", "2s", "4s", "8s", "16s", "32s"]"#)
}

/// Inserts events that only the consumer of webhooks takes.
pub(crate) async fn insert_events(snapshot: &DatabaseSnapshot, events: std::ops::Range<u32>) {
    let now = literal(Utc::now());
    let columns = "event_id, event_type, aggregate_type, aggregate_id, payload, create_time, update_time";
    let row = |n: u32| {
        let id = n + 1;
        let payload = json!({
            "invoiceId": id, "periodStart": "2026-01-01", "periodEnd": "2026-01-31", "total": 88.5, "currency": "CNY",
        });
        format!("('webhook-{n}', 'INVOICE_GENERATED', 'Invoice', {id}, '{payload}', {now}, {now})")
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
    let launch = sending(deployment.launch());
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
    let body = json!({"url": receiver.url("/hooks"), "eventTypes": ["invoice.*"], "maxInFlight": 8});
    let endpoint = api.post(OPERATOR, "/api/v1/webhooks", body).await.unwrap().value();
    let secret = endpoint["secret"].as_str().unwrap().to_owned();
    insert_events(&snapshot, 0..deliveries).await;
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
    let sql = "SELECT count(*) FROM webhook_deliveries WHERE state = 'DELIVERED'";
    eventually(4 * WITHIN, async || match snapshot.count(sql).await? {
        delivered if delivered == i64::from(deliveries) => Ok(()),
        other => Err(format!("{other} of {deliveries} are delivered").into()),
    })
    .await;
    let received = receiver.received();
    let ids: BTreeSet<&str> = received.iter().map(|request| request.id()).collect();
    assert_eq!(ids.len(), deliveries as usize, "a delivery was recorded but never arrived");
    received.iter().for_each(|request| request.assert_signed(&secret));
    println!("{pair:?}: {deliveries} deliveries in {} requests", received.len());
    drop(process);
}
