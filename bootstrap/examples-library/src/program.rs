//! The command line: a day of the library, and the toolkit's commands for operators.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Parser, Subcommand};
use handover_cli::{CommandConfig, Program};
use handover_outbox::Outbox;
use handover_outbox::ports::Broker;
use handover_outbox::topology::Topology;
use handover_runtime::config::{Checked, Configuration, Reader};
use handover_runtime::settings::ToolkitConfig;
use handover_runtime::stores::{AttachedDatabase, transactor};
use handover_runtime::{Explained, Failure};

/// A lending library on handover
#[derive(Parser)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Lend three books and remind their readers (the default)
    Day {
        /// The new database file [default: a temporary one]
        database: Option<PathBuf>,
    },
    #[command(flatten)]
    Operators(handover_cli::Command),
}

struct Library(ToolkitConfig);

impl Configuration for Library {
    fn read(reader: &Reader<'_>) -> Checked<Library> {
        ToolkitConfig::read(reader).map(Library)
    }
}

impl Program for Library {
    fn config(&self) -> CommandConfig<'_> {
        CommandConfig::from(&self.0)
    }

    fn topology(&self) -> Topology {
        super::topology().with("library.reminders", &["book.lent"])
    }

    fn outbox(&self, database: &AttachedDatabase, broker: Arc<dyn Broker>) -> Result<Outbox, Failure> {
        Ok(super::outbox(&transactor(Arc::new(database.store.clone()), &database.clock)?, broker))
    }
}

/// A day of the library, in this file or in a temporary one.
async fn day(database: Option<PathBuf>) -> Result<(), super::Error> {
    let folder = tempfile::tempdir()?;
    match super::run(&database.unwrap_or_else(|| folder.path().join("library.db"))).await?.len() {
        3 => Ok(()),
        other => Err(format!("three books were lent, but there are {other} reminders").into()),
    }
}

pub(crate) async fn main() -> ExitCode {
    let failed = |text: String| {
        eprintln!("{text}");
        ExitCode::FAILURE
    };
    match Cli::parse().command.unwrap_or(Command::Day { database: None }) {
        Command::Day { database } => {
            day(database).await.map_or_else(|error| failed(error.to_string()), |()| ExitCode::SUCCESS)
        }
        Command::Operators(command) => match handover_cli::run::<Library>(&command).await {
            Ok(exit) => exit.into(),
            Err(failure) => {
                eprintln!("{}", failure.explain());
                failure.exit().into()
            }
        },
    }
}
