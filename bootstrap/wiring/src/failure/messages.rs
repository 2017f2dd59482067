//! Reason and advice for each failure.

use std::io;
use std::path::Path;

use handover_outbox::ports::{BrokerError, StoreError, SystemFaultKind};

use handover_sql::{ForeignLog, SchemaVersion};

use super::Failure;
use crate::config::{ConfigError, ConfigErrors, DatabaseChoice};
use crate::explanation::Explanation;
use crate::sibling_file::sibling_file;

impl Failure {
    /// Returns the explanation: what failed, why the program cannot continue, and what the user should do.
    pub fn explanation(&self) -> Explanation {
        let explain = |why: &str, remedy: &str| Explanation::new(self, why, remedy);
        match self {
            Failure::Config(errors) => joined(self, errors),
            Failure::SecretNeeded { key, .. } => explain(
                "generated secrets are for trials on one machine; a deployment must set its own",
                &format!("set {key}, or listen on 127.0.0.1"),
            ),
            Failure::SecretPlaceholder { key, .. } => explain(
                "anybody who guesses the secret can sign in as any user or confirm payments",
                &format!(
                    "set {key} to random characters (openssl rand -hex 32; for gateway.secret echo whsec_$(openssl \
                     rand -base64 32)), or listen on 127.0.0.1"
                ),
            ),
            Failure::NoSigningSecret => explain(
                "auth.jwks-file has public keys, which verify tokens but cannot sign them",
                "get a token from the issuer of the public keys, or also set auth.jwt-secret: both kinds of tokens are then accepted",
            ),
            Failure::GatewayNeeded { .. } => explain(
                "the default is a sandbox: it reports refunds as paid and moves no money",
                "set gateway.url to https:// and the gateway's address (or to \"sandbox:\" if no money must move), or \
                 listen on 127.0.0.1",
            ),
            Failure::Gateway(_) => explain(
                "the service sends refund requests to the payment gateway",
                "install this system's certificate authorities (ca-certificates), or name them in SSL_CERT_FILE",
            ),
            Failure::SharedSecretMissing { key, .. } => explain(
                "every process must accept the tokens and payment callbacks that the others accept",
                &format!("set {key} to the same value for every process that uses the database"),
            ),
            Failure::SecretRefused { key, .. } => explain(
                "tokens and payment callbacks are verified with the configured secrets and keys",
                &format!("correct or remove {key}"),
            ),
            Failure::SecretFile { .. } => explain(
                "tokens or payment callbacks are verified with the secret in this file",
                "correct the permissions of the file and of its folder",
            ),
            Failure::SecretExposed { path } => explain(
                "anybody who reads the secret can sign in as any user",
                &format!(
                    "run `chmod 600 {}`; if another user may have read the file, remove the file: the next start generates a new secret",
                    path.display()
                ),
            ),
            Failure::SecretFileInvalid { path } => explain(
                "the file is empty, too short, or was overwritten by another program",
                &format!(
                    "remove {} (the next start generates a new secret and existing tokens become invalid), or set the secret in \
                     the configuration",
                    path.display()
                ),
            ),
            Failure::EntropyError(_) => explain(
                "secrets and event ids must be unpredictable",
                "check the random device of the system",
            ),
            Failure::LockFile { path, cause } => explain(
                "the lock prevents a second process from serving the database",
                &folder_remedy(path, cause),
            ),
            Failure::InUse { .. } => explain(
                "a SQLite database is served by one process at a time",
                "stop the other process, or name another file with --database",
            ),
            Failure::Database { database, cause } => {
                explain("all orders and events are stored in the database", database_remedy(database, cause))
            }
            Failure::AccessRefused { .. } => explain(
                "the server does not accept this user and password, has no such database, or grants the user no rights on it",
                "correct user, password and database in database.url, or create the database and grant the user rights on it",
            ),
            Failure::Setting { setting, .. } => explain(setting.why, setting.remedy),
            Failure::ForeignLog(ForeignLog { database, log, .. }) => explain(
                "SQLite would apply the log to the file and corrupt it, for instance after a restored backup; nothing \
                 was read or changed",
                &format!(
                    "if {} is the state to continue from, move {} and {} to another folder and start again; otherwise \
                     put back the file that the log belongs to",
                    database.display(),
                    log.display(),
                    sibling_file(database, "shm").display()
                ),
            ),
            Failure::Backup { copy, cause } if cause.kind() == io::ErrorKind::AlreadyExists => explain(
                "a backup never overwrites a file",
                &format!("name a new file, or delete {} first", copy.display()),
            ),
            Failure::Backup { copy, cause } => {
                explain("no backup was made, and no file remains", &folder_remedy(copy, cause))
            }
            Failure::NoDatabase { .. } => explain(
                "the database file was not created yet, or is in another folder",
                "start `handover serve` (or `handover migrate`) here once, or name the file with --database",
            ),
            Failure::SchemaNewer { database, .. } => explain(
                "a newer version of handover migrated the database; this version could misread the rows, so nothing was changed",
                match database {
                    DatabaseChoice::Server(_) => {
                        "run the newer version of handover, or restore a backup from before the migration"
                    }
                    DatabaseChoice::File(_) => {
                        "run the newer version of handover, name another file with --database, or restore a copy of the file \
                         from before the migration"
                    }
                },
            ),
            Failure::SchemaOlder {
                database: DatabaseChoice::Server(_),
                version: SchemaVersion { found: None, .. },
            } => explain(
                "the tables of handover have not been created yet",
                "run `handover migrate` once, as a user with the right to create tables",
            ),
            Failure::SchemaOlder { database, .. } => explain(
                "an older version of handover created the schema, which lacks columns that this version reads",
                match database {
                    DatabaseChoice::Server(_) => {
                        "make a backup, then run `handover migrate` once, as a user with the right to alter tables; running \
                         processes of the older version continue"
                    }
                    DatabaseChoice::File(_) => {
                        "run `handover backup FILE`, stop the process that serves the database and run `handover migrate`; or use the older version"
                    }
                },
            ),
            Failure::Migration { database: DatabaseChoice::Server(_), .. } => explain(
                "no released version of handover created the schema, or this user is not permitted to change it",
                "run `handover migrate` as a user with the right to create and alter tables, in a database that only handover uses",
            ),
            Failure::Migration { database: DatabaseChoice::File(_), .. } => explain(
                "no released version of handover created the schema; the migration was rolled back, nothing was changed",
                "use the build that created the file, or start with another file (--database); if only released versions \
                 used this file, report a bug",
            ),
            Failure::SchemaUnreleased { database } => explain(
                "the migrations from before the first release were replaced by others that cannot be applied on top of them; nothing \
                 was changed",
                match database {
                    DatabaseChoice::Server(_) => {
                        "create an empty database, name it in database.url and run `handover migrate`; or serve the old database with \
                         the version that created it"
                    }
                    DatabaseChoice::File(_) => {
                        "start with a new file (--database), or serve the old file with the version that created it"
                    }
                },
            ),
            Failure::SchemaForeign { .. } => explain(
                "handover would read and write the rows of another program; nothing was changed",
                "create a database for handover (on PostgreSQL a schema is enough), name it in database.url and run \
                 `handover migrate`",
            ),
            Failure::Broker(error) => {
                explain("events reach the consumers only through the broker", broker_remedy(error))
            }
            Failure::BrokerInMemory => explain(
                "the queues are in the memory of the serving process",
                "call the API of that process with an operator's token: GET /api/v1/ops/queues, POST /api/v1/ops/dead-letters/replay",
            ),
            Failure::Missing { see, .. } => explain(
                "the id is mistyped, or the row is in another database",
                &format!("see `{see}`, or name the database with --database"),
            ),
            Failure::NotReplayed { .. } => explain(
                "each `refused` entry of the output above has its reason",
                "correct the causes and replay again, or discard the dead letters with `handover dlq discard`",
            ),
            Failure::NotDiscarded { .. } => explain(
                "each `refused` entry of the output above has its reason",
                "dead letters that were already decided or applied need no action; for dead letters that are being applied, repeat the command later",
            ),
            Failure::Refused(_) => explain(
                "the operation is not allowed in the current state of the service; nothing was changed",
                "correct the cause in the first line and run the command again; otherwise report a bug",
            ),
            Failure::Listen { listen, cause } => {
                explain("the API is served on this address", listen_remedy(listen.port(), cause.kind()))
            }
            Failure::Http(_) => explain(
                "the HTTP server must run until the process is stopped",
                "start again; if it fails again, report a bug",
            ),
            Failure::Usage { remedy, .. } => explain("the command does not accept this value", remedy),
            Failure::System { .. } => explain(
                "the program needs this operation of the operating system",
                "start again; if it fails again, report a bug",
            ),
            Failure::StillRunning { .. } => explain(
                "a component did not finish in time; committed work is safe, the rest is repeated after the next start",
                "no action is needed: the next start continues the work",
            ),
        }
    }
}

/// All errors of a configuration in one explanation.
fn joined(failure: &Failure, errors: &ConfigErrors) -> Explanation {
    let all: Vec<Explanation> = errors.iter().map(ConfigError::explanation).collect();
    let join = |part: fn(&Explanation) -> &str| all.iter().map(part).collect::<Vec<_>>().join("; ");
    Explanation::new(failure, join(|one| &one.why), join(|one| &one.remedy))
}

fn database_remedy(database: &DatabaseChoice, cause: &StoreError) -> &'static str {
    match database {
        DatabaseChoice::Server(_) if let Some(fault) = cause.system_fault() => fault.kind.remedy(),
        DatabaseChoice::Server(_) if cause.is_outage() => {
            "check that the server runs, and the host and port in database.url"
        }
        DatabaseChoice::Server(_) => {
            "check that this user may read and write the tables of handover, and that no other program changed them"
        }
        DatabaseChoice::File(path) if path.is_dir() => {
            "the path is a folder: name a file in it with --database"
        }
        DatabaseChoice::File(_)
            if matches!(cause, StoreError::Backend(_) | StoreError::Corrupt { .. })
                || cause.system_fault().is_some_and(|fault| fault.kind == SystemFaultKind::Schema) =>
        {
            "check that the file is an intact, writable database of handover, or name another one with --database"
        }
        DatabaseChoice::File(_) => "check that the folder exists, is writable, and has free space",
    }
}

fn broker_remedy(error: &BrokerError) -> &'static str {
    match error {
        BrokerError::Refused { .. } => {
            "correct the cause that the broker reports, or user, password and vhost in broker.url"
        }
        BrokerError::Unreachable(_) | BrokerError::Closed { .. } => {
            "check that the broker runs, and check broker.url"
        }
    }
}

/// Advice for a file that cannot be created in its folder.
pub fn folder_remedy(file: &Path, cause: &io::Error) -> String {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.display().to_string(),
        Some(_) | None => "this folder".to_owned(),
    };
    let is = |kinds: &[io::ErrorKind]| kinds.contains(&cause.kind());
    if is(&[io::ErrorKind::NotFound]) {
        format!("create the folder {folder}, or name another file with --database")
    } else if is(&[io::ErrorKind::NotADirectory]) {
        format!("{folder} is not a folder: name another file with --database")
    } else if is(&[io::ErrorKind::IsADirectory]) {
        "the path is a folder: name a file in it with --database".to_owned()
    } else if is(&[io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded]) {
        format!("free disk space in {folder}")
    } else if is(&[io::ErrorKind::ReadOnlyFilesystem]) {
        format!("mount the file system of {folder} writable; the system log says why it is read-only")
    } else {
        format!("give this user write permission in {folder}, or name another file with --database")
    }
}

/// Advice for an address that cannot be bound.
fn listen_remedy(port: u16, cause: io::ErrorKind) -> &'static str {
    if cause == io::ErrorKind::AddrInUse {
        "stop the process that listens there, or choose another address with --listen (port 0 selects a free one)"
    } else if cause == io::ErrorKind::PermissionDenied && port < 1024 {
        "ports below 1024 need privileges: choose another port with --listen"
    } else if cause == io::ErrorKind::AddrNotAvailable {
        "this machine has no such address: choose another with --listen (0.0.0.0 is every IPv4 address)"
    } else {
        "choose another address with --listen (port 0 selects a free one)"
    }
}
