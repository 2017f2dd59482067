//! What operators see of running processes, and filters that cannot match.

use serde_json::{Value, json};

use crate::program::{World, eventually};

#[test]
fn settings_of_the_running_process_are_shown_and_not_those_of_the_command() {
    let world = World::new();
    world.run("migrate").done();
    world
        .run("config show --running")
        .refused(1, &["no running process has reported its settings", "`handover config show`"]);
    world.write(
        "other.toml",
        "[outbox]\nbatch = 321\n[gateway]\nsecret = \"whsec_c2VjcmV0LW9mLXRoZS1nYXRld2F5LTEyMzQ1Ng==\"\n",
    );
    let _server = world.serve("--config other.toml");
    let setting = |key: &str| {
        let shown = world.run("config show --running --output json");
        let items: Vec<Value> = match shown.code {
            Some(0) => shown.json()["items"].as_array().unwrap().clone(),
            _ => Vec::new(),
        };
        items.into_iter().find(|item| item["key"] == key)
    };
    eventually(|| setting("outbox.batch").is_some());
    let batch = setting("outbox.batch").unwrap();
    assert_eq!((&batch["value"], &batch["processes"]), (&json!("321"), &json!([])));
    assert!(batch["from"].as_str().unwrap().ends_with("other.toml"), "{batch}");
    assert_eq!(setting("gateway.secret").unwrap()["value"], "(hidden)");
    let table = world.run("config show --running");
    assert!(table.done().starts_with("key ") && !table.stdout.contains("whsec_"), "{table:?}");
    assert!(!table.stdout.lines().next().unwrap().contains("processes"), "they agree: {table:?}");
}

#[test]
fn filter_that_cannot_match_is_refused_with_the_most_similar_name() {
    let world = World::new();
    world.run("migrate").done();
    for (command, what, nearest) in [
        ("outbox list --event-type order_paid", "there is no event type \"order_paid\"", "\"ORDER_PAID\""),
        ("outbox list --oldest --aggregate-type order", "there is no aggregate type \"order\"", "\"Order\""),
        (
            "outbox redrive --event-type ORDER_PAYED",
            "there is no event type \"ORDER_PAYED\"",
            "\"ORDER_PAID\"",
        ),
        (
            "dlq list --queue order.timeout.queues",
            "there is no queue \"order.timeout.queues\"",
            "\"order.timeout.queue\"",
        ),
        ("consumptions --consumer Inventory", "there is no consumer \"Inventory\"", "\"inventory\""),
    ] {
        world.run(command).refused(2, &[what, nearest]);
    }
    world.run("outbox list --event-type ORDER_PAID").done();
    world
        .run("outbox list --oldest --status sent")
        .refused(2, &["without --status, or with --status new, retry or failed"]);
}
