//! Errors that end the program: what failed, why, what to do, and the exit code.

mod messages;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use handover_outbox::ports::{BrokerError, StoreError, SystemFaultKind};
use handover_sql::{ForeignLog, SchemaError, SchemaVersion, UnsuitableSetting, access_refusal};
use handover_system::EntropyError;

use crate::config::{ConfigErrors, DatabaseChoice};

pub use messages::folder_remedy;

/// An error that ends the program.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{0}")]
    Config(ConfigErrors),
    #[error("{key} is not set, and {listen} can be reached from other machines")]
    SecretNeeded { key: &'static str, listen: SocketAddr },
    #[error("{key} looks like a placeholder, and {listen} can be reached from other machines")]
    SecretPlaceholder { key: &'static str, listen: SocketAddr },
    /// Tokens cannot be signed: only public keys of another issuer are configured.
    #[error("cannot sign a token: auth.jwt-secret is not set")]
    NoSigningSecret,
    /// Outside loopback the gateway, even the sandbox, must be configured explicitly.
    #[error("gateway.url is not set, and {listen} can be reached from other machines")]
    GatewayNeeded { listen: SocketAddr },
    #[error("cannot create the client of the payment gateway: {0}")]
    Gateway(String),
    #[error("{key} is not set, and all processes that use {database} must share it")]
    SharedSecretMissing { key: &'static str, database: DatabaseChoice },
    /// A configured secret or key file is invalid.
    #[error("{key} is invalid: {why}")]
    SecretRefused { key: &'static str, why: String },
    #[error("cannot create or read the secret file {}: {cause}", path.display())]
    SecretFile { path: PathBuf, cause: io::Error },
    #[error("the secret file {} can be read by other users", path.display())]
    SecretExposed { path: PathBuf },
    #[error("the secret file {} contains no valid secret", path.display())]
    SecretFileInvalid { path: PathBuf },
    /// The system provides no random numbers.
    #[error(transparent)]
    EntropyError(#[from] EntropyError),
    #[error("cannot create or lock the lock file {}: {cause}", path.display())]
    LockFile { path: PathBuf, cause: io::Error },
    #[error("another process serves {} (process {holder})", database.display())]
    InUse {
        database: PathBuf,
        /// Process id, read from the lock file.
        holder: String,
    },
    /// The database cannot be opened, or a statement failed.
    #[error("cannot use the database {database}: {cause}")]
    Database { database: DatabaseChoice, cause: StoreError },
    /// The server refused the login or does not have this database.
    #[error("the database {database} refuses access: {message}")]
    AccessRefused {
        database: DatabaseChoice,
        /// The server's message.
        message: String,
    },
    /// A setting of the server, the database or the user prevents the service from working.
    #[error("the database {database} has an unsuitable setting: {setting}")]
    Setting { database: DatabaseChoice, setting: UnsuitableSetting },
    /// The write-ahead log beside the database file would corrupt it.
    #[error(transparent)]
    ForeignLog(ForeignLog),
    #[error("cannot write the backup {}: {cause}", copy.display())]
    Backup { copy: PathBuf, cause: io::Error },
    #[error("database not found: {}", database.display())]
    NoDatabase { database: PathBuf },
    /// A newer version of the program migrated the database.
    #[error(
        "the database {database} has version {} of the {} schema, and this program supports versions up to {}",
        version.found.unwrap_or(0), version.part, version.needed
    )]
    SchemaNewer { database: DatabaseChoice, version: SchemaVersion },
    /// An older version of the program created the schema, and this command does not migrate.
    #[error(
        "the database {database} has version {} of the {} schema, and this program needs version {}",
        version.found.unwrap_or(0), version.part, version.needed
    )]
    SchemaOlder { database: DatabaseChoice, version: SchemaVersion },
    #[error("cannot migrate the database {database}: {cause}")]
    Migration { database: DatabaseChoice, cause: StoreError },
    /// A program from before the first release created the schema.
    #[error("the database {database} was created by a version of handover from before the first release")]
    SchemaUnreleased { database: DatabaseChoice },
    /// A table with a name of handover's schema was created by another program.
    #[error("the database {database} has a table {table} that handover did not create")]
    SchemaForeign { database: DatabaseChoice, table: String },
    /// The broker is unreachable or refused a request.
    #[error("cannot use the broker: {0}")]
    Broker(#[from] BrokerError),
    /// The broker is in the memory of the serving process.
    #[error("this command cannot access the queues of broker.url = \"memory:\"")]
    BrokerInMemory,
    /// A named row does not exist.
    #[error("not found in {database}: {what}")]
    Missing {
        /// Kind and ids of the rows.
        what: String,
        /// The command that lists existing rows.
        see: &'static str,
        database: DatabaseChoice,
    },
    #[error("{refused} of {matched} dead letters {} not replayed", if *refused == 1 { "was" } else { "were" })]
    NotReplayed {
        refused: usize,
        /// Number of dead letters that the command selected.
        matched: u64,
    },
    #[error("{refused} of {matched} dead letters {} not discarded", if *refused == 1 { "was" } else { "were" })]
    NotDiscarded {
        refused: usize,
        /// Number of dead letters that the command selected.
        matched: u64,
    },
    /// An operation was refused; the text says why.
    #[error("refused: {0}")]
    Refused(String),
    #[error("cannot listen on {listen}: {cause}")]
    Listen { listen: SocketAddr, cause: io::Error },
    #[error("the HTTP server failed: {0}")]
    Http(String),
    /// A value on the command line is invalid.
    #[error("{what}")]
    Usage { what: String, remedy: String },
    /// An operating-system call that the program needs failed.
    #[error("{what}: {cause}")]
    System { what: &'static str, cause: io::Error },
    /// The graceful stop did not finish in time.
    #[error("stopped after {after_ms} ms with {running} still running")]
    StillRunning {
        /// Milliseconds since the stop began.
        after_ms: u128,
        /// The component that did not stop in time.
        running: String,
    },
}

impl From<ConfigErrors> for Failure {
    fn from(errors: ConfigErrors) -> Failure {
        Failure::Config(errors)
    }
}

/// Exit codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    Failed = 1,
    /// The command line or the configuration is wrong.
    Usage = 2,
    /// A dependency is unavailable.
    Unavailable = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Whether rights or the schema of the database have to be corrected: no later start succeeds by itself.
fn needs_correction(cause: &StoreError) -> bool {
    let kind = cause.system_fault().map(|fault| fault.kind);
    matches!(kind, Some(SystemFaultKind::Rights | SystemFaultKind::Schema))
}

impl Failure {
    /// Converts store errors of this database to failures.
    pub fn database(database: &DatabaseChoice) -> impl FnOnce(StoreError) -> Failure {
        let database = database.clone();
        move |cause| match (foreign_log(&cause), access_refusal(&cause)) {
            (Some(foreign), _) => Failure::ForeignLog(foreign),
            (None, Some(message)) => Failure::AccessRefused { database, message },
            (None, None) => Failure::Database { database, cause },
        }
    }

    /// Converts schema errors of this database to failures.
    pub fn schema(database: &DatabaseChoice) -> impl FnOnce(SchemaError) -> Failure {
        let database = database.clone();
        move |error| match error {
            SchemaError::Unreleased => Failure::SchemaUnreleased { database },
            SchemaError::ForeignTable(table) => Failure::SchemaForeign { database, table },
            SchemaError::Store(cause) => Failure::database(&database)(cause),
        }
    }

    pub fn exit(&self) -> Exit {
        match self {
            Failure::Config(_)
            | Failure::SecretNeeded { .. }
            | Failure::SecretPlaceholder { .. }
            | Failure::NoSigningSecret
            | Failure::GatewayNeeded { .. }
            | Failure::SharedSecretMissing { .. }
            | Failure::SecretRefused { .. }
            | Failure::AccessRefused { .. }
            // Wrong user, password or vhost, or a queue that exists with other arguments.
            | Failure::Broker(BrokerError::Refused { .. })
            | Failure::BrokerInMemory
            | Failure::Usage { .. } => Exit::Usage,
            Failure::Database { cause, .. } if cause.is_outage() && !needs_correction(cause) => Exit::Unavailable,
            Failure::Broker(BrokerError::Unreachable(_)) => Exit::Unavailable,
            Failure::SecretFile { .. }
            | Failure::SecretExposed { .. }
            | Failure::SecretFileInvalid { .. }
            | Failure::EntropyError(_)
            | Failure::LockFile { .. }
            | Failure::InUse { .. }
            | Failure::Database { .. }
            | Failure::Setting { .. }
            | Failure::ForeignLog(_)
            | Failure::Backup { .. }
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

    /// The full message: what failed, why, what to do; each error of the configuration on its own.
    pub fn explain(&self) -> String {
        if let Failure::Config(errors) = self {
            let texts: Vec<String> = errors.iter().map(|error| error.explanation().to_string()).collect();
            return texts.join("\n");
        }
        self.explanation().to_string()
    }
}

fn foreign_log(error: &StoreError) -> Option<ForeignLog> {
    let StoreError::Backend(cause) = error else { return None };
    cause.downcast_ref().cloned()
}
