//! Addresses of database and broker: `[database]`, `[broker]`, `[rabbitmq]`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use handover_rabbitmq::{QueueType, RabbitSettings};
use handover_sql::ServerOptions;

use super::error::ConfigError;
use super::read::{Item, Reader};

/// Maximum of `database.connections`.
const MAX_CONNECTIONS: u32 = 500;
/// Time by which the adapter's confirm timeout is shorter than the relay's. The adapter can then still return an
/// outcome per message; after the relay's timeout, the outcome of the whole window would count as unknown.
const CONFIRM_MARGIN: Duration = Duration::from_millis(500);

/// The database that stores orders and events. Displayed without its password.
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
    Rabbit(Box<RabbitSettings>),
}

impl BrokerChoice {
    /// Limits the adapter's wait for publisher confirms, depending on the relay's timeout.
    pub(super) fn with_confirm_timeout(mut self, relay: Duration) -> BrokerChoice {
        if let BrokerChoice::Rabbit(settings) = &mut self {
            settings.confirm_timeout = relay.saturating_sub(CONFIRM_MARGIN).max(relay / 2);
        }
        self
    }
}

/// Reads `database.*`.
pub(super) fn database(reader: &Reader<'_>) -> Result<DatabaseChoice, ConfigError> {
    let item = reader.url("database.url", "sqlite://handover.db");
    let why = "with a single connection the process can deadlock, and servers allow a few hundred connections in total";
    let connections = reader.value("database.connections", "8").count(2..=MAX_CONNECTIONS, why)?;
    let authorities = reader.optional("database.ca-file");
    let url = item.as_text()?;
    let Some(path) = url.strip_prefix("sqlite://") else {
        let server = server(&item, &url)?.connections(connections);
        let server = match authorities {
            Some(file) => {
                let path = file.as_text()?;
                certificates(&file, &path)?;
                server.with_ca_certificates(Path::new(&path))
            }
            None => server,
        };
        return Ok(DatabaseChoice::Server(Box::new(server)));
    };
    if let Some(authorities) = authorities {
        let error = authorities.refused("a database file needs no network connection", "remove the key");
        return Err(error.related_to(&[item.key.path]));
    }
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

fn server(item: &Item, url: &str) -> Result<ServerOptions, ConfigError> {
    let remedy = "write sqlite://handover.db, mysql://user:password@host:3306/database or \
                  postgres://user:password@host:5432/database";
    if url.contains(":memory:") {
        return Err(item.refused("a database in memory would lose acknowledged orders", remedy));
    }
    ServerOptions::parse(url).map_err(|error| item.refused(&error.to_string(), remedy))
}

/// Reads `broker.*` and `rabbitmq.*`.
pub(super) fn broker(reader: &Reader<'_>, database: &DatabaseChoice) -> Result<BrokerChoice, ConfigError> {
    let item = reader.url("broker.url", "database:");
    let authorities = reader.optional("broker.ca-file");
    let queue_types = [("quorum", QueueType::Quorum), ("classic", QueueType::Classic)];
    let queue_type = reader.one_of("rabbitmq.queue-type", &queue_types)?;
    let management = reader.optional_url("rabbitmq.management-url");
    let url = item.as_text()?;
    let remedy =
        "write database: (tables in the database of the service) or amqp://user:password@host:5672/vhost";
    let own = match (url.as_str(), database) {
        ("database:", _) => BrokerChoice::Database,
        ("memory:", DatabaseChoice::File(_)) => BrokerChoice::Memory,
        ("memory:", DatabaseChoice::Server(_)) => {
            let error = item.refused(
                "other processes on this database cannot receive messages from the memory of this process",
                remedy,
            );
            return Err(error.related_to(&["database.url"]));
        }
        _ if url.starts_with("amqp:") || url.starts_with("amqps:") => {
            let settings = rabbit(&item, &url, queue_type, authorities)?;
            return with_management(settings, management);
        }
        _ => return Err(item.refused("it is not a broker URL", remedy)),
    };
    match authorities.or(management) {
        Some(needless) => {
            let error = needless.refused("broker.url names no server", "remove the key");
            Err(error.related_to(&[item.key.path]))
        }
        None => Ok(own),
    }
}

fn with_management(settings: RabbitSettings, url: Option<Item>) -> Result<BrokerChoice, ConfigError> {
    let settings = match url {
        Some(item) => {
            let remedy = "write http://host:15672, or https://host:15671 for an encrypted connection";
            settings
                .with_management_url(&item.as_text()?)
                .map_err(|error| item.refused(&error.to_string(), remedy))?
        }
        None => settings,
    };
    Ok(BrokerChoice::Rabbit(Box::new(settings)))
}

fn rabbit(
    item: &Item,
    url: &str,
    queue_type: QueueType,
    authorities: Option<Item>,
) -> Result<RabbitSettings, ConfigError> {
    let remedy = "write amqp://user:password@host:5672/vhost, or amqps:// for an encrypted connection";
    let mut settings =
        RabbitSettings::parse(url).map_err(|error| item.refused(&error.to_string(), remedy))?;
    if let Some(file) = authorities {
        let pem = certificates(&file, &file.as_text()?)?;
        settings = settings.with_ca_certificates(pem).map_err(|error| {
            file.refused(&error.to_string(), "name the authority's certificate, and use amqps://")
        })?;
    }
    settings.queue_type = queue_type;
    Ok(settings)
}

/// Reads a file of certificates in PEM format.
pub(super) fn certificates(item: &Item, path: &str) -> Result<String, ConfigError> {
    let remedy = "name a file with the authority's certificate in PEM format";
    let text = std::fs::read_to_string(path)
        .map_err(|cause| item.refused(&format!("the file cannot be read: {cause}"), remedy))?;
    if text.contains("-----BEGIN CERTIFICATE-----") {
        Ok(text)
    } else {
        Err(item.refused("the file contains no certificate", remedy))
    }
}

/// Whether a URL contains a password: `scheme://user:password@host`, or an option `password`.
pub(super) fn contains_password(url: &str) -> bool {
    if url.starts_with("sqlite:") {
        return false;
    }
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').and_then(|(user, _)| user.split_once(':'));
    let options = rest.split_once('?').map_or("", |(_, options)| options);
    let is_password = |option: &str| option.to_ascii_lowercase().starts_with("password=");
    user.is_some_and(|(_, password)| !password.is_empty()) || options.split('&').any(is_password)
}

/// A URL without its password: `scheme://...@host`. A file URL is returned unchanged, because a path may contain `@`. In a
/// malformed URL a password may contain any character, so every part that could belong to a password is removed.
pub(super) fn without_password(url: &str) -> String {
    if url.starts_with("sqlite:") {
        return url.to_owned();
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    let cut = |text: &str| match text.split_once('?') {
        Some((base, _)) => format!("{base}?..."),
        None => text.to_owned(),
    };
    match rest.rsplit_once('@') {
        Some((before, _)) if before.contains('?') => format!("{scheme}..."),
        Some((_, host)) => format!("{scheme}...@{}", cut(host)),
        None => format!("{scheme}{}", cut(rest)),
    }
}
