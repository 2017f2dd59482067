//! The search for what must not get out, tested: a leak that is planted is found. Nothing gets out of any program that a
//! test starts; `process::Server` looks at the end of each.

use std::fs::File;
use std::io::Write;

use handover_tests::canary::PERSONAL;
use handover_tests::process::fresh;

/// Runs the program, writes a line into its log as if it had, and ends it.
fn with_a_line(line: impl Fn(&str) -> String) {
    let (folder, launch) = fresh();
    let server = launch.start().unwrap();
    let mut log = File::options().append(true).open(folder.path().join("log")).unwrap();
    writeln!(log, "{}", line(&launch.secret("jwt"))).unwrap();
    drop(server);
}

#[test]
fn a_log_without_a_leak_is_no_finding() {
    with_a_line(|_| "nothing of interest".to_owned());
}

#[test]
#[should_panic(expected = "the jwt secret that was made is in the log")]
fn a_secret_in_the_log_is_found() {
    with_a_line(|secret| format!("cannot verify with {secret}"));
}

#[test]
#[should_panic(expected = "personal data is in the log")]
fn what_somebody_wrote_is_found_in_the_log() {
    with_a_line(|_| format!("shipped as {PERSONAL}-1"));
}
