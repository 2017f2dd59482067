//! Every example runs, and prints what its header says.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::library::TestResult;

/// The examples that need no server, each with a line that it prints.
const EXAMPLES: [(&str, &str); 12] = [
    ("bulk", "10000 events published and applied in "),
    ("cost", "times as long"),
    ("follow_up", "invoice 1 sent"),
    ("http_call", "request 3 for \"ann@example.org\""),
    ("library", "3 reminders; ann has 2 loans"),
    ("middleware", "2 calls, 1 failed"),
    // The reason of the replay, from the audit log.
    ("operators", "photo added"),
    ("order", "applied: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"),
    ("own_store", "1 reminder: [\"ann brings book 1 back\"]"),
    ("quickstart", "ann has book 1"),
    ("redelivery", "[(\"blue\", 1), (\"red\", 2)]"),
    ("roles", "with a worker: 3 images indexed"),
];

/// Cargo builds the examples beside the folder of this program.
fn program(name: &str) -> Result<PathBuf, Box<dyn std::error::Error>> {
    let this = env::current_exe()?;
    let folder = this.ancestors().nth(2).ok_or("a test program is two folders deep")?;
    let program = folder.join("examples").join(name);
    if program.is_file() {
        return Ok(program);
    }
    Err(format!("{} does not exist; build it: cargo build -p handover --examples", program.display()).into())
}

#[test]
fn every_example_prints_what_its_header_says() -> TestResult {
    for (name, line) in EXAMPLES {
        let output = Command::new(program(name)?).output()?;
        let (printed, errors) =
            (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success() && printed.contains(line), "{name}: {printed}{errors}");
    }
    Ok(())
}

#[test]
fn every_example_is_tested() -> TestResult {
    let mut files = BTreeSet::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples"))? {
        let path = entry?.path();
        files.insert(path.file_stem().unwrap_or_default().to_string_lossy().into_owned());
    }
    // `clinic` needs servers: the suite `servers` runs it. `crashes` runs `crash`. `common` is shared by the others.
    let tested =
        EXAMPLES.iter().map(|(name, _)| *name).chain(["clinic", "common", "crash"]).map(str::to_owned);
    assert_eq!(files, tested.collect());
    Ok(())
}

/// Comment on each line with which the example `operators` mounts the routes and the commands.
const MOUNTS: &str = "// mounts";

#[test]
fn operators_routes_and_commands_are_mounted_in_at_most_six_lines() -> TestResult {
    let source = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/operators.rs"))?;
    let (mounting, others): (Vec<&str>, Vec<&str>) = source.lines().partition(|line| line.ends_with(MOUNTS));
    assert!(mounting.len() <= 6, "{mounting:?}");
    for part in ["operator_router(", "Named(", "Commands)", "commands.run("] {
        assert!(mounting.iter().any(|line| line.contains(part)), "no marked line has {part:?}");
        assert!(!others.iter().any(|line| line.contains(part)), "a line with {part:?} is not marked");
    }
    Ok(())
}
