//! Why the program gives up: what, why, what to do, and the exit code that says so.

mod words;

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use handover_outbox::ports::{BrokerError, StoreError};
use handover_sql::{SchemaError, access_refusal};
use handover_system::NoEntropy;

use crate::config::{ConfigError, ConfigErrors, DatabaseChoice};

pub use words::folder_remedy;

/// Why the program gives up.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration is refused.
    #[error("{0}")]
    Config(ConfigErrors),
    /// A secret that is ours alone protects nothing from strangers.
    #[error("{key} is not set, and {listen} can be reached from other machines")]
    SecretNeeded {
        /// The key to set.
        key: &'static str,
        /// Where the service would listen.
        listen: SocketAddr,
    },
    /// A secret that somebody typed in for the time being.
    #[error("{key} looks like a placeholder, and {listen} can be reached from other machines")]
    SecretWeak {
        /// The key to set.
        key: &'static str,
        /// Where the service would listen.
        listen: SocketAddr,
    },
    /// Nothing signs tokens here.
    #[error("auth.jwt-secret is not set, and tokens are issued by the owner of the keys in auth.jwks-file")]
    IssuedElsewhere,
    /// A sandbox that says yes to every refund has to be chosen on purpose.
    #[error("gateway.url is not set, and {listen} can be reached from other machines")]
    GatewayNeeded {
        /// Where the service would listen.
        listen: SocketAddr,
    },
    /// The payment gateway cannot be asked.
    #[error("the payment gateway cannot be asked: {0}")]
    Gateway(String),
    /// A secret that is made here is known to no other process.
    #[error("{key} is not set, and {database} is served by any number of processes")]
    SecretShared {
        /// The key to set.
        key: &'static str,
        /// The database.
        database: DatabaseChoice,
    },
    /// A secret that nothing can be verified with.
    #[error("{key} cannot be used: {why}")]
    SecretRefused {
        /// The key.
        key: &'static str,
        /// What is wrong.
        why: String,
    },
    /// A secret file cannot be made or read.
    #[error("the secret file {} cannot be used: {cause}", path.display())]
    SecretFile {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        cause: io::Error,
    },
    /// Others may read a secret file.
    #[error("the secret file {} can be read by other users", path.display())]
    SecretExposed {
        /// Which.
        path: PathBuf,
    },
    /// A secret file holds no secret.
    #[error("the secret file {} holds no secret", path.display())]
    SecretBroken {
        /// Which.
        path: PathBuf,
    },
    /// No random numbers.
    #[error(transparent)]
    NoEntropy(#[from] NoEntropy),
    /// The lock file cannot be made.
    #[error("the lock file {} cannot be used: {cause}", path.display())]
    LockFile {
        /// Which.
        path: PathBuf,
        /// What is wrong.
        cause: io::Error,
    },
    /// Another process serves this database.
    #[error("another process serves {} (process {holder})", database.display())]
    InUse {
        /// The database.
        database: PathBuf,
        /// Its process id, as it wrote it.
        holder: String,
    },
    /// The database cannot be opened or used.
    #[error("the database {database} cannot be used: {cause}")]
    Database {
        /// The database.
        database: DatabaseChoice,
        /// What is wrong.
        cause: StoreError,
    },
    /// The server answers, and refuses this user or database.
    #[error("the database {database} refuses access: {said}")]
    AccessRefused {
        /// The database.
        database: DatabaseChoice,
        /// What the server said.
        said: String,
    },
    /// There is nothing to look at.
    #[error("there is no database {}", database.display())]
    NoDatabase {
        /// Where it should be.
        database: PathBuf,
    },
    /// A newer program was here.
    #[error(
        "the database {database} has version {found} of the {part} schema, and this program knows versions up to {needed}"
    )]
    SchemaNewer {
        /// The database.
        database: DatabaseChoice,
        /// Of which part.
        part: &'static str,
        /// Its version.
        found: i64,
        /// What this program knows.
        needed: i64,
    },
    /// An older program made it, and who finds it changes nothing.
    #[error(
        "the database {database} has version {found} of the {part} schema, and this program needs version {needed}"
    )]
    SchemaOlder {
        /// The database.
        database: DatabaseChoice,
        /// Of which part.
        part: &'static str,
        /// Its version; 0: none yet.
        found: i64,
        /// What this program needs.
        needed: i64,
    },
    /// The schema cannot be brought up to date.
    #[error("the database {database} cannot be brought up to date: {cause}")]
    Migration {
        /// The database.
        database: DatabaseChoice,
        /// What is wrong.
        cause: StoreError,
    },
    /// A program from before the first release created the schema.
    #[error("the database {database} was created by a version of handover from before the first release")]
    SchemaUnreleased {
        /// The database.
        database: DatabaseChoice,
    },
    /// A table of the same name is somebody else's.
    #[error("the database {database} has a table {table} that handover did not create")]
    SchemaForeign {
        /// The database.
        database: DatabaseChoice,
        /// The table.
        table: String,
    },
    /// The broker cannot be used.
    #[error("the broker cannot be used: {0}")]
    Broker(#[from] BrokerError),
    /// The queues are in another process's memory.
    #[error("the queues of broker.url = \"memory:\" cannot be reached from here")]
    BrokerUnseen,
    /// What was named is not there.
    #[error("there is no {what} in {database}")]
    Missing {
        /// What, by its name.
        what: String,
        /// The command that shows what there is.
        see: &'static str,
        /// Where it was looked for.
        database: DatabaseChoice,
    },
    /// Some dead letters are still where they were.
    #[error("{refused} of {matched} dead letters {} not replayed", if *refused == 1 { "was" } else { "were" })]
    NotReplayed {
        /// How many.
        refused: usize,
        /// Of how many.
        matched: u64,
    },
    /// Some dead letters are not given up.
    #[error("{refused} of {matched} dead letters {} not discarded", if *refused == 1 { "was" } else { "were" })]
    NotDiscarded {
        /// How many.
        refused: usize,
        /// Of how many.
        matched: u64,
    },
    /// An action was refused for a reason that it has no other words for.
    #[error("it was refused: {0}")]
    Refused(String),
    /// The address cannot be listened on.
    #[error("cannot listen on {listen}: {cause}")]
    Listen {
        /// Which.
        listen: SocketAddr,
        /// What is wrong.
        cause: io::Error,
    },
    /// The HTTP server ended by itself.
    #[error("the HTTP server failed: {0}")]
    Http(String),
    /// A value on the command line means nothing.
    #[error("{what}")]
    Usage {
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: String,
    },
    /// The system refuses something that nothing works without.
    #[error("{what}: {cause}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the system said.
        cause: io::Error,
    },
    /// Stopping took too long.
    #[error("stopped after {after_ms} ms with {running} still running")]
    StillRunning {
        /// How long it was waited.
        after_ms: u128,
        /// What was waited for.
        running: String,
    },
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Failure {
        Failure::Config(errors)
    }
}

/// The exit codes (spec §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// What was asked for is done.
    Done = 0,
    /// Something went wrong.
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// A dependency is away.
    Away = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

impl Failure {
    /// A failure of this database.
    pub fn database(database: &DatabaseChoice) -> impl FnOnce(StoreError) -> Failure {
        let database = database.clone();
        move |cause| match access_refusal(&cause) {
            Some(said) => Failure::AccessRefused { database, said },
            None => Failure::Database { database, cause },
        }
    }

    /// Why the schema of this database cannot be used.
    pub fn schema(database: &DatabaseChoice) -> impl FnOnce(SchemaError) -> Failure {
        let database = database.clone();
        move |error| match error {
            SchemaError::Unreleased => Failure::SchemaUnreleased { database },
            SchemaError::ForeignTable(table) => Failure::SchemaForeign { database, table },
            SchemaError::Store(cause) => Failure::database(&database)(cause),
        }
    }

    /// With which code the program ends.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Config(_)
            | Failure::SecretNeeded { .. }
            | Failure::SecretWeak { .. }
            | Failure::IssuedElsewhere
            | Failure::GatewayNeeded { .. }
            | Failure::SecretShared { .. }
            | Failure::SecretRefused { .. }
            | Failure::AccessRefused { .. }
            // No such user, password or vhost, or a queue that was declared with other settings.
            | Failure::Broker(BrokerError::Refused { .. })
            | Failure::BrokerUnseen
            | Failure::Usage { .. } => Exit::Usage,
            Failure::Database { cause, .. } if cause.is_outage() => Exit::Away,
            Failure::Broker(BrokerError::Unreachable(_)) => Exit::Away,
            Failure::SecretFile { .. }
            | Failure::SecretExposed { .. }
            | Failure::SecretBroken { .. }
            | Failure::NoEntropy(_)
            | Failure::LockFile { .. }
            | Failure::InUse { .. }
            | Failure::Database { .. }
            | Failure::NoDatabase { .. }
            | Failure::SchemaNewer { .. }
            | Failure::SchemaOlder { .. }
            | Failure::SchemaUnreleased { .. }
            | Failure::SchemaForeign { .. }
            | Failure::Migration { .. }
            | Failure::Missing { .. }
            | Failure::NotReplayed { .. }
            | Failure::NotDiscarded { .. }
            | Failure::Refused(_)
            | Failure::Gateway(_)
            | Failure::Broker(BrokerError::Closed { .. })
            | Failure::Listen { .. }
            | Failure::Http(_)
            | Failure::System { .. }
            | Failure::StillRunning { .. } => Exit::Failed,
        }
    }

    /// All of it, for a person.
    pub fn explain(&self) -> impl Display {
        let said = |what: &dyn Display, why, remedy| format!("error: {what}\n  why: {why}\n  do:  {remedy}");
        if let Failure::Config(errors) = self {
            let of = |error: &ConfigError| said(error, error.why(), error.remedy());
            return errors.iter().map(of).collect::<Vec<_>>().join("\n");
        }
        said(self, self.why(), self.remedy())
    }
}
