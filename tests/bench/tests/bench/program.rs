//! The binary with the smallest parameters, on SQLite with the database broker: output, rejected arguments, and removal
//! of everything it created.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder to run in, with a folder for temporary files.
struct WorkingFolder {
    folder: TempDir,
}

impl WorkingFolder {
    fn new() -> WorkingFolder {
        let folder = TempDir::new().unwrap();
        fs::create_dir(folder.path().join("tmp")).unwrap();
        WorkingFolder { folder }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn bench(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_handover-bench"));
        command
            .args(arguments.split_whitespace())
            .current_dir(self.path())
            .env_clear()
            .env("TMPDIR", self.path().join("tmp"));
        command
    }

    fn run(&self, arguments: &str) -> Output {
        self.bench(arguments).output().unwrap()
    }

    /// Names of all files and folders, also of those in the folder for temporary files.
    fn files(&self) -> Vec<String> {
        let names = |folder: &Path| {
            let entries = fs::read_dir(folder).unwrap();
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
        };
        let temporary = names(&self.path().join("tmp"));
        names(self.path()).into_iter().filter(|name| name != "tmp").chain(temporary).collect()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn keys(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn run_reports_every_figure_with_its_baseline_and_leaves_no_files() {
    let folder = WorkingFolder::new();
    let ran = folder.run(
        "--events 300 --seconds 0.4 --rounds 2 --clients 1,3 --rows 500 --rate 50 --batch 100 --prefetch 30 \
         --seed 7 --output json",
    );
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let report: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert_eq!(keys(&report), ["settings", "figures"]);
    let settings = &report["settings"];
    assert!(settings["database"].as_str().unwrap().starts_with("SQLite 3."), "{settings}");
    assert_eq!((settings["broker"].as_str(), settings["connections"].as_u64()), (Some("database:"), Some(1)));
    for (name, number) in
        [("events", 300), ("batch", 100), ("prefetch", 30), ("rate", 50), ("rounds", 2), ("seed", 7)]
    {
        assert_eq!(settings[name].as_u64(), Some(number), "{name}: {settings}");
    }
    let figures = report["figures"].as_array().unwrap();
    let named: Vec<(&str, &str)> = figures
        .iter()
        .map(|figure| (figure["mode"].as_str().unwrap(), figure["what"].as_str().unwrap()))
        .collect();
    let latency = ["confirm", "effect"].into_iter().flat_map(|end| {
        ["p50", "p95", "p99", "max"].map(|name| format!("commit to {end}, {name}, 50 orders/s"))
    });
    let latency: Vec<String> = latency.collect();
    let expected: Vec<(&str, &str)> = [("orders", "1 client"), ("orders", "3 clients")]
        .into_iter()
        .chain([("drain", "300 events"), ("consume", "300 events")])
        .chain(latency.iter().map(|what| ("latency", what.as_str())))
        .chain([("growth", "drain, 500 settled events"), ("growth", "consume, 500 settled events")])
        .chain([("webhooks", "300 deliveries, 50 endpoints")])
        .chain([("chain", "150 orders, 16 connections")])
        .chain([("held", "drain"), ("held", "consume"), ("held", "chain")])
        .chain([("enqueue", "new aggregates"), ("enqueue", "one aggregate")])
        .collect();
    assert_eq!(named, expected);
    for figure in figures {
        for series_name in ["ours", "ceiling"] {
            let series = &figure[series_name];
            let [median, least, greatest] =
                ["median", "least", "greatest"].map(|name| series[name].as_f64().unwrap());
            assert!(0.0 < least && least <= median && median <= greatest, "{figure}");
            assert_eq!(series["rounds"].as_array().unwrap().len(), 2, "{figure}");
        }
        assert!(figure["ratio"].as_f64().unwrap() > 0.0, "{figure}");
    }
    let steps = |mode: &str, which: &str| -> BTreeSet<String> {
        let figure =
            figures.iter().find(|figure| figure["mode"] == mode && figure[which] != Value::Array(vec![]));
        let steps = figure.unwrap_or_else(|| panic!("{mode} figures: no {which}"))[which].as_array().unwrap();
        steps.iter().map(|step| step["name"].as_str().unwrap().to_owned()).collect()
    };
    for (mode, which, some) in [
        ("orders", "steps", ["read products", "insert orders, outbox_events", "commit"]),
        ("orders", "ceilingSteps", ["read products", "insert outbox_events", "commit"]),
        ("drain", "steps", ["publish", "read outbox_events", "change outbox_events"]),
        ("drain", "ceilingSteps", ["claim", "publish", "mark and commit"]),
        ("consume", "steps", ["wait", "insert event_consume_log", "insert shipments"]),
        ("webhooks", "steps", ["read webhook_endpoints", "insert webhook_attempts", "commit"]),
        ("webhooks", "ceilingSteps", ["post", "wait for a connection", "record"]),
        ("enqueue", "steps", ["begin", "change products", "enqueue"]),
        ("enqueue", "ceilingSteps", ["begin", "change products", "insert outbox_events"]),
        ("chain", "steps", ["insert event_consume_log", "change outbox_events", "commit"]),
        ("latency", "steps", ["1: commit to publish", "2: publish to delivery", "3: delivery to effect"]),
    ] {
        let steps = steps(mode, which);
        assert!(some.iter().all(|name| steps.contains(*name)), "{mode} {which}: {steps:?}");
    }
    let drain = figures.iter().find(|figure| figure["mode"] == "drain").unwrap();
    assert!(drain["memory"]["peakMib"].as_f64().unwrap() > 1.0, "{drain}");
    assert_eq!(folder.files(), Vec::<String>::new());
}

#[test]
fn only_named_mode_is_measured_and_reported_as_a_table() {
    let folder = WorkingFolder::new();
    let ran = folder.run("drain --events 50 --rounds 1 --database sqlite://bench.db");
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let table = text(&ran.stdout);
    assert!(table.contains("50 events") && table.contains("ratio"), "{table}");
    assert!(!table.contains("orders/s"), "{table}");
    assert!(text(&ran.stderr).lines().any(|line| line == "drain"), "{}", text(&ran.stderr));
    assert_eq!(folder.files(), Vec::<String>::new());
}

#[test]
fn keep_prints_the_folder_of_the_database() {
    let folder = WorkingFolder::new();
    let ran = folder.run("drain --events 20 --rounds 1 --keep --output json");
    assert_eq!(ran.status.code(), Some(0), "{}", text(&ran.stderr));
    let stderr = text(&ran.stderr);
    let kept = stderr.lines().find_map(|line| line.strip_prefix("kept: ")).unwrap();
    assert!(Path::new(kept).join("bench.db").is_file(), "{kept}");
    assert!(Path::new(kept).starts_with(folder.path().join("tmp")), "{kept}");
}

#[test]
fn used_database_and_invalid_arguments_are_rejected_and_change_nothing() {
    let folder = WorkingFolder::new();
    fs::write(folder.path().join("shop.db"), "existing data").unwrap();
    for (arguments, why) in [
        ("--database sqlite://shop.db", "shop.db already exists and is not empty"),
        ("--broker memory:", "cannot be measured"),
        ("--seconds=-1", "--seconds"),
        ("--clients 0", "--clients"),
        ("sales", "sales"),
    ] {
        let ran = folder.run(&format!("{arguments} --events 10 --rounds 1"));
        assert_eq!(ran.status.code(), Some(2), "{arguments}: {}", text(&ran.stderr));
        assert!(text(&ran.stderr).contains(why), "{arguments}: {}", text(&ran.stderr));
        assert_eq!(text(&ran.stdout), "", "{arguments}");
        assert_eq!(folder.files(), ["shop.db"], "{arguments}");
    }
    assert_eq!(fs::read_to_string(folder.path().join("shop.db")).unwrap(), "existing data");
}

#[test]
fn interrupted_run_leaves_no_files() {
    let folder = WorkingFolder::new();
    let mut bench =
        folder.bench("drain --events 1000000").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(bench.stderr.take().unwrap());
    let mut line = String::new();
    while line.trim_end() != "drain" {
        line.clear();
        assert_ne!(stderr.read_line(&mut line).unwrap(), 0, "the program ended before the measurement began");
    }
    assert_ne!(folder.files(), Vec::<String>::new(), "the folder must contain the database during the run");
    let stopped = Command::new("kill").args(["-INT", &bench.id().to_string()]).status().unwrap();
    assert!(stopped.success());
    let mut rest = String::new();
    stderr.read_to_string(&mut rest).unwrap();
    let ended = bench.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1), "{rest}");
    assert!(rest.contains("SIGINT: benchmark interrupted; no figures"), "{rest}");
    assert_eq!(text(&ended.stdout), "");
    assert_eq!(folder.files(), Vec::<String>::new());
}
