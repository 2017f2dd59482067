//! Why the program gives up: what, why, what to do, and the exit code that says so.

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use handover_application::ports::{BrokerError, StoreError};
use handover_system::NoEntropy;

use crate::config::ConfigError;

/// Why the program gives up.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The configuration is refused.
    #[error("{0}")]
    Config(Box<ConfigError>),
    /// A secret that is ours alone protects nothing from strangers.
    #[error("{key} is not set, and {listen} can be reached from other machines")]
    SecretNeeded {
        /// The key to set.
        key: &'static str,
        /// Where the service would listen.
        listen: SocketAddr,
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
    #[error("the database {} cannot be used: {cause}", database.display())]
    Database {
        /// The database.
        database: PathBuf,
        /// What is wrong.
        cause: StoreError,
    },
    /// The broker cannot be used.
    #[error("the broker cannot be used: {0}")]
    Broker(#[from] BrokerError),
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

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::Config(Box::new(error))
    }
}

/// The exit codes (spec §5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
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
    /// A failure of the database at this path.
    pub(crate) fn database(database: impl Into<PathBuf>) -> impl FnOnce(StoreError) -> Failure {
        let database = database.into();
        move |cause| Failure::Database { database, cause }
    }

    /// With which code the program ends.
    pub fn exit(&self) -> Exit {
        match self {
            Failure::Config(_)
            | Failure::SecretNeeded { .. }
            | Failure::SecretRefused { .. }
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
            | Failure::Broker(_)
            | Failure::Listen { .. }
            | Failure::Http(_)
            | Failure::System { .. }
            | Failure::StillRunning { .. } => Exit::Failed,
        }
    }

    fn why(&self) -> String {
        match self {
            Failure::Config(error) => error.why(),
            Failure::SecretNeeded { .. } => "a secret made at the first start is for trying out on one machine; a deployment sets its own".to_owned(),
            Failure::SecretRefused { .. } => "tokens and payment callbacks are verified with it".to_owned(),
            Failure::SecretFile { .. } => "tokens and payment callbacks are verified with it".to_owned(),
            Failure::SecretExposed { .. } => "who reads it signs in as anybody".to_owned(),
            Failure::SecretBroken { .. } => "it is empty or too short; something else wrote to it".to_owned(),
            Failure::NoEntropy(_) => "without them secrets and event ids could be guessed".to_owned(),
            Failure::LockFile { .. } => "it keeps a second process away from the database".to_owned(),
            Failure::InUse { .. } => "a SQLite database is served by one process at a time".to_owned(),
            Failure::Database { .. } => "every order and event is kept in it".to_owned(),
            Failure::Broker(_) => "events are carried by it".to_owned(),
            Failure::Listen { .. } => "the API is served there".to_owned(),
            Failure::Http(_) => "it should run until it is stopped".to_owned(),
            Failure::Usage { .. } => "it means nothing here".to_owned(),
            Failure::System { .. } => "nothing works without it".to_owned(),
            Failure::StillRunning { .. } => {
                "it did not finish in time; what was committed is safe, the rest is done again after the next start".to_owned()
            }
        }
    }

    fn remedy(&self) -> String {
        match self {
            Failure::Config(error) => error.remedy(),
            Failure::SecretNeeded { key, .. } => format!("set {key}, or listen on 127.0.0.1"),
            Failure::SecretRefused { key, .. } => format!("set {key} anew, or leave it out: one is made"),
            Failure::SecretFile { .. } => "correct the permissions of the file and its folder".to_owned(),
            Failure::SecretExposed { path } => {
                format!("chmod 600 {}, and make a new one if it may have been read", path.display())
            }
            Failure::SecretBroken { path } => {
                format!(
                    "remove {} (a new one is made, old tokens end), or set the secret in the configuration",
                    path.display()
                )
            }
            Failure::NoEntropy(_) => "look at the system's random device".to_owned(),
            Failure::LockFile { .. } => {
                "correct the permissions of the database's folder, or create it".to_owned()
            }
            Failure::InUse { .. } => {
                "stop the other process, or name another file with --database".to_owned()
            }
            Failure::Database { .. } => {
                "see that the folder exists, can be written, and has space left".to_owned()
            }
            Failure::Broker(_) => "see that broker.url is right".to_owned(),
            Failure::Listen { .. } => {
                "choose another address with --listen (port 0 takes any free one)".to_owned()
            }
            Failure::Http(_) | Failure::System { .. } => {
                "start again; if it happens again, report it".to_owned()
            }
            Failure::Usage { remedy, .. } => remedy.clone(),
            Failure::StillRunning { .. } => "nothing; start it again when you want".to_owned(),
        }
    }

    /// All of it, for a person.
    pub fn explain(&self) -> impl Display {
        format!("error: {self}\n  why: {}\n  do:  {}", self.why(), self.remedy())
    }
}
