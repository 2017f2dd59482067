//! Operators' commands for a program that parses its arguments with clap: events in the outbox, dead letters, queues, audit
//! log.
//!
//! ```no_run
//! use clap::Parser as _;
//! use handover::Outbox;
//! use sqlx::Sqlite;
//!
//! #[derive(clap::Parser)]
//! enum Cli {
//!     /// Serve requests
//!     Serve,
//!     #[command(flatten)]
//!     Operator(handover::cli::Commands), // `outbox list`, `dlq replay`, ...
//! }
//!
//! async fn run(outbox: Outbox<Sqlite>) -> Result<(), Box<dyn std::error::Error>> {
//!     match Cli::parse() {
//!         Cli::Serve => println!("serving"),
//!         Cli::Operator(commands) => commands.run(&outbox).await?,
//!     }
//!     Ok(())
//! }
//! ```

use std::marker::PhantomData;
use std::sync::Arc;

use async_trait::async_trait;
use clap::{ArgMatches, Command, FromArgMatches, Subcommand};
use handover_cli::{Access, CommandFailure, NoFlags, OperatorCommand, Reach, with_words};
use handover_outbox::Outbox as Services;
use handover_outbox::operations::Operator;
use handover_outbox::ports::{BrokerError, StoreError};
use handover_runtime::names::{ProgramNames, set_names};
use handover_runtime::terminal::{OutputError, flush};
use handover_runtime::{Explained as _, Explanation};

use crate::backend::{Backend, OpenStore};
use crate::error::Error;
use crate::outbox::Outbox;

/// The version of clap whose commands this module defines.
pub use clap;

/// Words of the help texts that suit only a program with a configuration, and those in their place.
const WORDS: [(&str, &str); 11] = [
    ("; also while `serve` runs", "; also while the service runs"),
    (
        "a running `serve` publishes a due event within `outbox.scan-interval`",
        "a running relay publishes a due event within seconds",
    ),
    ("a running `serve` processes it", "a running process applies it"),
    ("Needed only with `outbox.on-failed = \"hold\"`.", "Needed only if failed events block later ones."),
    (
        "With `outbox.on-failed = \"continue\"`, the default, no event waits for a decision.",
        "Without a setting, no event waits for a decision.",
    ),
    (
        "With `outbox.on-failed = \"continue\"`, the default, no event is blocked, and",
        "Without a setting, no event is blocked, and",
    ),
    (
        "The process that leads evaluates the alerts every `metrics.state-interval`, and their limits are the settings `alerts.*`. \
         Each alert has a section in the runbook: its meaning, what to do, and when it ends.",
        "One of the processes that call `Running::state_metrics` evaluates the alerts, at its interval. Their limits are those of \
         `Builder::alerts`.",
    ),
    ("Needs `archive.url`.", "Needs `Builder::archive`."),
    ("whose retention time `archive.after` is over", "whose retention time is over"),
    ("when `archive.after` has passed since", "when their retention time has passed since"),
    ("[default: `archive.after`]", "[default: the retention policy]"),
];

/// The same for the reasons why a command failed.
const FAILURE_WORDS: [(&str, &str); 4] = [
    ("archive.url is not set", "the builder has no archive"),
    (
        "set archive.url in the configuration of every process, for example to file:/srv/archive",
        "call `Builder::archive` with the same storage in every process and command",
    ),
    ("the files of archive.url;", "the files of the archive;"),
    ("check that archive.url names the folder", "check that the storage is the folder"),
];

/// Operators' commands, to be flattened into the subcommands of a program: `outbox list | show | redrive | blocked |
/// release`, `dlq list | replay | discard`, `alerts`, `stats`, `audit list`, `queues`, `topology` and others. Each prints a table, or JSON with `--output json`.
///
/// A user who may run them on the database counts as an operator who sees all tenants and personal data. Every action is
/// recorded in the audit log under the name of the system user.
#[derive(Debug, Clone)]
// In a box, so that the enum of the program stays small.
pub struct Commands(Box<OperatorCommand<NoFlags>>);

impl Commands {
    /// Runs the command, also while other processes have started this outbox. The result goes to stdout, notes to stderr.
    pub async fn run<B: Backend>(&self, outbox: &Outbox<B>) -> Result<(), Error> {
        let done = self.0.run::<Attached<B>>(outbox).await;
        flush();
        done
    }
}

impl FromArgMatches for Commands {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Commands, clap::Error> {
        OperatorCommand::from_arg_matches(matches).map(|command| Commands(Box::new(command)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.0.update_from_arg_matches(matches)
    }
}

impl Subcommand for Commands {
    fn augment_subcommands(program: Command) -> Command {
        // The examples and the advice call the commands of this program. Its name lives as long as the process.
        let command = program.get_name().to_owned().leak();
        set_names(ProgramNames { command, ..ProgramNames::default() });
        let defined = OperatorCommand::<NoFlags>::augment_subcommands(Command::new("operator"));
        program.subcommands(with_words(defined, &WORDS).get_subcommands().cloned())
    }

    fn augment_subcommands_for_update(program: Command) -> Command {
        Commands::augment_subcommands(program)
    }

    fn has_subcommand(name: &str) -> bool {
        OperatorCommand::<NoFlags>::has_subcommand(name)
    }
}

/// Access of a command to an outbox that the program has built.
struct Attached<B> {
    store: Arc<dyn OpenStore>,
    services: Services,
    operator: Operator,
    backend: PhantomData<fn() -> B>,
}

#[async_trait]
impl<B: Backend> Access for Attached<B> {
    type Source = Outbox<B>;
    type Flags = NoFlags;
    type Failure = Error;

    async fn open(outbox: &Outbox<B>, _: &NoFlags, _: Reach) -> Result<Attached<B>, Error> {
        let (store, services) = outbox.attach().await?;
        let operator = handover_cli::operator(services.random().as_ref());
        Ok(Attached { store, services, operator, backend: PhantomData })
    }

    fn outbox(&self) -> &Services {
        &self.services
    }

    fn operator(&self) -> &Operator {
        &self.operator
    }

    async fn close(&self) {
        self.store.close().await;
    }

    fn database_failed(&self, cause: StoreError) -> Error {
        cause.into()
    }

    fn broker_failed(&self, cause: BrokerError) -> Error {
        Error::Broker(cause)
    }

    fn missing(&self, what: String, see: &'static str) -> Error {
        explained(Explanation::new(
            &format!("not found: {what}"),
            "the id is mistyped, or the row is in another database",
            format!("see `{see}`"),
        ))
    }
}

impl From<CommandFailure> for Error {
    fn from(failure: CommandFailure) -> Error {
        let Explanation { what, why, remedy } = failure.explanation();
        let [what, why, remedy] = [what, why, remedy]
            .map(|text| FAILURE_WORDS.iter().fold(text, |text, (from, to)| text.replace(from, to)));
        Error::Command { what, why, remedy }
    }
}

impl From<OutputError> for Error {
    fn from(OutputError(cause): OutputError) -> Error {
        Error::Output { cause }
    }
}

fn explained(explanation: Explanation) -> Error {
    let Explanation { what, why, remedy } = explanation;
    Error::Command { what, why, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_replaced_text_is_in_the_help_of_the_toolkit() {
        let mut pages = vec![OperatorCommand::<NoFlags>::augment_subcommands(Command::new("operator"))];
        let mut texts = String::new();
        while let Some(mut page) = pages.pop() {
            texts += &page.render_long_help().to_string();
            pages.extend(page.get_subcommands().cloned());
        }
        for (from, to) in WORDS {
            assert!(texts.contains(from), "{from}");
            texts = texts.replace(from, to);
        }
    }

    #[test]
    fn failures_name_no_setting_of_a_configuration() {
        let failures = [CommandFailure::NoArchive {}, CommandFailure::Archive { why: "full".to_owned() }];
        let mut texts: String = failures
            .into_iter()
            .map(|failure| failure.explanation())
            .map(|Explanation { what, why, remedy }| what + &why + &remedy)
            .collect();
        for (from, to) in FAILURE_WORDS {
            assert!(texts.contains(from), "{from}");
            texts = texts.replace(from, to);
        }
        assert!(!texts.contains("archive.url"), "{texts}");
    }
}
