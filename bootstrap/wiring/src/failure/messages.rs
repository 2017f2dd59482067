//! Reason and advice for each failure.

use std::io;
use std::path::Path;

use handover_outbox::ports::{BrokerError, StoreError};

use super::Failure;
use crate::config::{ConfigError, ConfigErrors, DatabaseChoice};

impl Failure {
    /// Why the program cannot continue.
    pub fn why(&self) -> String {
        let text = match self {
            Failure::Config(errors) => return joined(errors, ConfigError::why),
            Failure::SecretNeeded { .. } => {
                "generated secrets are for trials on one machine; a deployment must set its own"
            }
            Failure::SecretPlaceholder { .. } => {
                "anybody who guesses it can sign in as any user or confirm payments"
            }
            Failure::NoSigningSecret => {
                "auth.jwks-file has public keys, which verify tokens but cannot sign them"
            }
            Failure::GatewayNeeded { .. } => {
                "the default is a sandbox: it reports refunds as paid and moves no money"
            }
            Failure::Gateway(_) => "the service sends refund requests to it",
            Failure::SharedSecretMissing { .. } => {
                "every process must accept the tokens and payment callbacks that the others accept"
            }
            Failure::SecretRefused { .. } | Failure::SecretFile { .. } => {
                "tokens and payment callbacks are verified with it"
            }
            Failure::SecretExposed { .. } => "anybody who reads it can sign in as any user",
            Failure::SecretFileInvalid { .. } => {
                "it is empty, too short, or was overwritten by another program"
            }
            Failure::EntropyError(_) => "secrets and event ids must be unpredictable",
            Failure::LockFile { .. } => "the lock prevents a second process from serving the database",
            Failure::InUse { .. } => "a SQLite database is served by one process at a time",
            Failure::Database { .. } => "all orders and events are stored in it",
            Failure::AccessRefused { .. } => {
                "the server does not accept this user and password, has no such database, or grants the user no rights on it"
            }
            Failure::NoDatabase { .. } => "it was not created yet, or it is in another folder",
            Failure::SchemaNewer { .. } => {
                "a newer version of handover migrated it; this version could misread its rows, so nothing was changed"
            }
            Failure::SchemaOlder { database: DatabaseChoice::Server(_), found: 0, .. } => {
                "its tables have not been created yet"
            }
            Failure::SchemaOlder { .. } => {
                "an older version of handover created it; it lacks columns that this version reads"
            }
            Failure::Migration { database: DatabaseChoice::Server(_), .. } => {
                "no released version created its schema, or this user may not change it"
            }
            Failure::Migration { .. } => {
                "no released version created its schema; the migration was rolled back, nothing was changed"
            }
            Failure::SchemaUnreleased { .. } => {
                "its migrations were replaced by others that cannot be applied on top of them; nothing was changed"
            }
            Failure::SchemaForeign { .. } => {
                "handover would read and write another program's rows there; nothing was changed"
            }
            Failure::Broker(_) => "the broker delivers all events",
            Failure::BrokerInMemory => "they are in the memory of the serving process",
            Failure::Missing { .. } => "the id is mistyped, or the row is in another database",
            Failure::NotReplayed { .. } | Failure::NotDiscarded { .. } => {
                "each `refused` entry of the output above has its reason"
            }
            Failure::Refused(_) => "the current state does not allow it; nothing was changed",
            Failure::Listen { .. } => "the API is served there",
            Failure::Http(_) => "it must run until the process is stopped",
            Failure::Usage { .. } => "the command does not accept this value",
            Failure::System { .. } => "the program cannot run without it",
            Failure::StillRunning { .. } => {
                "it did not finish in time; committed work is safe, the rest is repeated after the next start"
            }
        };
        text.to_owned()
    }

    /// What the user should do.
    pub fn remedy(&self) -> String {
        let text = match self {
            Failure::Config(errors) => return joined(errors, ConfigError::remedy),
            Failure::SecretNeeded { key, .. } => return format!("set {key}, or listen on 127.0.0.1"),
            Failure::SecretPlaceholder { key, .. } => {
                return format!(
                    "set {key} to random characters (openssl rand -hex 32; for gateway.secret echo whsec_$(openssl \
                     rand -base64 32)), or listen on 127.0.0.1"
                );
            }
            Failure::NoSigningSecret => {
                "get a token from the issuer of these keys, or also set auth.jwt-secret: both kinds of tokens are then accepted"
            }
            Failure::GatewayNeeded { .. } => {
                "set gateway.url to https:// and the gateway's address (or to \"sandbox:\" if no money must move), or \
                 listen on 127.0.0.1"
            }
            Failure::Gateway(_) => {
                "install this system's certificate authorities (ca-certificates), or name them in SSL_CERT_FILE"
            }
            Failure::SharedSecretMissing { key, .. } => {
                return format!("set {key} to the same value for every process that uses the database");
            }
            Failure::SecretRefused { key, .. } => {
                return format!("correct {key}, or leave it out");
            }
            Failure::SecretFile { .. } => "correct the permissions of the file and of its folder",
            Failure::SecretExposed { path } => {
                return format!(
                    "run `chmod 600 {}`; if another user may have read it, remove it, and the next start generates a new one",
                    path.display()
                );
            }
            Failure::SecretFileInvalid { path } => {
                return format!(
                    "remove {} (the next start generates a new one and existing tokens become invalid), or set the secret in \
                     the configuration",
                    path.display()
                );
            }
            Failure::EntropyError(_) => "check the random device of the system",
            Failure::LockFile { path, cause } => return folder_remedy(path, cause),
            Failure::InUse { .. } => "stop the other process, or name another file with --database",
            Failure::Database { database: DatabaseChoice::Server(_), cause } if cause.is_outage() => {
                "check that the server runs, and the host and port in database.url"
            }
            Failure::AccessRefused { .. } => {
                "correct user, password and database in database.url, or create the database and grant the user rights on it"
            }
            Failure::Database { database: DatabaseChoice::Server(_), .. } => {
                "check that this user may read and write the tables of handover, and that no other program changed them"
            }
            Failure::Database { database: DatabaseChoice::File(path), .. } if path.is_dir() => {
                "it is a folder: name a file in it with --database"
            }
            Failure::Database { cause: StoreError::Backend(_) | StoreError::Corrupt { .. }, .. } => {
                "check that the file is an intact, writable database of handover, or name another one with --database"
            }
            Failure::Database { .. } => "check that the folder exists, is writable, and has free space",
            Failure::NoDatabase { .. } => {
                "start `handover serve` (or `handover migrate`) here once, or name the file with --database"
            }
            Failure::SchemaNewer { database: DatabaseChoice::Server(_), .. } => {
                "run the newer version of handover, or restore a backup from before the migration"
            }
            Failure::SchemaNewer { .. } => {
                "run the newer version of handover, name another file with --database, or restore a copy of the file \
                 from before the migration"
            }
            Failure::SchemaOlder { database: DatabaseChoice::Server(_), found: 0, .. } => {
                "run `handover migrate` once, as a user with the right to create tables"
            }
            Failure::SchemaOlder { database: DatabaseChoice::Server(_), .. } => {
                "make a backup, then run `handover migrate` once, as a user with the right to alter tables; running \
                 processes of the older version continue"
            }
            Failure::SchemaOlder { .. } => {
                "copy the file, stop the process that serves it and run `handover migrate`; or use the older version"
            }
            Failure::Migration { database: DatabaseChoice::Server(_), .. } => {
                "run `handover migrate` as a user with the right to create and alter tables, in a database that only handover uses"
            }
            Failure::Migration { .. } => {
                "use the build that created the file, or start with another file (--database); if only released versions \
                 used this file, report a bug"
            }
            Failure::SchemaUnreleased { database: DatabaseChoice::Server(_) } => {
                "create an empty database, name it in database.url and run `handover migrate`; or serve the old one with \
                 the version that created it"
            }
            Failure::SchemaUnreleased { .. } => {
                "start with a new file (--database), or serve the old one with the version that created it"
            }
            Failure::SchemaForeign { .. } => {
                "create a database for handover (on PostgreSQL a schema is enough), name it in database.url and run \
                 `handover migrate`"
            }
            Failure::Broker(BrokerError::Refused { .. }) => {
                "correct the cause that the broker reports, or user, password and vhost in broker.url"
            }
            Failure::Broker(_) => "check that the broker runs, and check broker.url",
            Failure::BrokerInMemory => {
                "call its API with an operator's token: GET /api/v1/ops/queues, POST /api/v1/ops/dead-letters/replay"
            }
            Failure::Missing { see, .. } => {
                return format!("see `{see}`, or name the database with --database");
            }
            Failure::NotReplayed { .. } => {
                "correct the causes and replay again, or discard them with `handover dlq discard`"
            }
            Failure::NotDiscarded { .. } => {
                "nothing for dead letters that were already decided or applied; discard dead letters that are being applied again later"
            }
            Failure::Refused(_) => {
                "correct the cause in the first line and run the command again; otherwise report a bug"
            }
            Failure::Listen { listen, cause } => {
                return listen_remedy(listen.port(), cause.kind()).to_owned();
            }
            Failure::Http(_) | Failure::System { .. } => "start again; if it fails again, report a bug",
            Failure::Usage { remedy, .. } => remedy,
            Failure::StillRunning { .. } => "nothing; the next start continues",
        };
        text.to_owned()
    }
}

fn joined(errors: &ConfigErrors, part: impl Fn(&ConfigError) -> String) -> String {
    errors.iter().map(part).collect::<Vec<_>>().join("; ")
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
        "it is a folder: name a file in it with --database".to_owned()
    } else if is(&[io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded]) {
        format!("free disk space in {folder}")
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
