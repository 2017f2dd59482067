//! The process: arguments, the runtime, the exit code.
//!
//! This code is in the library and not in `main.rs`, because rustc compiles the bodies of async functions in the crate
//! that polls them. Polled from the binary, most of the program would be compiled there, after all other crates and not
//! in parallel.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::cli::Cli;
use crate::commands;
use handover_runtime::terminal::{flush, note};
use handover_runtime::{Exit, Explained, Failure};

/// Parses the arguments and runs the command; errors go to stderr.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let exit = run(cli).unwrap_or_else(|failure| {
        note(&failure.explain());
        failure.exit()
    });
    flush();
    exit.into()
}

fn run(cli: Cli) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Check the global queue on every second tick: otherwise, under load, a task that another thread woke, such as
        // a transaction with a finished statement, would wait with its locks behind all newly arrived requests. A value
        // of 1 would starve the local queues.
        .global_queue_interval(2)
        .build()
        .map_err(|cause| Failure::System { what: "cannot start the worker threads", cause })?;
    let result = runtime.block_on(commands::run(cli));
    // Abort the tasks that did not finish in time: their work is either committed, or repeated after the next start.
    runtime.shutdown_timeout(Duration::from_millis(200));
    result
}
