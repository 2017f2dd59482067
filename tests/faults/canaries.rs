//! Tests of the leak check: a planted leak is found. `process::Server` runs the check at the end of every test that
//! starts a program.

use std::fs::File;
use std::io::Write;

use handover_tests::canary::PERSONAL;
use handover_tests::process::fresh;

/// Runs the program, appends a line to its log, and ends it.
fn run_with_log_line(line: impl Fn(&str) -> String) {
    let (folder, launch) = fresh();
    let server = launch.start().unwrap();
    let mut log = File::options().append(true).open(folder.path().join("log")).unwrap();
    writeln!(log, "{}", line(&launch.secret("jwt"))).unwrap();
    drop(server);
}

#[test]
fn log_without_leak_passes() {
    run_with_log_line(|_| "nothing of interest".to_owned());
}

#[test]
#[should_panic(expected = "the jwt secret that was generated is in the log")]
fn secret_in_log_is_found() {
    run_with_log_line(|secret| format!("cannot verify with {secret}"));
}

#[test]
#[should_panic(expected = "personal data is in the log")]
fn personal_data_in_log_is_found() {
    run_with_log_line(|_| format!("shipped as {PERSONAL}-1"));
}
