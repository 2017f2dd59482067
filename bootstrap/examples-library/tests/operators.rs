//! The commands and routes for operators on the database of the library: the toolkit's tables and two of its own.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;

use handover_events::{AggregateRef, ConsumeStatus, EventId, TenantId};
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::*;
use handover_sql::{SqlStore, SqliteOptions, values};
use handover_system::SystemClock;
use serde_json::Value;

const EVENT: &str = "01a1fc2a-39e5-7c52-8e76-1112ea42c1a5";
const QUEUE: &str = "library.reminders";

pub(crate) struct Database {
    _folder: tempfile::TempDir,
    pub(crate) file: PathBuf,
}

impl Database {
    pub(crate) fn new() -> Database {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("library.db");
        Database { _folder: folder, file }
    }

    fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_handover-example-library"));
        command
            .args(arguments.split(' '))
            .env("LIBRARY_DATABASE__URL", format!("sqlite://{}", self.file.display()))
            .env("LIBRARY_WEBHOOK__ALLOW_NETWORKS", r#"["127.0.0.0/8"]"#)
            .current_dir(self.file.parent().unwrap());
        command
    }

    fn run(&self, arguments: &str) -> Output {
        self.command(arguments).output().unwrap()
    }

    #[track_caller]
    pub(crate) fn done(&self, arguments: &str) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn json(&self, arguments: &str) -> Value {
        serde_json::from_str(&self.done(&format!("{arguments} --output json"))).unwrap()
    }

    /// The database after a day of the library.
    fn after_a_day() -> Database {
        let database = Database::new();
        database.done(&format!("day {}", database.file.display()));
        database
    }
}

async fn store(file: &Path) -> SqlStore {
    let options = SqliteOptions::file(file);
    SqlStore::open_sqlite(&options, Arc::new(SystemClock), WakeupNotifier::default()).await.unwrap()
}

/// Parks an event of the outbox as a dead letter of the reminders.
async fn park(file: &Path) {
    let store = store(file).await;
    let now = SystemClock.now();
    let event_id: EventId = EVENT.parse().unwrap();
    let aggregate = AggregateRef { tenant: TenantId::DEFAULT, kind: "Book".into(), id: 4.into() };
    let payload = r#"{"bookId":4,"reader":"cyd"}"#;
    let event = NewEvent {
        event_id: event_id.clone(),
        event_type: "BOOK_LENT".into(),
        aggregate: aggregate.clone(),
        aggregate_seq: Some(1),
        payload: payload.into(),
        metadata: EventMetadata::default(),
        occurred_at: now,
        max_retry_count: 3,
        idle_consumers: IdleConsumers::default(),
        routing_key: None,
        due: None,
    };
    let consumption = Consumption {
        consumer: "reminders".into(),
        event_id,
        event_type: "BOOK_LENT".into(),
        aggregate,
        aggregate_seq: 1,
        expected: Expected::Absent,
        status: ConsumeStatus::Dead,
        attempts: 4,
        next_retry_time: None,
        lease_until: None,
        error_message: Some("no ink".into()),
        idempotency_key: None,
        consume_result: None,
        payload_hash: String::new(),
        trace_id: "t".into(),
        cost_ms: 0,
        consume_time: now,
    };
    let dead_letter = DeadLetter {
        queue: QUEUE.into(),
        key: EVENT.into(),
        tenant: TenantId::DEFAULT,
        event_type: Some("BOOK_LENT".into()),
        trace_id: None,
        body: payload.into(),
        reason: "no ink".into(),
        died_at: now,
        status: DeadLetterStatus::Open,
        decided_at: None,
        note: None,
    };
    let mut unit = store.begin().await.unwrap();
    unit.outbox().append(&[event]).await.unwrap();
    unit.outbox().record(&[consumption]).await.unwrap();
    unit.outbox().park(&[dead_letter]).await.unwrap();
    unit.commit().await.unwrap();
    store.close().await;
}

#[tokio::test]
async fn migrate_creates_only_the_tables_of_the_toolkit() {
    let database = Database::new();
    let migrated = database.done("migrate");
    assert!(migrated.ends_with("of the outbox schema\n") && !migrated.contains(" and "), "{migrated}");
    let store = store(&database.file).await;
    let mut view = store.view().await.unwrap();
    let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'";
    let rows = view.fetch(tables, values![]).await.unwrap();
    let names: Vec<String> = rows.iter().map(|row| row.text("name").unwrap().to_owned()).collect();
    assert!(names.iter().any(|name| name == "outbox_events"), "{names:?}");
    let others = ["dead_letters", "event_consume_log"];
    let prefixes = ["outbox_", "webhook_"];
    let is_of_toolkit = |name: &String| {
        prefixes.iter().any(|prefix| name.starts_with(prefix)) || others.contains(&name.as_str())
    };
    assert!(names.iter().all(is_of_toolkit), "{names:?}");
    drop(view);
    store.close().await;
    let report = database.json("doctor");
    assert_eq!(report["healthy"], true, "{report}");
}

#[test]
fn advice_and_help_have_the_names_of_the_program() {
    let database = Database::new();
    let text = |output: Vec<u8>| String::from_utf8(output).unwrap();
    let refused = text(database.run("outbox list").stderr);
    assert!(refused.contains("`handover-example-library migrate`"), "{refused}");
    assert!(!refused.contains("`handover "), "{refused}");
    assert!(refused.contains("start the service here once"), "{refused}");
    for arguments in
        ["migrate --help", "backup --help", "outbox list --help", "dlq replay --help", "doctor --help"]
    {
        let help = database.done(arguments);
        assert!(!help.contains(" handover ") && !help.contains("`handover "), "{help}");
        assert!(help.contains("library.toml") && help.contains("LIBRARY_DATABASE__URL"), "{help}");
    }
    let misspelt =
        text(database.command("outbox list").env("LIBRARY_OUTBOX__BATHC", "5").output().unwrap().stderr);
    assert!(misspelt.contains("did you mean LIBRARY_OUTBOX__BATCH?"), "{misspelt}");
}

#[test]
fn database_file_is_copied_also_after_events_were_published() {
    let database = Database::after_a_day();
    let ran = database.done("backup copy.db");
    assert!(ran.contains("is copied to copy.db ("), "{ran}");
    let events = database.json("outbox list");
    assert_eq!(events["items"].as_array().unwrap().len(), 4, "{events}");
    assert_eq!(database.json("outbox list --database sqlite://copy.db"), events);
    let again = database.run("backup copy.db");
    assert_eq!(again.status.code(), Some(1));
    let refused = String::from_utf8(again.stderr).unwrap();
    assert!(refused.contains("a backup never overwrites a file"), "{refused}");
}

#[test]
fn variable_that_names_the_configuration_file_is_not_taken_for_a_misspelt_key() {
    let database = Database::new();
    let file = database.file.with_file_name("settings.toml");
    std::fs::write(&file, "[outbox]\nbatch = 7\n").unwrap();
    let shown = database.command("config show").env("LIBRARY_SETTINGS", &file).output().unwrap();
    let text = String::from_utf8(shown.stdout).unwrap();
    assert!(text.contains("settings.toml"), "{text}");
    assert_eq!(String::from_utf8(shown.stderr).unwrap(), "");
}

#[test]
fn configuration_is_shown_with_origins() {
    let shown = Database::new().json("config show");
    let item = |key: &str| {
        let items = shown["items"].as_array().unwrap().iter();
        items.clone().find(|item| item["key"] == key).unwrap_or_else(|| panic!("{key}: {shown}")).clone()
    };
    assert_eq!(item("database.url")["from"], "variable");
    assert_eq!(item("outbox.batch")["from"], "default");
}

#[test]
fn events_are_listed_and_redriven() {
    let database = Database::after_a_day();
    let events = database.json("outbox list");
    let types: Vec<&str> = events["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|event| event["eventType"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["BOOK_RETURNED", "BOOK_LENT", "BOOK_LENT", "BOOK_LENT"]);
    let redriven = database.json("outbox redrive --status sent --reason again");
    assert_eq!(redriven["matched"], 4, "{redriven}");
    let listed = database.json("outbox list --status retry");
    assert_eq!(listed["items"].as_array().unwrap().len(), 4, "{listed}");
    let audit = database.json("audit list --changes");
    assert_eq!(audit["items"][0]["action"], "outbox.redrive", "{audit}");
}

#[tokio::test]
async fn dead_letter_is_listed_and_replayed() {
    let database = Database::after_a_day();
    park(&database.file).await;
    let listed = database.json("dlq list");
    assert_eq!((&listed["items"][0]["key"], &listed["items"][0]["queue"]), (&EVENT.into(), &QUEUE.into()));
    let replayed = database.json(&format!("dlq replay {EVENT}"));
    assert_eq!(replayed["matched"], 1, "{replayed}");
    assert_eq!(database.json("dlq list")["items"][0]["status"], "REPLAYED");
    let queues = database.json("queues");
    let waiting = queues["items"].as_array().unwrap().iter().find(|queue| queue["name"] == QUEUE).unwrap();
    assert_eq!(waiting["ready"], 1, "{queues}");
}

/// A process that serves the operators' routes.
pub(crate) struct Server {
    process: Child,
    address: String,
}

impl Server {
    pub(crate) fn of(database: &Database) -> Server {
        let mut process = database.command("serve 127.0.0.1:0").stdout(Stdio::piped()).spawn().unwrap();
        let mut greeting = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut greeting).unwrap();
        let address =
            greeting.trim().split("http://").last().unwrap().trim_end_matches("/admin/outbox").to_owned();
        Server { process, address }
    }

    /// Status line and body of the response.
    pub(crate) fn send(&self, method: &str, path: &str, head: &str, body: &str) -> (String, Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let length = body.len();
        let request = format!(
            "{method} /admin/outbox{path} HTTP/1.1\r\nHost: library\r\nConnection: close\r\n{head}\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        stream.write_all(request.as_bytes()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), serde_json::from_str(body).unwrap())
    }

    /// The data of a successful response to an operator.
    #[track_caller]
    fn data(&self, method: &str, path: &str, body: &str) -> Value {
        let (status, mut body) = self.send(method, path, "X-Operator: ada\r\n", body);
        assert_eq!(status, "HTTP/1.1 200 OK", "{body}");
        body["data"].take()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn routes_list_redrive_and_replay_as_the_commands_do() {
    let database = Database::after_a_day();
    park(&database.file).await;
    let server = Server::of(&database);
    let events = server.data("GET", "/outbox?status=SENT", "");
    assert_eq!(events["items"], database.json("outbox list --status sent")["items"]);
    let redriven = server.data("POST", "/outbox/redrive", r#"{"filter":{"status":"SENT"}}"#);
    assert_eq!(redriven["redriven"], 4, "{redriven}");
    let replayed = server.data("POST", "/dead-letters/replay", &format!(r#"{{"keys":["{EVENT}"]}}"#));
    assert_eq!(replayed["replayed"], 1, "{replayed}");
    assert_eq!(database.json("dlq list")["items"][0]["status"], "REPLAYED");
    let (status, refused) = server.send("GET", "/outbox", "", "");
    assert_eq!((status.as_str(), &refused["code"]), ("HTTP/1.1 401 Unauthorized", &"A0301".into()));
}
