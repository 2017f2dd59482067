//! Why a failure matters, and what to do about it.

use std::io;
use std::path::Path;

use handover_outbox::ports::{BrokerError, StoreError};

use super::Failure;
use crate::config::{ConfigError, ConfigErrors, DatabaseChoice};

impl Failure {
    /// Why it matters.
    pub fn why(&self) -> String {
        let words = match self {
            Failure::Config(errors) => return joined(errors, ConfigError::why),
            Failure::SecretNeeded { .. } => {
                "a secret made at the first start is for trying out on one machine; a deployment sets its own"
            }
            Failure::SecretWeak { .. } => "who guesses it signs in as anybody, or confirms payments",
            Failure::IssuedElsewhere => "who verifies with public keys cannot sign",
            Failure::GatewayNeeded { .. } => {
                "the default is a sandbox: it says of every refund that it was paid back, and moves no money"
            }
            Failure::Gateway(_) => "refunds are asked for there",
            Failure::SecretShared { .. } => {
                "a token that one process signs has to be good at every other, and so has a payment's callback"
            }
            Failure::SecretRefused { .. } | Failure::SecretFile { .. } => {
                "tokens and payment callbacks are verified with it"
            }
            Failure::SecretExposed { .. } => "who reads it signs in as anybody",
            Failure::SecretBroken { .. } => "it is empty or too short; something else wrote to it",
            Failure::NoEntropy(_) => "without them secrets and event ids could be guessed",
            Failure::LockFile { .. } => "it keeps a second process away from the database",
            Failure::InUse { .. } => "a SQLite database is served by one process at a time",
            Failure::Database { .. } => "every order and event is kept in it",
            Failure::AccessRefused { .. } => {
                "the server answers, and knows no such user, password or database, or gave this user no rights on it"
            }
            Failure::NoDatabase { .. } => "nothing was served from there yet, or it lies in another folder",
            Failure::SchemaNewer { .. } => {
                "a newer handover was here; this one would misread what that one wrote, so it touches nothing"
            }
            Failure::SchemaOlder { database: DatabaseChoice::Server(_), found: 0, .. } => {
                "nothing was made in it yet"
            }
            Failure::SchemaOlder { .. } => {
                "it was made by an older handover; this one reads columns that it lacks"
            }
            Failure::Migration { database: DatabaseChoice::Server(_), .. } => {
                "its schema is not one that released versions make, or this user may not change it"
            }
            Failure::Migration { .. } => {
                "its schema is not one that released versions make; the step was undone, nothing is changed"
            }
            Failure::SchemaUnreleased { .. } => {
                "its migrations were replaced by others that cannot be applied on top of them; nothing is changed"
            }
            Failure::SchemaForeign { .. } => {
                "handover would read and write another program's rows there; nothing is changed"
            }
            Failure::Broker(_) => "events are carried by it",
            Failure::BrokerUnseen => "a broker in memory is seen by the process alone that has it",
            Failure::Missing { .. } => "the name is mistyped, or it is in another database",
            Failure::NotReplayed { .. } | Failure::NotDiscarded { .. } => {
                "each line above that says `refused` tells its own"
            }
            Failure::Refused(_) => "nothing was changed",
            Failure::Listen { .. } => "the API is served there",
            Failure::Http(_) => "it should run until it is stopped",
            Failure::Usage { .. } => "it means nothing here",
            Failure::System { .. } => "nothing works without it",
            Failure::StillRunning { .. } => {
                "it did not finish in time; what was committed is safe, the rest is done again after the next start"
            }
        };
        words.to_owned()
    }

    /// What to do.
    pub fn remedy(&self) -> String {
        let words = match self {
            Failure::Config(errors) => return joined(errors, ConfigError::remedy),
            Failure::SecretNeeded { key, .. } => return format!("set {key}, or listen on 127.0.0.1"),
            Failure::SecretWeak { key, .. } => {
                return format!(
                    "set {key} to random characters (openssl rand -hex 32; for gateway.secret echo whsec_$(openssl \
                     rand -base64 32)), or listen on 127.0.0.1"
                );
            }
            Failure::IssuedElsewhere => {
                "ask the issuer for a token, or set auth.jwt-secret as well: tokens under it are good beside the others"
            }
            Failure::GatewayNeeded { .. } => {
                "set gateway.url to https:// and the gateway's address (or to \"sandbox:\" if no money is to move), or \
                 listen on 127.0.0.1"
            }
            Failure::Gateway(_) => {
                "install this system's certificate authorities (ca-certificates), or name them in SSL_CERT_FILE"
            }
            Failure::SecretShared { key, .. } => {
                return format!("set {key}, the same for every process on that database");
            }
            Failure::SecretRefused { key, .. } => {
                return format!("set {key} anew, or leave it out: one is made");
            }
            Failure::SecretFile { .. } => "correct the permissions of the file and its folder",
            Failure::SecretExposed { path } => {
                return format!("chmod 600 {}, and make a new one if it may have been read", path.display());
            }
            Failure::SecretBroken { path } => {
                return format!(
                    "remove {} (a new one is made, old tokens end), or set the secret in the configuration",
                    path.display()
                );
            }
            Failure::NoEntropy(_) => "look at the system's random device",
            Failure::LockFile { path, cause } => return folder_remedy(path, cause),
            Failure::InUse { .. } => "stop the other process, or name another file with --database",
            Failure::Database { database: DatabaseChoice::Server(_), cause } if cause.is_outage() => {
                "see that the server runs, and that host and port of database.url are right"
            }
            Failure::AccessRefused { .. } => {
                "correct user, password and database in database.url, or create the database and grant the user its rights"
            }
            Failure::Database { database: DatabaseChoice::Server(_), .. } => {
                "see that this user may read and write the tables of handover there, and that nobody else changed them"
            }
            Failure::Database { database: DatabaseChoice::File(path), .. } if path.is_dir() => {
                "it is a folder: name a file in it with --database"
            }
            Failure::Database { cause: StoreError::Backend(_) | StoreError::Corrupt { .. }, .. } => {
                "see that the file is a database of handover, whole and writable, or name another one with --database"
            }
            Failure::Database { .. } => "see that the folder exists, can be written, and has space left",
            Failure::NoDatabase { .. } => {
                "start `handover serve` (or `handover migrate`) here once, or name the file with --database"
            }
            Failure::SchemaNewer { database: DatabaseChoice::Server(_), .. } => {
                "run the newer handover; the way back is a backup from before the migration"
            }
            Failure::SchemaNewer { .. } => {
                "run the newer handover, or name another file with --database; the way back is a copy of the file \
                 from before"
            }
            Failure::SchemaOlder { database: DatabaseChoice::Server(_), found: 0, .. } => {
                "run `handover migrate` once, as a user that may create tables"
            }
            Failure::SchemaOlder { database: DatabaseChoice::Server(_), .. } => {
                "make a backup, then run `handover migrate` once, as a user that may change tables; older processes go \
                 on meanwhile"
            }
            Failure::SchemaOlder { .. } => {
                "copy the file, stop whoever serves it and run `handover migrate`; or use the older handover"
            }
            Failure::Migration { database: DatabaseChoice::Server(_), .. } => {
                "run `handover migrate` as a user that may create and change tables, on a database of handover's own"
            }
            Failure::Migration { .. } => {
                "use the build that made the file, or begin with another one (--database); if no build of your own \
                 made it, report this"
            }
            Failure::SchemaUnreleased { database: DatabaseChoice::Server(_) } => {
                "create an empty database, name it in database.url and run `handover migrate`; or serve the old one with \
                 the handover that created it"
            }
            Failure::SchemaUnreleased { .. } => {
                "start afresh with another file (--database), or serve the old one with the handover that created it"
            }
            Failure::SchemaForeign { .. } => {
                "create a database for handover (on PostgreSQL a schema is enough), name it in database.url and run \
                 `handover migrate`"
            }
            Failure::Broker(BrokerError::Refused { .. }) => {
                "do what it says, or correct user, password and vhost in broker.url"
            }
            Failure::Broker(_) => "see that the broker runs and that broker.url is right",
            Failure::BrokerUnseen => {
                "ask that process with an operator's token: GET /api/v1/ops/queues, POST /api/v1/ops/dead-letters/replay"
            }
            Failure::Missing { see, .. } => {
                return format!("see `{see}`, or name the database with --database");
            }
            Failure::NotReplayed { .. } => {
                "mend what it says and replay again, or `handover dlq discard` them"
            }
            Failure::NotDiscarded { .. } => {
                "nothing, where it was decided or applied; where it is being applied, discard again in a while"
            }
            Failure::Refused(_) => "look at what it says; if that makes no sense, report it",
            Failure::Listen { listen, cause } => {
                return listen_remedy(listen.port(), cause.kind()).to_owned();
            }
            Failure::Http(_) | Failure::System { .. } => "start again; if it happens again, report it",
            Failure::Usage { remedy, .. } => remedy,
            Failure::StillRunning { .. } => "nothing; start it again when you want",
        };
        words.to_owned()
    }
}

fn joined(errors: &ConfigErrors, part: impl Fn(&ConfigError) -> String) -> String {
    errors.iter().map(part).collect::<Vec<_>>().join("; ")
}

/// What to do about a file that cannot be made in its folder.
pub fn folder_remedy(file: &Path, cause: &io::Error) -> String {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.display().to_string(),
        Some(_) | None => "this folder".to_owned(),
    };
    let is = |kinds: &[io::ErrorKind]| kinds.contains(&cause.kind());
    if is(&[io::ErrorKind::NotFound]) {
        format!("create the folder {folder}, or name another file with --database")
    } else if is(&[io::ErrorKind::NotADirectory]) {
        format!("{folder} is no folder: name another file with --database")
    } else if is(&[io::ErrorKind::IsADirectory]) {
        "it is a folder: name a file in it with --database".to_owned()
    } else if is(&[io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded]) {
        format!("make space in {folder}")
    } else {
        format!("let this user write in {folder}, or name another file with --database")
    }
}

/// What to do about an address that cannot be listened on.
fn listen_remedy(port: u16, cause: io::ErrorKind) -> &'static str {
    if cause == io::ErrorKind::AddrInUse {
        "stop what listens there, or choose another address with --listen (port 0 takes any free one)"
    } else if cause == io::ErrorKind::PermissionDenied && port < 1024 {
        "ports below 1024 are for privileged users: choose another with --listen"
    } else if cause == io::ErrorKind::AddrNotAvailable {
        "this machine has no such address: choose another with --listen (0.0.0.0 is all of them)"
    } else {
        "choose another address with --listen (port 0 takes any free one)"
    }
}
