//! `outbox`, `dlq`, `queues`: these commands print the responses of the API, also while a process serves, and create
//! no database.

use std::collections::BTreeSet;

use handover_events::TenantId;
use handover_outbox::ports::{Clock, DeadLetter, DeadLetterStatus, NewEvent};
use handover_system::SystemClock;
use serde_json::{Value, json};

use crate::program::{Server, World, eventually};
use crate::redrive::event_of;

/// Serves a market with three products and two orders; returns when the four events of the orders are published.
pub(crate) fn market(world: &World) -> Server {
    let server = world.serve("");
    let [seller, buyer] = [1, 2].map(|user| world.token(&format!("--user {user}")));
    for (title, price) in [("Desk lamp", "88.50"), ("Chair", "40"), ("Long table", "120.05")] {
        let body = format!(r#"{{"title":"{title}","price":{price}}}"#);
        server.ask(&seller, "POST /api/v1/products", &body);
    }
    server.ask(&buyer, "POST /api/v1/orders", r#"{"productId":1}"#);
    server.ask(&buyer, "POST /api/v1/orders", r#"{ "productId":2}"#);
    eventually(|| {
        world.run("outbox list --status sent --output json").json()["items"].as_array().unwrap().len() == 4
    });
    server
}

#[test]
fn lists_equal_the_api_responses_while_serving() {
    let world = World::new();
    let server = market(&world);
    let operator = world.token("--user 9 --role operator --role pii");
    for (flags, query) in [
        ("", ""),
        ("--limit 3", "?limit=3"),
        ("--status sent --event-type ORDER_CREATED", "?status=SENT&eventType=ORDER_CREATED"),
        ("--aggregate-id 2 --tenant 1", "?aggregateId=2&tenantId=1"),
        ("--aggregate-type Payment --aggregate-id 1", "?aggregateType=Payment&aggregateId=1"),
        ("--status FAILED", "?status=FAILED"),
    ] {
        let response = server.ask(&operator, &format!("GET /api/v1/ops/outbox{query}"), "");
        let shown = world.run(&format!("outbox list {flags} --output json"));
        assert_eq!(shown.code, Some(0), "{shown:?}");
        assert_eq!(shown.json(), response, "{flags}");
    }
    eventually(|| {
        let response = server.ask(&operator, "GET /api/v1/ops/queues", "");
        world.run("queues --output json").json() == response
    });
}

#[test]
fn list_continues_at_cursor() {
    let world = World::new();
    let _server = market(&world);
    let mut seen = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = world.run(&format!("outbox list --limit 3 --output json {cursor}")).json();
        seen.extend(page["items"].as_array().unwrap().iter().map(|item| item["eventId"].to_string()));
        match page["nextCursor"].as_str() {
            Some(next) => cursor = format!("--cursor {next}"),
            None => break,
        }
    }
    let whole = world.run("outbox list --output json").json();
    let ids: Vec<String> =
        whole["items"].as_array().unwrap().iter().map(|item| item["eventId"].to_string()).collect();
    assert_eq!(seen, ids);
    let cut = world.run("outbox list --limit 1");
    assert!(cut.stderr.starts_with("more rows exist: continue with --cursor "), "{cut:?}");
}

#[test]
fn table_without_terminal_has_header_and_rows_without_borders() {
    let world = World::new();
    let _server = market(&world);
    let table = world.run("outbox list");
    let lines: Vec<Vec<&str>> = table.done().lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines[0],
        ["eventId", "eventType", "aggregateType", "aggregateId", "status", "retryCount", "createTime"],
        "without the empty columns lastError and waitsFor"
    );
    assert_eq!(lines.len(), 5, "{table:?}");
    assert_eq!(lines[1][3..6], ["2", "SENT", "0"]);
    assert!(!table.stdout.contains(['|', '│', '─']) && table.stderr.is_empty(), "{table:?}");
    let queues = world.run("queues");
    assert!(queues.done().starts_with("name "), "{queues:?}");
    assert!(queues.stdout.contains("order.dlq.queue"), "{queues:?}");
}

#[test]
fn topology_shows_every_event_type_with_its_consumers_and_their_guarantee() {
    let world = World::new();
    world.run("migrate").done();
    let listed = world.run("topology --output json").json();
    let rows = listed["items"].as_array().unwrap();
    let paid = json!({
        "eventType": "ORDER_PAID", "routingKey": "order.paid", "ordered": true, "consumer": "fulfillment",
        "queue": "order.fulfillment.queue", "guarantee": "exactly once", "selective": false,
    });
    assert!(rows.contains(&paid), "{rows:#?}");
    let selective = rows.iter().filter(|row| row["selective"] == true);
    let selective: BTreeSet<&str> = selective.filter_map(|row| row["consumer"].as_str()).collect();
    assert_eq!(selective, ["coupon", "points", "wallet", "webhooks"].into());
    let names =
        |field: &str| -> BTreeSet<&str> { rows.iter().filter_map(|row| row[field].as_str()).collect() };
    assert!(names("eventType").len() > 10, "{rows:#?}");
    assert!(names("consumer").is_superset(&["inventory", "fulfillment", "webhooks"].into()), "{rows:#?}");
    assert!(world.run("topology").done().starts_with("eventType "));
}

#[test]
fn outbox_show_prints_the_whole_event() {
    let world = World::new();
    let _server = market(&world);
    let list = world.run("outbox list --event-type ORDER_CREATED --aggregate-id 1 --output json").json();
    let event = &list["items"][0];
    let id = event["eventId"].as_str().unwrap();
    assert_eq!(&world.run(&format!("outbox show {id} --output json")).json(), event);
    assert_eq!(event["payload"]["orderId"], json!(1));
    assert_eq!(event["idleConsumers"], json!(["coupon", "points", "wallet", "webhooks"]));
    let text = world.run(&format!("outbox show {id}"));
    for part in [format!("eventId        {id}\n"), format!("payload        {}\n", event["payload"])] {
        assert!(text.done().contains(&part), "{part} is not in {}", text.stdout);
    }
    world
        .run("outbox show no-such-event")
        .refused(1, &["error: not found in handover.db: event no-such-event", "see `handover outbox list`"]);
}

/// If no index supports the filter, 100,000 ids are searched for a page, so row 1 is on the second page.
#[tokio::test]
async fn page_without_matching_rows_names_the_cursor_of_older_rows() {
    let world = World::new();
    world.run("migrate").done();
    let now = SystemClock.now();
    let rare = NewEvent { event_type: "ORDER_PAID".into(), ..event_of("rare", 1, 1, now) };
    let others = (2..=100_001).map(|order| event_of(&format!("e-{order}"), order, 1, now));
    let rows: Vec<NewEvent> = [rare].into_iter().chain(others).collect();
    world.change(async |unit| unit.outbox().append(&rows).await.unwrap()).await;
    let first = world.run("outbox list --event-type ORDER_PAID");
    assert_eq!(first.done().lines().count(), 1, "{first:?}");
    assert_eq!(first.stderr, "more rows exist: continue with --cursor 2\n");
    let second = world.run("outbox list --event-type ORDER_PAID --cursor 2");
    assert!(second.done().contains("rare"), "{second:?}");
    assert_eq!(second.stderr, "");
}

#[test]
fn empty_list_succeeds_with_a_note_on_stderr() {
    let world = World::new();
    world.run("migrate").done();
    for command in [
        "outbox list",
        "outbox blocked",
        "dlq list",
        "payment list",
        "payment reports",
        "refund list",
        "order find --buyer 1",
        "audit list --changes",
        "queues",
    ] {
        let ran = world.run(command);
        assert_eq!(ran.done().lines().count(), 1, "{ran:?}");
        assert_eq!(ran.stderr, "no rows match\n");
        let answer = world.run(&format!("{command} --output json")).json();
        assert_eq!(answer, json!({ "items": [], "nextCursor": null }), "{command}");
    }
}

#[test]
fn commands_without_database_fail_and_create_no_file() {
    let world = World::new();
    world.write("empty.db", "");
    let commands = [
        "outbox list",
        "outbox show e-1",
        "outbox blocked",
        "outbox redrive e-1",
        "outbox release Order 1",
        "dlq list",
        "dlq replay --all",
        "dlq discard --all --reason r",
        "order timeline 1",
        "order show 1",
        "order find --buyer 1",
        "payment list",
        "payment show 1",
        "config show --running",
        "payment reports",
        "payment reports close 1 --reason r",
        "refund list",
        "refund show 1",
        "refund retry 1 --reason r",
        "refund settle 1 --reason r",
        "audit list",
        "queues",
    ];
    for command in commands {
        for (flag, database) in [("", "handover.db"), ("--database sqlite://empty.db", "empty.db")] {
            world.run(&format!("{command} {flag}")).refused(
                1,
                &[
                    &format!("error: database not found: {database}"),
                    "start the service here once (or run `handover migrate`)",
                ],
            );
        }
    }
    assert_eq!(world.files(), ["empty.db"]);
}

#[test]
fn queues_of_memory_broker_are_refused() {
    let world = World::new().set("HANDOVER_BROKER__URL", "memory:");
    world.run("migrate").done();
    world.run("queues").refused(2, &["broker.url = \"memory:\"", "GET .../queues"]);
}

/// An open dead letter.
pub(crate) fn dead_letter(
    queue: &str,
    key: &str,
    event_type: Option<&str>,
    body: &str,
    reason: &str,
) -> DeadLetter {
    DeadLetter {
        queue: queue.to_owned(),
        key: key.to_owned(),
        tenant: TenantId::DEFAULT,
        event_type: event_type.map(str::to_owned),
        trace_id: None,
        body: body.to_owned(),
        reason: reason.to_owned(),
        died_at: SystemClock.now(),
        status: DeadLetterStatus::Open,
        decided_at: None,
        note: None,
    }
}

/// Parks two dead letters, one of them a message that is not an event of this service.
async fn park(world: &World) {
    let dead_letters = [
        dead_letter(
            "inventory.update.queue",
            "e-1",
            Some("ORDER_CREATED"),
            r#"{"eventId":"e-1"}"#,
            "no such order",
        ),
        dead_letter("order.timeout.queue", "h-2", None, "not JSON", "\u{1b}[2Jnot an object\nat all"),
    ];
    world.change(async move |unit| unit.outbox().park(&dead_letters).await.unwrap()).await;
}

#[tokio::test]
async fn dead_letters_are_listed_newest_first_with_control_characters_escaped() {
    let world = World::new();
    world.run("migrate").done();
    park(&world).await;
    let answer = world.run("dlq list --output json").json();
    assert_eq!(answer["nextCursor"], Value::Null);
    let items = answer["items"].as_array().unwrap();
    assert_eq!(items.len(), 2);
    assert_eq!((&items[1]["key"], &items[1]["body"]), (&json!("e-1"), &json!({"eventId": "e-1"})));
    assert_eq!((&items[0]["eventType"], &items[0]["body"]), (&Value::Null, &json!("not JSON")));
    assert_eq!(items[0]["reason"], "\u{1b}[2Jnot an object\nat all");
    let table = world.run("dlq list");
    assert_eq!(table.done().lines().count(), 3);
    assert!(table.stdout.contains("\\u{1b}[2Jnot an object\\nat all"), "{table:?}");
    let first = world.run("dlq list --limit 1 --output json").json();
    assert_eq!(first["items"], json!([items[0]]));
    let cursor = first["nextCursor"].as_str().unwrap();
    let rest = world.run(&format!("dlq list --limit 1 --cursor {cursor} --output json")).json();
    assert_eq!(rest, json!({ "items": [items[1]], "nextCursor": null }));
    for (flags, found) in [
        ("--queue order.timeout.queue", json!([items[0]])),
        ("--event-type ORDER_CREATED", json!([items[1]])),
        ("--status open --tenant 1", json!([items[0], items[1]])),
        ("--status discarded", json!([])),
        ("--tenant 2", json!([])),
    ] {
        let shown = world.run(&format!("dlq list {flags} --output json")).json();
        assert_eq!(shown["items"], found, "{flags}");
    }
}
