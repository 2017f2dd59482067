//! The process: arguments, the runtime, the exit code.
//!
//! In the library, not in `main.rs`: the bodies of async functions are compiled in the crate that polls them. Polled from
//! the binary, most of the program would be compiled there, after everything else and beside nothing.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;

use crate::cli::Cli;
use crate::commands;
use marketplace_wiring::{Exit, Failure};

/// Runs the program: reads its arguments, does what they say, explains on stderr why it could not.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(cli) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("{}", failure.explain());
            failure.exit().into()
        }
    }
}

fn run(cli: Cli) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // Every other turn is for what other threads wake: under load a transaction whose statement is done would else
        // wait, with the locks it holds, behind all the requests that just arrived. Not every turn, for their sake.
        .global_queue_interval(2)
        .build()
        .map_err(|cause| Failure::System { what: "no threads to run on", cause })?;
    let result = runtime.block_on(commands::run(cli));
    // Whatever did not finish in its time is cut off: everything that counts is committed or will be done again.
    runtime.shutdown_timeout(Duration::from_millis(200));
    result
}
