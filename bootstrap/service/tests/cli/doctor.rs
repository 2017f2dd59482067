//! `doctor`: which check reports a problem, and the exit code.

use std::fs;
use std::net::TcpListener;

use chrono::TimeDelta;
use handover_events::{AggregateRef, TenantId};
use handover_outbox::ports::{Clock, EventMetadata, IdleConsumers, NewEvent, Store as _, UnitOfWork as _};
use handover_sql::SqlStore;
use handover_system::SystemClock;
use marketplace::ports::{END_OF_IDS, IdKind};
use marketplace_domain::{Money, Product, ProductStatus};
use serde_json::Value;

use crate::program::{Ran, World, answer, eventually};
use crate::redrive;
use crate::schemas::{CHANGED, EMPTY, NEWER};

const DOCTOR: &str = "doctor --output json --listen 127.0.0.1:0";

/// The text of the check with this name and status. Every check that is not ok must have a reason and advice.
#[track_caller]
fn line(ran: &Ran, check: &str, status: &str) -> String {
    let report = ran.json();
    let checks = report["checks"].as_array().unwrap();
    for each in checks.iter().filter(|each| each["status"] != "ok") {
        assert!(each["why"].is_string() && each["do"].is_string(), "{each}");
    }
    let found = checks.iter().find(|each| each["check"] == check && each["status"] == status);
    let found = found.unwrap_or_else(|| panic!("no {check} that is {status}: {report:#}"));
    ["what", "why", "do"].map(|part| found[part].as_str().unwrap_or_default()).join(" | ")
}

#[track_caller]
fn says(ran: &Ran, check: &str, status: &str, part: &str) {
    let line = line(ran, check, status);
    assert!(line.contains(part), "{part:?} is not in {line:?}");
}

#[test]
fn doctor_before_the_first_start_succeeds_and_creates_no_file() {
    let world = World::new();
    let ran = world.run(DOCTOR);
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""), "{ran:?}");
    says(&ran, "configuration", "ok", "--listen");
    says(&ran, "database", "ok", "handover.db does not exist yet");
    says(&ran, "secrets", "ok", "auth.jwt-secret is generated at the first start");
    says(&ran, "clock", "ok", "UTC");
    says(&ran, "folder", "ok", "B are free");
    assert_eq!(ran.json()["healthy"], Value::Bool(true));
    assert!(world.files().is_empty(), "{:?}", world.files());
}

#[test]
fn doctor_while_serving_names_the_process_and_finds_the_api_ready() {
    let world = World::new();
    let server = world.serve("");
    let ran = world.run(&format!("doctor --output json --listen {}", server.address));
    assert_eq!(ran.code, Some(0), "{ran:?}");
    says(&ran, "lock", "ok", &format!("process {} serves this database", server.id()));
    says(&ran, "port", "ok", &format!("handover is ready on {}", server.address));
    says(&ran, "schema", "ok", "every schema version is current");
    says(&ran, "broker", "ok", "the broker in the database is reachable and has all ");
    says(&ran, "secrets", "ok", "stored in handover.db-jwt-secret");
}

#[test]
fn doctor_as_text_prints_one_line_per_check_with_reason_and_advice_below() {
    let world = World::new();
    world.write("handover.db", EMPTY);
    let ran = world.run("doctor --listen 127.0.0.1:0");
    let text = ran.done();
    assert!(text.starts_with("ok    configuration  every value is valid"), "{text}");
    assert!(text.contains("\nwarn  schema "), "{text}");
    assert!(text.contains(" why: the database is new, or belongs to another program"), "{text}");
    assert!(text.contains(" do:  name the database of the service with --database"), "{text}");
    assert!(text.ends_with(" ok, 1 warn, 0 fail\n"), "{text}");
}

#[test]
fn doctor_fails_for_newer_schema_and_warns_of_older_or_no_schema() {
    let world = World::new();
    world.write("handover.db", NEWER);
    let ran = world.run(DOCTOR);
    assert_eq!(ran.code, Some(1));
    says(&ran, "schema", "fail", "version 9000 of the marketplace schema");
    says(&ran, "schema", "fail", "run the newer version of handover");
    for (file, warning) in [
        (CHANGED, "version 1 of the outbox schema, and this program needs"),
        (EMPTY, "no tables of the outbox schema"),
    ] {
        world.write("handover.db", file);
        let ran = world.run(DOCTOR);
        assert_eq!(ran.code, Some(0));
        says(&ran, "schema", "warn", warning);
    }
}

#[tokio::test]
async fn doctor_fails_for_missing_index_and_changed_column() {
    let world = World::new();
    world.run("migrate").done();
    let store = redrive::open(&world.path("handover.db")).await;
    let mut unit = SqlStore::begin(&store).await.unwrap();
    for sql in [
        "DROP INDEX idx_status_time",
        "ALTER TABLE dead_letters DROP COLUMN note",
        "ALTER TABLE products ADD COLUMN colour TEXT",
    ] {
        unit.execute(sql, Vec::new()).await.unwrap();
    }
    unit.commit().await.unwrap();
    store.close().await;
    let ran = world.run(DOCTOR);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&ran, "schema", "ok", "every schema version is current");
    says(
        &ran,
        "schema",
        "fail",
        "the column note of the table dead_letters is missing: `text` | statements of the program fail",
    );
    assert!(
        ran.stdout.contains("the index idx_status_time of the table outbox_events is missing"),
        "{ran:?}"
    );
    assert!(
        !ran.stdout.contains("colour"),
        "an additional column that may be NULL is no difference: {ran:?}"
    );
}

#[test]
fn doctor_with_invalid_configuration_runs_no_other_check() {
    let ran = World::new().set("HANDOVER_CONSUMER__PREFETCH", "0").run(DOCTOR);
    assert_eq!(ran.code, Some(2));
    says(&ran, "configuration", "fail", "consumer.prefetch in the environment variable");
    says(&ran, "configuration", "fail", "set a whole number from 1 to 65535");
    assert_eq!(ran.json()["checks"].as_array().unwrap().len(), 1);
}

#[test]
fn doctor_fails_for_folder_that_is_missing_or_not_writable() {
    let world = World::new();
    for (database, remedy) in [
        ("missing/shop.db", "create the folder missing"),
        ("/proc/shop.db", "name another file with --database"),
    ] {
        let ran = world.run(&format!("{DOCTOR} --database sqlite://{database}"));
        assert_eq!(ran.code, Some(1), "{ran:?}");
        says(&ran, "folder", "fail", remedy);
    }
}

#[test]
fn doctor_fails_for_file_that_is_not_a_database() {
    let world = World::new();
    world.write("handover.db", "no database at all, but long enough to be read as one".repeat(99));
    let ran = world.run(DOCTOR);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&ran, "database", "fail", "check that the file is an intact, writable database of handover");
}

#[test]
fn doctor_fails_for_port_of_other_program_or_other_database() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let world = World::new();
    let ran = world.run(&format!("doctor --output json --listen {address}"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&ran, "port", "fail", "stop the process that listens there, or choose another address");
    let other = World::new();
    let server = other.serve("");
    let ran = world.run(&format!("doctor --output json --listen {}", server.address));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&ran, "port", "fail", "another handover listens there");
}

#[test]
fn doctor_checks_secrets_by_listen_address_strength_and_file_permissions() {
    use std::os::unix::fs::PermissionsExt;
    let ran = World::new().run("doctor --output json --listen 0.0.0.0:0");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    says(&ran, "secrets", "fail", "set auth.jwt-secret, or listen on 127.0.0.1");

    let placeholder = World::new().set("HANDOVER_AUTH__JWT_SECRET", &"changeme".repeat(4));
    says(&placeholder.run(DOCTOR), "secrets", "warn", "auth.jwt-secret looks like a placeholder");

    let world = World::new();
    world.write("handover.toml", "[auth]\njwt-secret = \"0f4a9c1be27d83560f4a9c1be27d8356\"\n");
    let mode = |name, mode| {
        std::fs::set_permissions(world.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("handover.toml", 0o644);
    says(&world.run(DOCTOR), "secrets", "warn", "chmod 600 handover.toml");
    mode("handover.toml", 0o600);
    says(&world.run(DOCTOR), "secrets", "ok", "auth.jwt-secret is set; gateway.secret is generated");
    world.write("handover.db-gateway-secret", "whsec_");
    mode("handover.db-gateway-secret", 0o644);
    let ran = world.run(DOCTOR);
    assert_eq!(ran.code, Some(1));
    says(&ran, "secrets", "fail", "handover.db-gateway-secret can be read by other users");
}

#[test]
fn doctor_writes_reads_and_removes_a_file_of_the_archive() {
    let world = World::new();
    world.run("migrate").done();
    says(&world.run(DOCTOR), "archive", "ok", "off: archive.url is not set");
    let world = world.set("HANDOVER_ARCHIVE__URL", "file:archive");
    says(&world.run(DOCTOR), "archive", "ok", "a file was written to file:archive, read and removed");
    let lock = world.path("archive/.lock");
    let names: Vec<_> = fs::read_dir(world.path("archive")).unwrap().map(|it| it.unwrap().path()).collect();
    assert_eq!(names, std::slice::from_ref(&lock));
    fs::remove_file(&lock).unwrap();
    fs::create_dir(&lock).unwrap();
    says(&world.run(DOCTOR), "archive", "warn", "cannot write the file check-");
}

#[test]
fn doctor_checks_the_key_of_webhooks() {
    const OUTSIDE: &str = "doctor --output json --listen 0.0.0.0:0";
    let world = World::new();
    says(&world.run(DOCTOR), "webhooks", "ok", "webhook.key is generated at the first start");
    says(&world.run(OUTSIDE), "webhooks", "warn", "set webhook.key to random characters");
    drop(world.serve(""));
    says(&world.run(DOCTOR), "webhooks", "ok", "webhook.key is stored in handover.db-webhook-key");
    says(&world.run(OUTSIDE), "webhooks", "warn", "set webhook.key to the text in handover.db-webhook-key");
    std::fs::write(world.path("handover.db-webhook-key"), "short").unwrap();
    says(&world.run(DOCTOR), "webhooks", "fail", "handover.db-webhook-key contains no valid secret");

    let world = World::new().set("HANDOVER_WEBHOOK__KEY", &"changeme".repeat(4));
    says(&world.run(DOCTOR), "webhooks", "warn", "webhook.key looks like a placeholder");
    says(&world.run(OUTSIDE), "webhooks", "fail", "webhook.key looks like a placeholder");
    let world = world.set("HANDOVER_WEBHOOK__KEY", "0f4a9c1be27d83560f4a9c1be27d8356");
    says(&world.run(OUTSIDE), "webhooks", "ok", "webhook.key is set");
    let world = World::new().set("HANDOVER_DATABASE__URL", "postgres://shop@127.0.0.1:1/shop");
    says(&world.run(DOCTOR), "webhooks", "warn", "webhook.key is not set, so webhooks are off");
}

#[test]
fn doctor_fails_for_database_path_that_is_a_folder() {
    let world = World::new();
    std::fs::create_dir(world.path("shop.db")).unwrap();
    let ran = world.run(&format!("{DOCTOR} --database sqlite://shop.db"));
    assert_eq!(ran.code, Some(1), "{ran:?}");
    says(&ran, "folder", "fail", "the path is a folder: name a file in it with --database");
    says(&ran, "database", "fail", "the path is a folder");
}

#[tokio::test]
async fn doctor_warns_of_clock_behind_newest_event() {
    let world = World::new();
    world.run("migrate").done();
    let event = NewEvent {
        event_id: "e-1".parse().unwrap(),
        event_type: "ORDER_CREATED".to_owned(),
        aggregate: AggregateRef { tenant: TenantId::DEFAULT, kind: "ORDER".to_owned(), id: 1.into() },
        aggregate_seq: Some(1),
        payload: "{}".to_owned(),
        metadata: EventMetadata::default(),
        occurred_at: SystemClock.now() + TimeDelta::hours(2),
        max_retry_count: 3,
        idle_consumers: IdleConsumers::default(),
        routing_key: None,
        due: None,
    };
    world.change(async move |unit| unit.outbox().append(&[event]).await.unwrap()).await;
    let ran = world.run(DOCTOR);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    says(&ran, "clock", "warn", "the clock is 1h 59m");
    says(&ran, "clock", "warn", "set the clock of this machine");
}

#[tokio::test]
async fn doctor_warns_of_next_id_below_largest_id_until_serve_raises_it() {
    let world = World::new();
    world.run("migrate").done();
    let now = SystemClock.now();
    let product = Product {
        id: 40.try_into().unwrap(),
        tenant: TenantId::DEFAULT,
        seller: 20.try_into().unwrap(),
        title: "a camera".to_owned().try_into().unwrap(),
        price: Money::from_minor(8_850).unwrap(),
        status: ProductStatus::OnSale,
        version: 1,
        create_time: now,
        update_time: now,
    };
    world.change(async move |unit| unit.insert_product(&product).await.unwrap()).await;
    let ran = world.run(DOCTOR);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    says(&ran, "ids", "warn", "the next product id is 1, but id 40 exists already");
    says(&ran, "ids", "warn", "handover serve");
    let server = world.serve("");
    let seller = world.token("--user 21");
    let listed = server.ask(&seller, "POST /api/v1/products", r#"{"title":"a lamp","price":42}"#);
    assert_eq!(listed["productId"], 41, "{listed}");
    let checks = world.run(DOCTOR).json();
    assert!(checks["checks"].as_array().unwrap().iter().all(|check| check["check"] != "ids"), "{checks:#}");
    drop(server);
    let near_end = END_OF_IDS - 50;
    world.change(async move |unit| unit.raise_id_block(IdKind::Product, near_end).await.unwrap()).await;
    says(&world.run(DOCTOR), "ids", "warn", "the next product id is 9007199254740942, and the largest");
    let server = world.serve("");
    let refused =
        answer(&server.address, &seller, "POST /api/v1/products", r#"{"title":"a lamp","price":42}"#);
    assert_eq!(refused.0, 500, "{refused:?}");
}

#[test]
fn doctor_warns_of_missing_queue_and_of_broker_in_memory() {
    let world = World::new();
    drop(world.serve(""));
    let world = world.set("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.5");
    says(&world.run(DOCTOR), "broker", "warn", "has no order.timeout.delay.queue.30000ms");
    let world = world.set("HANDOVER_BROKER__URL", "memory:");
    let ran = world.run(DOCTOR);
    says(&ran, "broker", "warn", "set broker.url = \"database:\"");
    assert_eq!(ran.code, Some(0));
}

#[test]
fn moved_database_file_is_named_and_writes_are_refused_until_it_is_back() {
    let world = World::new();
    let server = world.serve("");
    let seller = world.token("--user 20");
    let list =
        || answer(&server.address, &seller, "POST /api/v1/products", r#"{"title":"a lamp","price":42}"#);
    assert_eq!(list().0, 201);
    std::fs::rename(world.path("handover.db"), world.path("moved.db")).unwrap();
    let (status, body) = list();
    assert!(status == 503 && body.contains("C0001"), "{status} {body}");
    let named = "the database file or its write-ahead log was deleted or replaced while it was open";
    assert!(server.text("GET /readyz").contains(named), "{}", server.text("GET /readyz"));
    let ran = world.run(&format!("doctor --output json --listen {}", server.address));
    says(&ran, "database", "fail", "database not found");
    says(&ran, "port", "warn", named);
    std::fs::rename(world.path("moved.db"), world.path("handover.db")).unwrap();
    assert_eq!(list().0, 201);
    eventually(|| server.status("", "GET /readyz") == 200);
}
