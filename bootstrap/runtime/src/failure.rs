//! Errors that end the program: what failed, why, what to do, and the exit code.

mod conversions;
mod remedies;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use handover_outbox::ports::{BrokerError, StoreError};
use handover_sql::{ForeignLog, SchemaVersion, UnsuitableSetting};
use handover_system::EntropyError;

use crate::config::{ConfigError, ConfigErrors};
use crate::explanation::{Exit, Explained, Explanation};
use crate::settings::DatabaseChoice;
use crate::sibling_file::sibling_file;

pub use remedies::folder_remedy;
use remedies::{broker_remedy, database_remedy, listen_remedy, metrics_listen_remedy, needs_correction};

crate::failures! {
/// An error that ends the program.
pub enum Failure {
    /// The configuration is invalid.
    Config {
        /// All errors.
        errors: ConfigErrors,
    } => Exit::Usage,
    what: errors.to_string(),
    why: joined(errors, |error| error.why),
    do: joined(errors, |error| error.remedy);

    /// A failure of the application.
    Application {
        /// The application's error.
        failure: Box<dyn Explained>,
    } => failure.exit(),
    what: failure.to_string(),
    why: failure.explanation().why,
    do: failure.explanation().remedy;

    /// The system provides no random numbers.
    Entropy {
        /// Error of the system.
        cause: EntropyError,
    } => Exit::Failed,
    what: cause.to_string(),
    why: "secrets and event ids must be unpredictable",
    do: "check the random device of the system";

    /// The lock file of the database cannot be created or locked.
    LockFile {
        /// Path of the lock file.
        path: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
    } => Exit::Failed,
    what: format!("cannot create or lock the lock file {}: {cause}", path.display()),
    why: "the lock prevents a second process from serving the database",
    do: folder_remedy(path, cause);

    /// Another process serves the database file.
    InUse {
        /// Path of the database file.
        database: PathBuf,
        /// Process id, read from the lock file.
        holder: String,
    } => Exit::Failed,
    what: format!("another process serves {} (process {holder})", database.display()),
    why: "a SQLite database is served by one process at a time",
    do: "stop the other process, or name another file with --database";

    /// The database cannot be opened, or a statement failed.
    Database {
        /// The database.
        database: DatabaseChoice,
        /// Error of the database.
        cause: StoreError,
    } => if cause.is_outage() && !needs_correction(cause) { Exit::Unavailable } else { Exit::Failed },
    what: format!("cannot use the database {database}: {cause}"),
    why: "all events are stored in the database",
    do: database_remedy(database, cause);

    /// The server refused the login or does not have this database.
    AccessRefused {
        /// The database.
        database: DatabaseChoice,
        /// The server's message.
        message: String,
    } => Exit::Usage,
    what: format!("the database {database} refuses access: {message}"),
    why: "the server does not accept this user and password, has no such database, or grants the user no rights on it",
    do: "correct user, password and database in database.url, or create the database and grant the user rights on it";

    /// A setting of the server, the database or the user prevents the service from working.
    Setting {
        /// The database.
        database: DatabaseChoice,
        /// The setting.
        setting: UnsuitableSetting,
    } => Exit::Failed,
    what: format!("the database {database} has an unsuitable setting: {setting}"),
    why: setting.why,
    do: setting.remedy;

    /// The write-ahead log beside the database file would corrupt it.
    ForeignLog {
        /// The database file and the log.
        log: ForeignLog,
    } => Exit::Failed,
    what: log.to_string(),
    why: "SQLite would apply the log to the file and corrupt it, for instance after a restored backup; nothing was read \
          or changed",
    do: format!(
        "if {} is the state to continue from, move {} and {} to another folder and start again; otherwise put back the \
         file that the log belongs to",
        log.database.display(),
        log.log.display(),
        sibling_file(&log.database, "shm").display()
    );

    /// The copy of a database file cannot be written.
    Backup {
        /// Path of the copy.
        copy: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
    } => Exit::Failed,
    what: format!("cannot write the backup {}: {cause}", copy.display()),
    why: if cause.kind() == io::ErrorKind::AlreadyExists {
        "a backup never overwrites a file"
    } else {
        "no backup was made, and no file remains"
    },
    do: if cause.kind() == io::ErrorKind::AlreadyExists {
        format!("name a new file, or delete {} first", copy.display())
    } else {
        folder_remedy(copy, cause)
    };

    /// The database file does not exist.
    NoDatabase {
        /// Path of the database file.
        database: PathBuf,
    } => Exit::Failed,
    what: format!("database not found: {}", database.display()),
    why: "the database file was not created yet, or is in another folder",
    do: "start the service here once (or run `handover migrate`), or name the file with --database";

    /// The archive cannot be opened.
    Archive {
        /// Place, cause and remedy.
        cause: handover_archive::OpenError,
    } => Exit::Failed,
    what: cause.to_string(),
    why: "archive.url names this place, in which settled events are stored before they leave the database",
    do: "correct archive.url or what the message names, or remove archive.url: then no event is archived";

    /// A newer version of the program migrated the database.
    SchemaNewer {
        /// The database.
        database: DatabaseChoice,
        /// The part that is newer.
        version: SchemaVersion,
    } => Exit::Failed,
    what: format!(
        "the database {database} has version {} of the {} schema, and this program supports versions up to {}",
        version.found.unwrap_or(0), version.part, version.needed
    ),
    why: "a newer version of handover migrated the database; this version could misread the rows, so nothing was changed",
    do: match database {
        DatabaseChoice::Server(_) => {
            "run the newer version of handover, or restore a backup from before the migration"
        }
        DatabaseChoice::File(_) => {
            "run the newer version of handover, name another file with --database, or restore a copy of the file from \
             before the migration"
        }
    };

    /// An older version of the program created the schema, and this command does not migrate.
    SchemaOlder {
        /// The database.
        database: DatabaseChoice,
        /// The part that is older.
        version: SchemaVersion,
    } => Exit::Failed,
    what: match version.found {
        None => format!("the database {database} has no tables of the {} schema", version.part),
        Some(found) => format!(
            "the database {database} has version {found} of the {} schema, and this program needs version {}",
            version.part, version.needed
        ),
    },
    why: match version.found {
        None => "the tables have not been created yet: the database is new, or belongs to another program",
        Some(_) => "an older version of handover created the schema, which lacks columns that this version reads",
    },
    do: match (database, version.found) {
        (DatabaseChoice::Server(_), None) => {
            "run `handover migrate` once, as a user with the right to create tables"
        }
        (DatabaseChoice::Server(_), Some(_)) => {
            "make a backup, then run `handover migrate` once, as a user with the right to alter tables; running \
             processes of the older version continue"
        }
        (DatabaseChoice::File(_), None) => {
            "name the database of the service with --database; if this file is the right one, start the service or run \
             `handover migrate`, which create the tables"
        }
        (DatabaseChoice::File(_), Some(_)) => {
            "run `handover backup FILE`, stop the process that serves the database and run `handover migrate`; or use \
             the older version"
        }
    };

    /// A migration failed.
    Migration {
        /// The database.
        database: DatabaseChoice,
        /// Error of the database.
        cause: StoreError,
    } => Exit::Failed,
    what: format!("cannot migrate the database {database}: {cause}"),
    why: match database {
        DatabaseChoice::Server(_) => {
            "no released version of handover created the schema, or this user is not permitted to change it"
        }
        DatabaseChoice::File(_) => {
            "no released version of handover created the schema; the migration was rolled back, nothing was changed"
        }
    },
    do: match database {
        DatabaseChoice::Server(_) => {
            "run `handover migrate` as a user with the right to create and alter tables, in a database that only \
             handover uses"
        }
        DatabaseChoice::File(_) => {
            "use the build that created the file, or start with another file (--database); if only released versions \
             used this file, report a bug"
        }
    };

    /// A program from before the first release created the schema.
    SchemaUnreleased {
        /// The database.
        database: DatabaseChoice,
    } => Exit::Failed,
    what: format!("the database {database} was created by a version of handover from before the first release"),
    why: "the migrations from before the first release were replaced by others that cannot be applied on top of them; \
          nothing was changed",
    do: match database {
        DatabaseChoice::Server(_) => {
            "create an empty database, name it in database.url and run `handover migrate`; or serve the old database \
             with the version that created it"
        }
        DatabaseChoice::File(_) => {
            "start with a new file (--database), or serve the old file with the version that created it"
        }
    };

    /// A table or index with a name of the schema was created by another program.
    SchemaForeign {
        /// The database.
        database: DatabaseChoice,
        /// Kind and name, such as `a table books`.
        relation: String,
    } => Exit::Failed,
    what: format!("the database {database} has {relation} that handover did not create"),
    why: "handover would read and write the rows of another program; nothing was changed",
    do: "create a database for handover (on PostgreSQL a schema is enough), name it in database.url and run `handover \
         migrate`";

    /// The broker is unreachable or refused a request.
    Broker {
        /// Error of the broker.
        cause: BrokerError,
    } => match cause {
        // Wrong user, password or vhost, or a queue that exists with other arguments.
        BrokerError::Refused { .. } => Exit::Usage,
        BrokerError::Unreachable(_) => Exit::Unavailable,
        BrokerError::Closed { .. } => Exit::Failed,
    },
    what: format!("cannot use the broker: {cause}"),
    why: "events reach the consumers only through the broker",
    do: broker_remedy(cause);

    /// The broker is in the memory of the serving process.
    BrokerInMemory {} => Exit::Usage,
    what: "this command cannot access the queues of broker.url = \"memory:\"",
    why: "the queues are in the memory of the serving process",
    do: "call the operators' routes of that process: GET .../queues, POST .../dead-letters/replay";

    /// A named row does not exist.
    Missing {
        /// Kind and ids of the rows.
        what: String,
        /// The command that lists existing rows.
        see: &'static str,
        /// The database.
        database: DatabaseChoice,
    } => Exit::Failed,
    what: format!("not found in {database}: {what}"),
    why: "the id is mistyped, or the row is in another database",
    do: format!("see `{see}`, or name the database with --database");

    /// The listening socket cannot be opened.
    Listen {
        /// The address.
        listen: SocketAddr,
        /// Error of the operating system.
        cause: io::Error,
    } => Exit::Failed,
    what: format!("cannot listen on {listen}: {cause}"),
    why: "the API is served on this address",
    do: listen_remedy(listen.port(), cause.kind());

    /// Another process of the program listens on the address.
    ListenTaken {
        /// The address.
        listen: SocketAddr,
    } => Exit::Failed,
    what: format!("cannot listen on {listen}: another handover listens there"),
    why: "the API is served on this address",
    do: "stop the other process, or choose another address with --listen (port 0 selects a free one)";

    /// The listening socket for metrics cannot be opened.
    ListenMetrics {
        /// The address.
        listen: SocketAddr,
        /// Error of the operating system.
        cause: io::Error,
    } => Exit::Failed,
    what: format!("cannot listen on {listen}: {cause}"),
    why: "metrics.listen: a process without the role api serves /metrics, /healthz and /readyz on this address",
    do: metrics_listen_remedy(listen.port(), cause.kind());

    /// Processes that share a database on a server must share a secret that is not set.
    SharedSecretMissing {
        /// The configuration key.
        key: &'static str,
        /// The database.
        database: DatabaseChoice,
        /// What the secrets of the program verify.
        verifies: &'static [&'static str],
    } => Exit::Usage,
    what: format!("{key} is not set, and all processes that use {database} must share it"),
    why: format!("every process must accept the {} that the others accept", verifies.join(" and ")),
    do: format!("set {key} to the same value for every process that uses the database");

    /// A file with a secret cannot be written or read.
    SecretFile {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        cause: io::Error,
        /// What the secrets of the program verify.
        verifies: &'static [&'static str],
    } => Exit::Failed,
    what: format!("cannot create or read the secret file {}: {cause}", path.display()),
    why: format!("{} are verified with the secret in this file", verifies.join(" or ")),
    do: "correct the permissions of the file and of its folder";

    /// Other users can read a file with a secret.
    SecretExposed {
        /// Path of the file.
        path: PathBuf,
    } => Exit::Failed,
    what: format!("the secret file {} can be read by other users", path.display()),
    why: "anybody who reads the secret can sign in as any user",
    do: format!(
        "run `chmod 600 {}`; if another user may have read the file, remove the file: the next start generates a new \
         secret",
        path.display()
    );

    /// A file contains no valid secret.
    SecretFileInvalid {
        /// Path of the file.
        path: PathBuf,
    } => Exit::Failed,
    what: format!("the secret file {} contains no valid secret", path.display()),
    why: "the file is empty, too short, or was overwritten by another program",
    do: format!(
        "remove {} (the next start generates a new secret and existing tokens become invalid), or set the secret in the \
         configuration",
        path.display()
    );

    /// A configured secret or key file is invalid.
    SecretRefused {
        /// The configuration key.
        key: &'static str,
        /// Why the secret or the keys are refused.
        reason: String,
        /// What the secrets of the program verify.
        verifies: &'static [&'static str],
    } => Exit::Usage,
    what: format!("{key} is invalid: {reason}"),
    why: format!("{} are verified with the configured secrets and keys", verifies.join(" and ")),
    do: format!("correct or remove {key}");

    /// Tokens cannot be signed: only public keys of another issuer are configured.
    NoSigningSecret {} => Exit::Usage,
    what: "cannot sign a token: auth.jwt-secret is not set",
    why: "auth.jwks-file has public keys, which verify tokens but cannot sign them",
    do: "get a token from the issuer of the public keys, or also set auth.jwt-secret: both kinds of tokens are then \
         accepted";

    /// A secret is not random, and the service can be reached from other machines.
    SecretPlaceholder {
        /// The configuration key.
        key: &'static str,
    } => Exit::Usage,
    what: format!("{key} looks like a placeholder, and the service can be reached from other machines"),
    why: "anybody can guess the secret",
    do: format!("set {key} to random characters (openssl rand -hex 32), or listen on 127.0.0.1");

    /// The HTTP server failed.
    Http {
        /// What happened.
        message: String,
    } => Exit::Failed,
    what: format!("the HTTP server failed: {message}"),
    why: "the HTTP server must run until the process is stopped",
    do: "start again; if it fails again, report a bug";

    /// A value on the command line is invalid.
    Usage {
        /// What is wrong.
        what: String,
        /// What to do.
        remedy: String,
    } => Exit::Usage,
    what: what.clone(),
    why: "the command does not accept this value",
    do: remedy.clone();

    /// An operating-system call that the program needs failed.
    System {
        /// What failed.
        what: &'static str,
        /// Error of the operating system.
        cause: io::Error,
    } => Exit::Failed,
    what: format!("{what}: {cause}"),
    why: "the program needs this operation of the operating system",
    do: "start again; if it fails again, report a bug";

    /// Webhooks cannot be sent.
    WebhookTransport {
        /// Why.
        reason: String,
    } => Exit::Failed,
    what: format!("cannot prepare the sending of webhooks: {reason}"),
    why: "requests to endpoints are encrypted and signed",
    do: "install ca-certificates, and correct webhook.key, webhook.previous-key and webhook.ca-file";

    /// The graceful stop did not finish in time.
    StillRunning {
        /// Milliseconds since the stop began.
        after_ms: u128,
        /// The component that did not stop in time.
        running: String,
    } => Exit::Failed,
    what: format!("stopped after {after_ms} ms with {running} still running"),
    why: "a component did not finish in time; committed work is safe, the rest is repeated after the next start",
    do: "no action is needed: the next start continues the work";
}
}

impl Failure {
    /// The full message: what failed, why, what to do; each error of the configuration on its own.
    pub fn explain(&self) -> String {
        if let Failure::Config { errors } = self {
            let texts: Vec<String> = errors.iter().map(|error| error.explanation().to_string()).collect();
            return texts.join("\n");
        }
        self.explanation().to_string()
    }
}

/// One part of the explanations of all errors.
fn joined(errors: &ConfigErrors, part: fn(Explanation) -> String) -> String {
    errors.iter().map(ConfigError::explanation).map(part).collect::<Vec<_>>().join("; ")
}
