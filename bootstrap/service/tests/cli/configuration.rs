//! `config show`, `completions`, `--help`.

use serde_json::{Value, json};

use crate::program::World;

const SECRET: &str = "0f4a9c1be27d83560f4a9c1be27d8356";

fn world() -> World {
    let world = World::new().set("HANDOVER_CONSUMER__PREFETCH", "7").set("HANDOVER_AUTH__JWT_SECRET", SECRET);
    world.write("handover.toml", "[outbox]\nbatch = 50\n[consumer]\nprefetch = 3\n");
    world
}

#[test]
fn config_show_prints_keys_with_value_and_origin() {
    let answer = world().run("config show --database sqlite://shop@home.db");
    let line = |key: &str| {
        let line = answer.done().lines().find(|line| line.starts_with(&format!("{key} ")));
        line.unwrap_or_else(|| panic!("no {key}: {answer:?}"))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(line("key"), "key value from");
    assert_eq!(line("http.listen"), "http.listen \"127.0.0.1:8080\" default");
    assert_eq!(line("database.url"), "database.url \"sqlite://shop@home.db\" --database");
    assert_eq!(line("outbox.batch"), "outbox.batch 50 handover.toml");
    assert_eq!(line("consumer.prefetch"), "consumer.prefetch 7 HANDOVER_CONSUMER__PREFETCH");
    assert_eq!(line("consumer.backoff"), "consumer.backoff {base = \"200ms\", cap = \"5s\"} default");
    assert_eq!(line("auth.jwt-secret"), "auth.jwt-secret (hidden) HANDOVER_AUTH__JWT_SECRET");
    assert!(line("gateway.secret").contains("generated at the first start"));
}

#[test]
fn config_show_as_json_keeps_types_and_hides_secrets() {
    let answer = world().run("config show --output json");
    answer.done();
    let items = answer.json()["items"].as_array().unwrap().clone();
    let item = |key: &str| items.iter().find(|item| item["key"] == key).unwrap_or(&Value::Null).clone();
    assert_eq!(
        item("outbox.batch"),
        json!({
            "key": "outbox.batch", "value": 50, "hidden": false, "from": "file", "name": "handover.toml",
            "error": null,
        })
    );
    assert_eq!(item("outbox.retry")["value"]["delays"], json!(["5s", "30s", "2m"]));
    assert_eq!(item("log.level")["from"], "default");
    let secret = item("auth.jwt-secret");
    assert_eq!((&secret["value"], &secret["hidden"]), (&Value::Null, &json!(true)));
    assert!(!answer.stdout.contains(SECRET));
}

#[test]
fn config_show_marks_invalid_values() {
    let world = world().set("HANDOVER_HTTP__LISTEN", "8080");
    world.write("handover.toml", "[outbox]\nbatch = 0\nbacth = 5\n");
    let ran = world.run("config show");
    let line = |key: &str| {
        let line = ran.stdout.lines().find(|line| line.starts_with(&format!("{key} ")));
        line.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert_eq!(line("key"), "key value from error");
    assert_eq!(line("outbox.batch"), "outbox.batch 0 handover.toml refused");
    assert_eq!(line("http.listen"), "http.listen \"8080\" HANDOVER_HTTP__LISTEN refused");
    assert_eq!(line("consumer.prefetch"), "consumer.prefetch 7 HANDOVER_CONSUMER__PREFETCH");
    for part in ["unknown key outbox.bacth", "outbox.batch in the file", "http.listen in the environment"] {
        assert!(ran.stderr.contains(&format!("error: {part}")), "{}", ran.stderr);
    }
    let ran = world.run("config show --output json");
    let shown = ran.json();
    assert_eq!((ran.code, shown["errors"].as_array().map(Vec::len)), (Some(2), Some(3)));
    let batch = shown["items"].as_array().unwrap().iter().find(|item| item["key"] == "outbox.batch").unwrap();
    assert!(batch["error"]["do"].as_str().unwrap().contains("set a whole number from 1 to 10000"), "{batch}");
    // The settings of a malformed file are skipped; all others are shown.
    world.write("handover.toml", "[outbox\n");
    let ran = world.run("config show");
    assert!(ran.code == Some(2) && ran.stdout.contains("HANDOVER_CONSUMER__PREFETCH"), "{ran:?}");
    assert!(ran.stderr.contains("handover.toml is not valid TOML: line 1"), "{ran:?}");
}

#[test]
fn config_show_creates_no_file() {
    let world = world();
    world.run("config show").done();
    assert_eq!(world.files(), ["handover.toml"]);
}

#[test]
fn completions_contain_commands_and_flags_for_every_shell() {
    let world = World::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let answer = world.run(&format!("completions {shell}"));
        // `discarded` and `platform` are values of flags.
        for word in
            ["doctor", "outbox", "dlq", "queues", "aggregate-id", "completions", "discarded", "platform"]
        {
            assert!(answer.done().contains(word), "{shell}: {word}");
        }
    }
    assert_eq!(world.run("completions ash").code, Some(2));
}

#[test]
fn help_lists_commands_variables_and_exit_codes() {
    let world = World::new();
    let parts = [
        "serve",
        "migrate",
        "doctor",
        "token",
        "outbox",
        "dlq",
        "queues",
        "config",
        "completions",
        "Examples:",
        "HANDOVER_HTTP__LISTEN",
        "HANDOVER_DATABASE__URL",
        "HANDOVER_CONFIG",
        "--roles",
        "Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 a dependency is unavailable.",
    ];
    let answer = world.run("--help");
    for part in parts {
        assert!(answer.done().contains(part), "{part} is not in {}", answer.stdout);
    }
    assert!(world.run("outbox list --help").done().contains("handover outbox list --status failed"));
    let fields = world.run("doctor --help");
    assert!(
        fields
            .done()
            .contains("Exit codes: 0 no check failed, 1 a check failed, 2 only configuration checks failed")
    );
}

/// Variables that Kubernetes sets in every container if there are Services `handover` and `handover-db`.
const OF_KUBERNETES: [(&str, &str); 9] = [
    ("HANDOVER_PORT", "tcp://10.0.0.7:8080"),
    ("HANDOVER_SERVICE_HOST", "10.0.0.7"),
    ("HANDOVER_SERVICE_PORT", "8080"),
    ("HANDOVER_SERVICE_PORT_HTTP", "8080"),
    ("HANDOVER_PORT_8080_TCP", "tcp://10.0.0.7:8080"),
    ("HANDOVER_PORT_8080_TCP_PROTO", "tcp"),
    ("HANDOVER_PORT_8080_TCP_ADDR", "10.0.0.7"),
    ("HANDOVER_DB_SERVICE_HOST", "10.0.0.8"),
    ("HANDOVER_DB_PORT_5432_TCP_ADDR", "10.0.0.8"),
];

#[test]
fn variables_of_kubernetes_fail_no_command_and_change_no_output() {
    let plain = World::new();
    let injected = OF_KUBERNETES.iter().fold(World::new(), |world, (name, value)| world.set(name, value));
    for world in [&plain, &injected] {
        world.run("migrate").done();
    }
    let commands = [
        "doctor --listen 127.0.0.1:0 --output json",
        "config show --output json",
        "outbox list --output json",
        "outbox blocked --output json",
        "dlq list --output json",
        "audit list --output json",
        "queues --output json",
        "reconcile --output json",
        "order timeline 1 --output json",
        "outbox show e-1 --output json",
        "outbox redrive --status failed --reason test --output json",
        "outbox release Order 1 --reason test --output json",
        "dlq replay --all --reason test --output json",
        "dlq discard --all --reason test --output json",
        "token --user 1",
        "asyncapi",
        "openapi",
        "completions bash",
        "--version",
    ];
    for command in commands {
        let [expected, ran] = [&plain, &injected].map(|world| world.run(command));
        assert_eq!(ran.code, expected.code, "{command}: {ran:?}");
        let warning = ran.stderr.lines().find(|line| line.starts_with("warning: "));
        let reads_configuration = !["openapi", "completions bash", "--version"].contains(&command);
        assert_eq!(warning.is_some(), reads_configuration, "{command}: {ran:?}");
        for (name, _) in OF_KUBERNETES.iter().filter(|_| reads_configuration) {
            assert!(warning.unwrap_or_default().contains(name), "{command}: {ran:?}");
        }
        if command.ends_with("json") && expected.code == Some(0) {
            ran.json();
        }
    }
    let server = injected.serve("");
    assert!(server.text("GET /healthz").contains("00000"));
}
