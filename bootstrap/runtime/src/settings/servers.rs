//! Addresses of database and broker: `[database]`, `[broker]`, `[rabbitmq]`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use handover_rabbitmq::{QueueType, RabbitSettings};
use handover_sql::ServerOptions;

use crate::config::{Checked, ConfigError, Item, Kind, Reader};

/// The key of the database, which the flag `--database` sets.
pub const DATABASE_URL: &str = "database.url";
/// The default of [`DATABASE_URL`].
pub const DATABASE_DEFAULT: &str = "sqlite://handover.db";
const DATABASE_CA_FILE: &str = "database.ca-file";
const BROKER_URL: &str = "broker.url";
const BROKER_CA_FILE: &str = "broker.ca-file";
const MANAGEMENT_URL: &str = "rabbitmq.management-url";

/// Maximum of `database.connections`.
const MAX_CONNECTIONS: u32 = 500;
/// Time by which the adapter's confirm timeout is shorter than the relay's. The adapter can then still return an
/// outcome per message; after the relay's timeout, the outcome of the whole window would count as unknown.
const CONFIRM_MARGIN: Duration = Duration::from_millis(500);

/// The database that stores the events. Displayed without its password.
#[derive(Debug, Clone)]
pub enum DatabaseChoice {
    /// A SQLite file, served by one process.
    File(PathBuf),
    /// A database on a server, shared by any number of processes.
    Server(Box<ServerOptions>),
}

impl DatabaseChoice {
    /// Path of the database file; `None` on a server.
    pub fn file(&self) -> Option<&Path> {
        match self {
            DatabaseChoice::File(path) => Some(path),
            DatabaseChoice::Server(_) => None,
        }
    }
}

impl fmt::Display for DatabaseChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DatabaseChoice::File(path) => path.display().fmt(f),
            DatabaseChoice::Server(server) => f.write_str(&server.address()),
        }
    }
}

/// The broker that delivers the events.
#[derive(Debug, Clone)]
pub enum BrokerChoice {
    /// Tables in the database of the service.
    Database,
    /// Memory of this process, for tests. Messages lost in a crash are published again from the outbox.
    Memory,
    /// A RabbitMQ server.
    Rabbit(Box<RabbitSettings>),
}

impl BrokerChoice {
    /// The messaging system, as the semantic conventions of OpenTelemetry name it.
    pub fn system(&self) -> &'static str {
        match self {
            BrokerChoice::Database | BrokerChoice::Memory => "handover",
            BrokerChoice::Rabbit(_) => "rabbitmq",
        }
    }

    /// Limits the adapter's wait for publisher confirms, depending on the relay's timeout.
    pub fn with_confirm_timeout(mut self, relay: Duration) -> BrokerChoice {
        if let BrokerChoice::Rabbit(settings) = &mut self {
            settings.confirm_timeout = relay.saturating_sub(CONFIRM_MARGIN).max(relay / 2);
        }
        self
    }
}

/// Reads `database.*`.
pub fn database(reader: &Reader<'_>) -> Checked<DatabaseChoice> {
    let choice = reader.key(Kind::Url, DATABASE_URL, DATABASE_DEFAULT, database_of);
    let why = "with a single connection the process can deadlock, and servers allow a few hundred connections in total";
    let connections = reader.count("database.connections", "8", 2..=MAX_CONNECTIONS, why);
    let authorities = reader.optional(Kind::Text, DATABASE_CA_FILE, Item::as_text);
    match (choice?, authorities?) {
        (DatabaseChoice::Server(server), authorities) => {
            let server = match authorities {
                Some(path) => {
                    certificates(reader, DATABASE_CA_FILE, &path)?;
                    server.with_ca_certificates(Path::new(&path))
                }
                None => *server,
            };
            Ok(DatabaseChoice::Server(Box::new(server.connections(connections?))))
        }
        (file @ DatabaseChoice::File(_), None) => Ok(file),
        (DatabaseChoice::File(_), Some(_)) => {
            let file = reader.item(DATABASE_CA_FILE);
            let error = file.refused("a database file needs no network connection", "remove the key");
            Err(reader.report(error.related_to(&[DATABASE_URL])))
        }
    }
}

fn database_of(item: &Item) -> Result<DatabaseChoice, ConfigError> {
    let url = item.as_text()?;
    let Some(path) = url.strip_prefix("sqlite://") else {
        let remedy = "write sqlite://handover.db, mysql://user:password@host:3306/database or \
                      postgres://user:password@host:5432/database";
        if url.contains(":memory:") {
            return Err(item.refused("a database in memory would lose acknowledged commits", remedy));
        }
        let server = ServerOptions::parse(&url).map_err(|error| item.refused(&error.to_string(), remedy))?;
        return Ok(DatabaseChoice::Server(Box::new(server)));
    };
    let remedy = "write sqlite://handover.db (in this folder) or sqlite:///srv/handover/handover.db";
    match path {
        "" => Err(item.refused("it names no file", remedy)),
        _ if path.ends_with('/') => Err(item.refused("it names a folder", remedy)),
        _ if path.contains(['?', '#', '%']) => {
            Err(item.refused("only a plain path is allowed, without options or escapes", remedy))
        }
        _ => Ok(DatabaseChoice::File(PathBuf::from(path))),
    }
}

/// Reads `broker.*` and `rabbitmq.*`. `database` is the database of the process, if its settings are valid.
pub fn broker(reader: &Reader<'_>, database: Option<&DatabaseChoice>) -> Checked<BrokerChoice> {
    let choice = reader.key(Kind::Url, BROKER_URL, "database:", broker_of);
    let authorities = reader.optional(Kind::Text, BROKER_CA_FILE, Item::as_text);
    let queue_types = [("quorum", QueueType::Quorum), ("classic", QueueType::Classic)];
    let queue_type = reader.one_of("rabbitmq.queue-type", &queue_types);
    let management = reader.optional(Kind::Url, MANAGEMENT_URL, Item::as_text);
    match choice? {
        BrokerChoice::Rabbit(settings) => {
            let authorities = authorities
                .and_then(|file| file.map(|file| certificates(reader, BROKER_CA_FILE, &file)).transpose());
            let settings = management.and_then(|url| with_management(reader, *settings, url));
            let mut settings = with_authorities(reader, settings?, authorities?)?;
            settings.queue_type = queue_type?;
            Ok(BrokerChoice::Rabbit(Box::new(settings)))
        }
        BrokerChoice::Memory if matches!(database, Some(DatabaseChoice::Server(_))) => {
            let why =
                "other processes on this database cannot receive messages from the memory of this process";
            let error = reader.item(BROKER_URL).refused(why, BROKER_REMEDY);
            Err(reader.report(error.related_to(&[DATABASE_URL])))
        }
        own @ (BrokerChoice::Database | BrokerChoice::Memory) => {
            let needless = match (authorities?, management?) {
                (Some(_), _) => BROKER_CA_FILE,
                (None, Some(_)) => MANAGEMENT_URL,
                (None, None) => return Ok(own),
            };
            let error = reader.item(needless).refused("broker.url names no server", "remove the key");
            Err(reader.report(error.related_to(&[BROKER_URL])))
        }
    }
}

const BROKER_REMEDY: &str =
    "write database: (tables in the database of the service) or amqp://user:password@host:5672/vhost";

fn broker_of(item: &Item) -> Result<BrokerChoice, ConfigError> {
    let url = item.as_text()?;
    match url.as_str() {
        "database:" => Ok(BrokerChoice::Database),
        "memory:" => Ok(BrokerChoice::Memory),
        _ if url.starts_with("amqp:") || url.starts_with("amqps:") => {
            let remedy =
                "write amqp://user:password@host:5672/vhost, or amqps:// for an encrypted connection";
            let settings =
                RabbitSettings::parse(&url).map_err(|error| item.refused(&error.to_string(), remedy))?;
            Ok(BrokerChoice::Rabbit(Box::new(settings)))
        }
        _ => Err(item.refused("it is not a broker URL", BROKER_REMEDY)),
    }
}

fn with_authorities(
    reader: &Reader<'_>,
    settings: RabbitSettings,
    certificates: Option<String>,
) -> Checked<RabbitSettings> {
    let Some(certificates) = certificates else { return Ok(settings) };
    settings.with_ca_certificates(certificates).map_err(|error| {
        let remedy = "name the authority's certificate, and use amqps://";
        reader.report(reader.item(BROKER_CA_FILE).refused(&error.to_string(), remedy))
    })
}

fn with_management(
    reader: &Reader<'_>,
    settings: RabbitSettings,
    url: Option<String>,
) -> Checked<RabbitSettings> {
    let Some(url) = url else { return Ok(settings) };
    settings.with_management_url(&url).map_err(|error| {
        let remedy = "write http://host:15672, or https://host:15671 for an encrypted connection";
        reader.report(reader.item(MANAGEMENT_URL).refused(&error.to_string(), remedy))
    })
}

/// Reads the file of certificates in PEM format that the key `key` names.
pub fn certificates(reader: &Reader<'_>, key: &'static str, path: &str) -> Checked<String> {
    let refused = |why: &str| {
        let remedy = "name a file with the authority's certificate in PEM format";
        reader.report(reader.item(key).refused(why, remedy))
    };
    let text = std::fs::read_to_string(path)
        .map_err(|cause| refused(&format!("the file cannot be read: {cause}")))?;
    if text.contains("-----BEGIN CERTIFICATE-----") {
        Ok(text)
    } else {
        Err(refused("the file contains no certificate"))
    }
}
