//! The commands of a program with a configuration.

use clap::Subcommand;
use handover_runtime::names::in_own_name;
use handover_runtime::terminal::Common;
use handover_runtime::{Exit, Failure};

use crate::args::{
    BACKUP_HELP, BackupArgs, ConfigCommand, DOCTOR_HELP, DoctorArgs, MIGRATE_HELP, MigrateArgs,
};
use crate::commands;
use crate::operator_command::OperatorCommand;
use crate::program::Program;
use crate::session::Session;

/// The commands of a program with a configuration.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Migrate the database schema and exit; on SQLite `serve` migrates too
    #[command(after_help = in_own_name(MIGRATE_HELP))]
    Migrate(MigrateArgs),
    /// Copy a database file (SQLite) into a new file; also while `serve` runs
    #[command(after_help = in_own_name(BACKUP_HELP))]
    Backup(BackupArgs),
    /// Check what `serve` needs, and show how to fix problems
    #[command(after_help = in_own_name(DOCTOR_HELP))]
    Doctor(DoctorArgs),
    /// The commands on the outbox.
    #[command(flatten)]
    Operator(OperatorCommand<Common>),
    /// Show the configuration
    #[command(subcommand)]
    Config(ConfigCommand),
}

/// Runs a command of this program; see [`OperatorCommand::run`].
pub async fn run<P: Program>(command: &Command) -> Result<Exit, Failure> {
    match command {
        Command::Migrate(arguments) => commands::migrate::<P>(arguments).await?,
        Command::Backup(arguments) => commands::backup::<P>(arguments).await?,
        Command::Doctor(arguments) => return commands::doctor::<P>(arguments).await,
        Command::Operator(command) => command.run::<Session<P>>(&()).await?,
        Command::Config(ConfigCommand::Show(arguments)) => commands::show_config::<P>(arguments).await?,
    }
    Ok(Exit::Done)
}
