//! The tour with curl: runs its script against the program, and compares the commands of its page with the script.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::program::{Ran, World};

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs")
}

/// Runs the script in this folder, with its program and settings, against the service at this address.
fn tour(world: &World, address: &str) -> Ran {
    let program = world.command();
    let mut script = Command::new(docs().join("tour.sh"));
    script.arg(format!("http://{address}")).env("PROGRAM", program.get_program());
    script.current_dir(program.get_current_dir().unwrap()).stdin(Stdio::null());
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    let output = script.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Ran { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

#[test]
fn tour_succeeds_twice_on_the_same_database() {
    let world = World::new();
    let server = world.serve("");
    for orders in [3, 6] {
        let ran = tour(&world, &server.address);
        let last = ran.done().lines().last().unwrap();
        assert!(
            last.starts_with("tour: ") && last.ends_with(" steps, every response as expected"),
            "{ran:?}"
        );
        let created = world.run("outbox list --event-type ORDER_CREATED --output json").json();
        assert_eq!(created["items"].as_array().unwrap().len(), orders, "{created:#}");
    }
    let created = world.run("outbox list --event-type ORDER_CREATED --output json").json();
    let mut orders: Vec<i64> =
        created["items"].as_array().unwrap().iter().map(|it| it["aggregateId"].as_i64().unwrap()).collect();
    orders.sort_unstable();
    let timelines =
        orders.iter().map(|order| world.run(&format!("order timeline {order} --output json")).json());
    let statuses = ["completed", "refunded", "cancelled"];
    for (timeline, status) in timelines.zip(statuses.into_iter().chain(statuses)) {
        assert!(timeline.to_string().contains(&format!("\"{status}\"")), "no {status}: {timeline:#}");
    }
    assert_eq!(world.run("reconcile --output json").json()["sound"], json!(true));
}

#[test]
fn tour_fails_at_first_unexpected_response() {
    let world = World::new();
    let server = world.serve("");
    let secret = "0f4a9c1be27d83560f4a9c1be27d8356";
    let elsewhere = World::new().set("HANDOVER_AUTH__JWT_SECRET", secret);
    let ran = tour(&elsewhere, &server.address);
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(
        ran.stderr.contains("tour: step 2: no \"code\":\"00000\" in the response: {\"code\":\"A0301\""),
        "{ran:?}"
    );
    drop(server);
    assert_eq!(world.run("outbox list --output json").json()["items"], json!([]), "nothing was ordered");
}

/// Splits a text into commands, one per line: joins continuation lines and normalizes spaces.
fn commands(text: &str) -> Vec<String> {
    let joined = text.replace("\\\n", " ");
    let spaced = joined.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    spaced.filter(|line| !line.is_empty()).collect()
}

#[test]
fn page_of_tour_shows_only_commands_of_the_script() {
    let page = std::fs::read_to_string(docs().join("tour.md")).unwrap();
    let script = commands(&std::fs::read_to_string(docs().join("tour.sh")).unwrap());
    let blocks = page.split("\n```sh\n").skip(1).map(|rest| rest.split("\n```").next().unwrap());
    // Skips the first two code blocks, which start the service and set shell variables.
    let shown: Vec<String> = blocks.skip(2).flat_map(commands).collect();
    assert!(shown.len() > 20, "{shown:#?}");
    for command in shown {
        assert!(
            script.iter().any(|line| line.contains(&command)),
            "tour.sh does not contain this command: {command}"
        );
    }
}
