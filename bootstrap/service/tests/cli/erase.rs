//! `erase`: the texts about a user, while a process serves the same database.

use std::fs;

use handover_outbox::ports::{Store as _, UnitOfWork as _};
use handover_sql::SqlStore;
use serde_json::json;

use crate::program::{Server, World, eventually};
use crate::redrive;

const PLANTED: &str = "PLANTED";

/// Serves a market with a refunded and a completed order of user 2 at user 1, and texts of both.
fn market(world: &World) -> Server {
    let server = world.serve("");
    let [seller, buyer] = [1, 2].map(|user| world.token(&format!("--user {user}")));
    for order in [1, 2] {
        let product = format!(r#"{{"title":"{PLANTED} title {order}","price":88.50}}"#);
        server.ask(&seller, "POST /api/v1/products", &product);
        server.ask(&buyer, "POST /api/v1/orders", &format!(r#"{{"productId":{order}}}"#));
        let pay = format!("POST /api/v1/orders/{order}/payments");
        server.ask(&buyer, &pay, r#"{"paymentMethod":"card"}"#);
        let report = format!(
            r#"{{"paymentId":{order},"gatewayTxnId":"txn-{order}","result":"SUCCESS","amount":88.50}}"#
        );
        server.report(world, "POST /api/v1/payments/callback", &report);
    }
    let status =
        |order: i32| server.ask(&buyer, &format!("GET /api/v1/orders/{order}"), "")["status"].clone();
    let reason = format!(r#"{{"reason":"{PLANTED} refund"}}"#);
    server.ask(&buyer, "POST /api/v1/orders/1/refunds", &reason);
    let shipment = format!(r#"{{"carrier":"{PLANTED} carrier","trackingNo":"{PLANTED} number"}}"#);
    server.ask(&seller, "POST /api/v1/orders/2/ship", &shipment);
    server.ask(&buyer, "POST /api/v1/orders/2/complete", "");
    eventually(|| status(1) == "refunded" && status(2) == "completed");
    server
}

/// Whether a table contains this text: the copy has no free pages.
fn is_stored(world: &World, copy: &str, text: &str) -> bool {
    world.run(&format!("backup {copy}")).done();
    fs::read(world.path(copy)).unwrap().windows(text.len()).any(|bytes| bytes == text.as_bytes())
}

#[test]
fn no_table_contains_a_text_about_an_erased_user() {
    let world = World::new()
        // Until its payment deadline, an order has an event that is not settled.
        .set("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.1")
        .set("HANDOVER_GATEWAY__SANDBOX_DELAY", "10ms")
        .set("HANDOVER_GATEWAY__SCAN_INTERVAL", "50ms");
    let server = market(&world);
    let redriven = format!(
        "outbox redrive --status sent --aggregate-id 1 --event-type ORDER_PAID --reason {PLANTED}-redrive"
    );
    world.run(&redriven).done();
    for text in ["title", "refund", "carrier", "number"].map(|text| format!("{PLANTED} {text}")) {
        assert!(is_stored(&world, &format!("{text}.db").replace(' ', "-"), &text), "{text}");
    }
    eventually(|| world.run("erase --user 2 --reason ticket-4711").code == Some(0));
    assert!(!is_stored(&world, "buyer.db", "PLANTED refund"));
    assert!(is_stored(&world, "titles.db", "PLANTED title"), "the titles are of the seller");
    let erased = world.run("erase --user 1 --reason ticket-4712 --output json");
    assert_eq!((erased.code, &erased.json()["products"]), (Some(0), &json!(2)), "{erased:?}");
    assert!(!is_stored(&world, "both.db", PLANTED));
    let again = world.run("erase --user 1 --reason ticket-4713 --output json").json();
    let rows = ["products", "orderRows", "eventRows", "findings", "responses", "auditEntries"];
    assert!(rows.iter().all(|rows| again[*rows] == 0), "{again}");
    assert_eq!((&again["complete"], &again["unsettledEvents"]), (&json!(true), &json!({})));
    let report = world.run("reconcile --output json");
    assert_eq!((report.code, &report.json()["sound"]), (Some(0), &json!(true)), "{report:?}");
    let entries = world.run("audit list --changes --output json").json();
    let entries = entries["items"].as_array().unwrap();
    let reasons =
        entries.iter().filter(|entry| entry["action"] == "users.erase").map(|entry| &entry["reason"]);
    assert!(reasons.clone().any(|reason| reason == "ticket-4711"), "{entries:?}");
    assert!(reasons.clone().all(|reason| reason != "***"), "the reason of an erasure stays: {entries:?}");
    drop(server);
}

/// Sets the times of all published events back.
async fn make_events_old(world: &World) {
    let time = "'2026-01-05T00:00:00.000000Z'";
    let old =
        format!("UPDATE outbox_events SET create_time = {time}, sent_time = {time} WHERE status = 'SENT'");
    let store = redrive::open(&world.path("handover.db")).await;
    let mut unit = SqlStore::begin(&store).await.unwrap();
    unit.execute(&old, Vec::new()).await.unwrap();
    let consumed = format!("UPDATE event_consume_log SET consume_time = {time}");
    unit.execute(&consumed, Vec::new()).await.unwrap();
    unit.commit().await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn restored_events_contain_no_text_that_was_erased_while_they_were_archived() {
    const ARCHIVE: &str = "outbox archive --older-than 1h --output json";
    let world = World::new()
        .set("HANDOVER_ARCHIVE__URL", "file:archive")
        .set("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.1")
        .set("HANDOVER_GATEWAY__SANDBOX_DELAY", "10ms")
        .set("HANDOVER_GATEWAY__SCAN_INTERVAL", "50ms");
    let server = market(&world);
    let mut kept = json!(null);
    // The last event is settled when the payment deadline is over.
    for _ in 0..200 {
        make_events_old(&world).await;
        kept = world.run(&format!("{ARCHIVE} --dry-run")).json()["kept"].clone();
        if kept == json!([]) {
            break;
        }
    }
    assert_eq!(kept, json!([]));
    let events = world.run(ARCHIVE).json()["events"].as_u64().unwrap();
    let erased = world.run("erase --user 2 --reason ticket-4711 --output json");
    let counts =
        ["archiveFiles", "archivedEvents", "archiveFilesLeft"].map(|name| erased.json()[name].clone());
    assert_eq!((erased.code, counts), (Some(0), [json!(1), json!(0), json!(0)]), "{erased:?}");
    let again = world.run("erase --user 2 --reason ticket-4712 --output json").json();
    assert_eq!((&again["archiveFiles"], &again["eventRows"]), (&json!(0), &json!(0)));
    let restore =
        "outbox restore --from 2026-01-01T00:00:00Z --to 2026-01-09T00:00:00Z --reason why --output json";
    assert_eq!(world.run(restore).json()["restored"], json!(events));
    assert!(!is_stored(&world, "restored.db", "PLANTED refund"));
    assert_eq!(world.run("reconcile --output json").json()["sound"], json!(true));
    drop(server);
}

#[test]
fn unfinished_orders_are_left_and_reported() {
    let world = World::new();
    let server = world.serve("");
    let [seller, buyer] = [1, 2].map(|user| world.token(&format!("--user {user}")));
    server.ask(&seller, "POST /api/v1/products", r#"{"title":"PLANTED lamp","price":40}"#);
    server.ask(&buyer, "POST /api/v1/orders", r#"{"productId":1}"#);
    let erased = world.run("erase --user 2 --reason ticket-4711 --output json");
    assert_eq!(erased.code, Some(1), "{erased:?}");
    assert!(erased.stderr.contains("1 orders are not finished"), "{erased:?}");
    assert_eq!((&erased.json()["complete"], &erased.json()["unfinishedOrders"]), (&json!(false), &json!(1)));
    assert_eq!(world.run("erase --user 2").code, Some(2), "a reason is required");
}
