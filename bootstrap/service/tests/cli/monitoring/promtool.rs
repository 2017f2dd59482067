//! Runs promtool of Prometheus.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `promtool` in this folder with this input. Panics with its output if it finds a problem.
#[track_caller]
pub(crate) fn promtool(folder: &Path, arguments: &[&str], input: &str) {
    let mut command = Command::new("promtool");
    command
        .args(arguments)
        .current_dir(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| {
        panic!(
            "promtool cannot be started: {error}; install it, on Debian as root with \
             apt-get install --no-install-recommends prometheus"
        )
    });
    // A program that reads no input may have ended already.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {arguments:?} failed ({}):\n{text}", output.status);
}
