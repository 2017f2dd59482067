//! `webhook ...`: endpoints and deliveries from the command line, and the receiver for a first try.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use handover_outbox::ports::Clock;
use handover_system::SystemClock;
use serde_json::{Value, json};
use standardwebhooks::Webhook;

use crate::program::World;

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

fn world() -> World {
    let world = World::new();
    world.run("migrate").done();
    world
}

/// Runs a command of `webhook` and returns its result.
#[track_caller]
fn webhook(world: &World, line: &str) -> Value {
    let ran = world.run(&format!("webhook {line} --output json"));
    ran.done();
    ran.json()
}

#[test]
fn endpoint_is_created_changed_and_deleted_and_its_secret_is_shown_once() {
    let world = world();
    let created = webhook(
        &world,
        "create --url https://erp.example/hooks --types order.*,refund.failed --header x-api-key:17",
    );
    assert_eq!(created["eventTypes"], json!(["order.*", "refund.failed"]));
    assert_eq!(created["headerNames"], json!(["x-api-key"]));
    assert!(created["secret"].as_str().unwrap().starts_with("whsec_"));
    let id = created["endpointId"].as_str().unwrap();
    world.write("headers", "X-Api-Key: 18\n\nx-shop: 3\n");
    let from_file = format!("update {id} --header-file {}", world.path("headers").display());
    assert_eq!(webhook(&world, &from_file)["headerNames"], json!(["x-api-key", "x-shop"]));
    world.write("headers", "no header");
    let refused = world.run(&format!("webhook {from_file}"));
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("for '--header-file <FILE>': write it as 'NAME: VALUE'"), "{refused:?}");
    let shown = webhook(&world, &format!("show {id}"));
    assert_eq!((&shown["url"], shown.get("secret")), (&json!("https://erp.example/hooks"), None));
    let changed = webhook(&world, &format!("update {id} --ordered --full --per-second 5 --description ERP"));
    assert_eq!(
        (&changed["ordered"], &changed["full"], &changed["perSecond"]),
        (&json!(true), &json!(true), &json!(5))
    );
    let line = format!("update {id} --ordered=false --remove per-second --remove headers --types *");
    let changed = webhook(&world, &line);
    assert_eq!((&changed["ordered"], &changed["perSecond"]), (&json!(false), &Value::Null));
    assert_eq!((&changed["headerNames"], &changed["eventTypes"]), (&json!([]), &json!(["*"])));
    assert_eq!((&changed["description"], &changed["full"]), (&json!("ERP"), &json!(true)));
    assert_eq!(webhook(&world, &format!("disable {id} --reason moving"))["disabledReason"], "moving");
    assert_eq!(webhook(&world, &format!("enable {id}"))["status"], "ENABLED");
    let rotated = webhook(&world, &format!("rotate-secret {id} --overlap-hours 2"));
    assert!(rotated["secret"].is_string() && rotated["secret"] != created["secret"]);
    assert_eq!(rotated["secrets"].as_array().unwrap().len(), 2);
    let listed = webhook(&world, "list");
    assert_eq!(listed["items"][0]["endpointId"], id);
    assert!(!listed.to_string().contains("whsec_"));
    assert_eq!(webhook(&world, &format!("delete {id}"))["status"], "DELETED");
    assert_eq!(webhook(&world, "list")["items"], json!([]));
    let audit = world.run("audit list --changes --limit 100 --output json").json();
    let actions: Vec<&str> = audit["items"]
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|entry| entry["action"].as_str().unwrap())
        .collect();
    let expected = ["create", "update", "update", "update", "disable", "enable", "rotate-secret", "delete"];
    assert_eq!(actions, expected.map(|action| format!("webhooks.{action}")));
    assert!(!audit.to_string().contains("whsec_"));
}

#[test]
fn deliveries_are_listed_and_sent_again() {
    let world = world();
    let id = webhook(&world, "create --url https://erp.example --types order.paid")["endpointId"].clone();
    let id = id.as_str().unwrap();
    let sent = webhook(&world, &format!("test {id} --type order.paid"));
    assert_eq!((&sent["type"], &sent["state"]), (&json!("order.paid"), &json!("PENDING")));
    let again = webhook(&world, &format!("redeliver {id} {}", sent["deliveryId"]));
    assert_eq!((&again["eventId"], &again["redelivery"]), (&sent["eventId"], &json!(1)));
    let pending = webhook(&world, &format!("deliveries {id} --state pending --type order.paid --limit 1"));
    assert_eq!(pending["items"][0]["deliveryId"], again["deliveryId"]);
    assert_eq!(pending["nextCursor"], json!(again["deliveryId"].to_string()));
    assert_eq!(webhook(&world, &format!("deliveries {id} --status 500"))["items"], json!([]));
    let table = world.run(&format!("webhook deliveries {id}"));
    assert!(table.done().contains("failedAttempts"), "{table:?}");
    let recovered =
        webhook(&world, &format!("recover {id} --since 2026-01-01T00:00:00Z --include-missing --dry-run"));
    assert_eq!(
        recovered,
        json!({ "dryRun": true, "resent": 0, "created": 0, "more": false, "nextCursor": null })
    );
}

#[test]
fn invalid_values_and_unknown_endpoints_are_refused() {
    let world = world();
    for (line, parts) in [
        ("create --url ftp://erp.example --types *", ["url", "https"]),
        ("create --url https://10.0.0.1 --types *", ["url", "10.0.0.1"]),
        ("create --url https://erp.example --types order.payd", ["eventTypes", "order.paid"]),
        ("create --url https://erp.example --types * --header host:a", ["headers", "host"]),
        (
            "create --url https://erp.example --types * --header x-a:1 --header X-A:2",
            ["headers", "X-A is set twice"],
        ),
    ] {
        world.run(&format!("webhook {line}")).refused(2, &parts);
    }
    let nowhere = "0192f0c1-0000-7000-8000-0000000000ff";
    for line in ["show", "enable", "delete", "rotate-secret", "deliveries"] {
        world.run(&format!("webhook {line} {nowhere}")).refused(1, &[nowhere, "handover webhook list"]);
    }
}

#[test]
fn secrets_are_encrypted_with_a_new_key() {
    let world = world();
    webhook(&world, "create --url https://erp.example --types *");
    let key = world.files().into_iter().find(|name| name.ends_with("webhook-key")).unwrap();
    let previous = std::fs::read_to_string(world.path(&key)).unwrap();
    assert_eq!(
        world.run("webhook rotate-key").done(),
        "0 endpoints are encrypted with the current key now\n"
    );
    let world = world
        .set("HANDOVER_WEBHOOK__KEY", &"another key ".repeat(4))
        .set("HANDOVER_WEBHOOK__PREVIOUS_KEY", previous.trim());
    assert_eq!(
        world.run("webhook rotate-key").done(),
        "1 endpoints are encrypted with the current key now\n"
    );
    assert_eq!(
        world.run("webhook rotate-key").done(),
        "0 endpoints are encrypted with the current key now\n"
    );
}

#[test]
fn names_and_addresses_of_this_service_are_refused() {
    let world = world()
        .set("HANDOVER_WEBHOOK__OWN_HOSTS", "[\"Shop.Example\", \"b\u{fc}cher.example.\"]")
        .set("HANDOVER_WEBHOOK__ALLOW_NETWORKS", "[127.0.0.0/8, 10.0.0.0/8]")
        .set("HANDOVER_HTTP__LISTEN", "127.0.0.1:18080")
        .set("HANDOVER_HTTP__OPS_LISTEN", "10.0.0.1:18081")
        .set("HANDOVER_WEBHOOK__KEY", "0f4a9c1be27d83560f4a9c1be27d8356");
    for url in [
        "https://shop.example/hooks",
        "https://SHOP.example.:8443/",
        "http://xn--bcher-kva.example/",
        "http://127.0.0.1:18080/",
        "http://10.1:18081/",
    ] {
        let ran = world.run(&format!("webhook create --url {url} --types *"));
        ran.refused(2, &["url", "is this service itself"]);
    }
    webhook(&world, "create --url http://127.0.0.1:18081/ --types *");
    let world = world.set("HANDOVER_WEBHOOK__OWN_HOSTS", "[\"https://shop.example\"]");
    world.run("webhook list").refused(2, &["webhook.own-hosts", "without scheme and port"]);
}

#[test]
fn key_must_be_set_outside_loopback() {
    let world = world().set("HANDOVER_HTTP__LISTEN", "0.0.0.0:0");
    let create = "webhook create --url https://erp.example --types *";
    world.run(create).refused(2, &["webhook.key is not set"]);
    assert!(!world.files().iter().any(|name| name.ends_with("webhook-key")));
    let world = world.set("HANDOVER_WEBHOOK__KEY", &"changeme".repeat(4));
    world.run(create).refused(2, &["webhook.key looks like a placeholder", "openssl rand -hex 32"]);
    let world = world.set("HANDOVER_WEBHOOK__KEY", "0f4a9c1be27d83560f4a9c1be27d8356");
    world.run(create).done();
}

/// A process that ends with the test.
struct Listener(Child);

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn send(address: &str, signature: &str, timestamp: i64, body: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(
        connection,
        "POST /hooks HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\nwebhook-id: msg_1\r\n\
         webhook-timestamp: {timestamp}\r\nwebhook-signature: {signature}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut response = String::new();
    connection.read_to_string(&mut response).unwrap();
    response.lines().next().unwrap().to_owned()
}

#[test]
fn listener_verifies_and_prints_requests() {
    let world = World::new();
    world.write("secret", format!("\n{SECRET}\n"));
    let mut command = world.command();
    command.args(["webhook", "listen", "--port", "0", "--secret-file", "secret"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut listener = Listener(child);
    let mut notes = BufReader::new(listener.0.stderr.take().unwrap()).lines();
    let first = notes.next().unwrap().unwrap();
    let address = first.split("http://").nth(1).unwrap().split(';').next().unwrap().to_owned();
    let mut printed = BufReader::new(listener.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let now = SystemClock.now().timestamp();
    let body = r#"{"type":"order.paid"}"#;
    let signature = Webhook::new(SECRET).unwrap().sign("msg_1", now, body.as_bytes()).unwrap();
    assert!(send(&address, &signature, now, body).contains("204"));
    assert_eq!(printed.next().unwrap(), "POST /hooks: verified");
    assert_eq!(printed.next().unwrap(), body);
    assert!(send(&address, &signature, now, r#"{"type":"order.sold"}"#).contains("401"));
    let refused = printed.next().unwrap();
    assert!(refused.starts_with("POST /hooks: no signature matches"), "{refused}");
}

#[test]
fn listener_needs_a_secret() {
    let world = World::new();
    world.write("empty", "\n");
    world.write("wrong", "secret");
    for (arguments, part) in [
        ("", "--secret-file <FILE>"),
        ("--secret-file missing", "No such file"),
        ("--secret-file empty", "the file is empty"),
        ("--secret-file wrong", "whsec_"),
        ("--secret wrong", "whsec_"),
    ] {
        let ran = world.run(&format!("webhook listen --port 0 {arguments}"));
        assert!(ran.code == Some(2) && ran.stderr.contains(part), "{part}: {ran:?}");
    }
}
