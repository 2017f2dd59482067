//! The log: a reader that stalls stops nothing.

use std::io::Read;

use serde_json::Value;

use crate::program::{Log, Server, World, eventually};

const DROPPED: &str = "log: lines dropped";

/// Capacity of a pipe on Linux.
const PIPE_BYTES: usize = 64 * 1024;

/// More orders than the queue has room for.
const MAX_ORDERS: u32 = 2_000;

/// A market whose log has so many lines that a few requests fill a pipe.
fn world() -> World {
    World::new().set("HANDOVER_LOG__LEVEL", "trace").set("HANDOVER_RATE_LIMIT__CAPACITY", "100000")
}

/// Offers and orders a product, and sends a request that must not wait for anything.
fn request(server: &Server, [seller, buyer]: &[String; 2]) {
    let product = server.ask(seller, "POST /api/v1/products", r#"{"title":"Desk lamp","price":1}"#);
    server.ask(buyer, "POST /api/v1/orders", &format!(r#"{{"productId":{}}}"#, product["productId"]));
    assert!(server.text("GET /healthz").contains("\"up\""));
}

/// The number of dropped lines that `/metrics` shows.
fn dropped(server: &Server) -> u64 {
    let text = server.text("GET /metrics");
    let value = text.lines().find_map(|line| line.strip_prefix("handover_log_lines_dropped_total "));
    value.unwrap_or_else(|| panic!("no counter of dropped lines: {text}")).parse().unwrap()
}

#[test]
fn log_reader_that_stalls_stops_no_request_and_learns_how_many_lines_were_dropped() {
    let world = world();
    let (mut server, log) = world.serve_with_log("");
    let users = ["--user 1", "--user 2"].map(|user| world.token(user));
    let mut orders = 0;
    while dropped(&server) == 0 {
        assert!(orders < MAX_ORDERS, "no line was dropped after {orders} orders");
        request(&server, &users);
        orders += 1;
    }
    let log = Log::read(log);
    eventually(|| !log.with(DROPPED).is_empty());
    server.signal("TERM");
    assert_eq!(server.ended(), Some(0));
    let notes = log.with(DROPPED);
    let [note] = &notes[..] else { panic!("not one line: {notes:#?}") };
    let note: Value = serde_json::from_str(note).unwrap();
    assert!(note["dropped"].as_u64().unwrap() > 0, "{note}");
    assert_eq!(note["level"], "ERROR");
    let lines = log.into_lines();
    assert!(lines.last().unwrap().contains("service: stopped"), "{:?}", lines.last());
    for line in &lines {
        serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    }
}

#[test]
fn signal_stops_process_although_its_log_is_never_read() {
    let world = world();
    let (mut server, mut log) = world.serve_with_log("");
    let users = ["--user 1", "--user 2"].map(|user| world.token(user));
    for _ in 0..10 {
        request(&server, &users);
    }
    server.signal("TERM");
    assert_eq!(server.ended(), Some(0));
    let mut text = Vec::new();
    log.read_to_end(&mut text).unwrap();
    assert!(text.len() >= PIPE_BYTES / 2, "the pipe was not full: {} bytes", text.len());
}
