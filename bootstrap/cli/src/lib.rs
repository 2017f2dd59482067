//! Commands for operators: events in the outbox, dead letters, the audit log, queues, configuration, `doctor` and
//! `migrate`.
//!
//! A program flattens [`Command`] into its own subcommands, implements [`Program`] for its configuration, and passes the
//! commands to [`run`]. The commands use the database directly, also while a process serves it.

#![warn(missing_docs)]

pub mod args;
mod commands;
pub mod print;
mod program;
mod session;
pub mod values;
mod words;

use clap::Subcommand;
use handover_runtime::names::in_own_name;
use handover_runtime::terminal::Common;
use handover_runtime::{Exit, Failure};

use args::{AuditCommand, ConfigCommand, DlqCommand, DoctorArgs, OutboxCommand, QueuesArgs};

pub use program::{CommandConfig, Program};
pub use session::{Reach, Session, user};
pub use words::{argument_with_words, with_words};

/// The commands of the toolkit.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Migrate the database schema and exit; on SQLite `serve` migrates too
    Migrate(Common),
    /// Check what `serve` needs, and show how to fix problems
    #[command(after_help = in_own_name(args::DOCTOR_HELP))]
    Doctor(DoctorArgs),
    /// Inspect events in the outbox and send them again; also while `serve` runs
    #[command(subcommand)]
    Outbox(OutboxCommand),
    /// Inspect, replay or discard messages that their consumer could not process; also while `serve` runs
    #[command(subcommand)]
    Dlq(DlqCommand),
    /// Show the audit log of operators' actions; also while `serve` runs
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Show the length of each queue; also while `serve` runs
    Queues(QueuesArgs),
    /// Show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
}

/// Runs a command of this program.
///
/// Lines on stderr may still be queued afterwards: call [`flush`](handover_runtime::terminal::flush) before the process
/// ends.
pub async fn run<P: Program>(command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Migrate(common) => commands::migrate::<P>(common).await?,
        Command::Doctor(arguments) => return commands::doctor::<P>(arguments).await,
        Command::Outbox(OutboxCommand::List(arguments)) => commands::outbox::<P>(arguments).await?,
        Command::Outbox(OutboxCommand::Show(arguments)) => commands::event::<P>(arguments).await?,
        Command::Outbox(OutboxCommand::Redrive(arguments)) => commands::redrive::<P>(arguments).await?,
        Command::Outbox(OutboxCommand::Blocked(arguments)) => commands::blocked::<P>(arguments).await?,
        Command::Outbox(OutboxCommand::Release(arguments)) => commands::release::<P>(arguments).await?,
        Command::Dlq(DlqCommand::List(arguments)) => commands::dead_letters::<P>(arguments).await?,
        Command::Dlq(DlqCommand::Replay(arguments)) => commands::replay::<P>(arguments).await?,
        Command::Dlq(DlqCommand::Discard(arguments)) => commands::discard::<P>(arguments).await?,
        Command::Audit(AuditCommand::List(arguments)) => commands::audit::<P>(arguments).await?,
        Command::Queues(arguments) => commands::queues::<P>(arguments).await?,
        Command::Config(ConfigCommand::Show(arguments)) => commands::show_config::<P>(arguments)?,
    }
    Ok(Exit::Done)
}
