//! A lending library on handover, as an example for your own service: tables, events, consumers, relay and
//! webhooks are in `library`, the command line with the toolkit's commands and routes for operators in `program`.
//!
//! Run: `cargo run -p handover-example-library`, and with `outbox list` or `--help` the commands for operators.

mod library;
mod program;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let exit = program::main().await;
    handover_runtime::terminal::flush();
    exit
}
