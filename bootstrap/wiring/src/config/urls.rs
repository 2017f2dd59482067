//! Where database and broker are.

use std::fmt;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use handover_rabbitmq::{QueueType, RabbitSettings};
use handover_sql::ServerOptions;

use super::error::ConfigError;
use super::read::{Item, Reader};

/// The most connections of a pool.
const MAX_CONNECTIONS: u32 = 500;
/// A confirm that comes in time for the broker's adapter is in time for the relay, which would know less of a late one.
const CONFIRM_MARGIN: Duration = Duration::from_millis(500);

/// Where orders and events are kept. Shown without its password.
#[derive(Debug, Clone)]
pub enum DatabaseChoice {
    /// An SQLite file, served by one process.
    File(PathBuf),
    /// A database on a server, shared by any number of processes.
    Server(Box<ServerOptions>),
}

impl DatabaseChoice {
    /// The file, if it is one.
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
            DatabaseChoice::Server(server) => f.write_str(&server.place()),
        }
    }
}

/// Which broker carries the events.
#[derive(Debug, Clone)]
pub enum BrokerChoice {
    /// Tables of the service's own database.
    Database,
    /// This process's memory: for tests. What it loses in a crash is sent again from the outbox.
    Memory,
    /// RabbitMQ.
    Rabbit(Box<RabbitSettings>),
}

/// `database.*`.
pub(super) fn database(reader: &Reader<'_>) -> Result<DatabaseChoice, ConfigError> {
    let item = reader.item("database.url")?;
    let url = item.text()?;
    let authorities = reader.find("database.ca-file");
    let connections = connections(reader)?;
    let Some(path) = url.strip_prefix("sqlite://") else {
        let server = server(&item, &url)?.connections(connections);
        let server = match authorities {
            Some(file) => {
                let path = file.text()?;
                certificates(&file, &path)?;
                server.trusting(Path::new(&path))
            }
            None => server,
        };
        return Ok(DatabaseChoice::Server(Box::new(server)));
    };
    if let Some(authorities) = authorities {
        let error = authorities.refused("a file is not reached through a network", "leave it out");
        return Err(error.related_to(&["database.url"]));
    }
    let remedy = "write sqlite://handover.db (in this folder) or sqlite:///srv/handover/handover.db";
    match path {
        "" => Err(item.refused("it names no file", remedy)),
        _ if path.ends_with('/') => Err(item.refused("it names a folder", remedy)),
        _ if path.contains(['?', '#', '%']) => {
            Err(item.refused("it is a plain path: options and escapes mean nothing", remedy))
        }
        _ => Ok(DatabaseChoice::File(PathBuf::from(path))),
    }
}

fn connections(reader: &Reader<'_>) -> Result<NonZeroU32, ConfigError> {
    let why =
        "one connection would be enough to wait for itself, and servers have few hundreds for everybody";
    let most = reader.count("database.connections", 2..=MAX_CONNECTIONS, why)?;
    Ok(NonZeroU32::new(most).unwrap_or(NonZeroU32::MIN))
}

fn server(item: &Item<'_>, url: &str) -> Result<ServerOptions, ConfigError> {
    let remedy = "write sqlite://handover.db, mysql://user:password@host:3306/database or \
                  postgres://user:password@host:5432/database";
    if url.contains(":memory:") {
        return Err(item.refused("a database in memory would lose what was answered", remedy));
    }
    ServerOptions::parse(url).map_err(|error| item.refused_as(&shown(url), &error.to_string(), remedy))
}

/// `broker.*` and `rabbitmq.*`.
pub(super) fn broker(
    reader: &Reader<'_>,
    database: &DatabaseChoice,
    confirm_timeout: Duration,
) -> Result<BrokerChoice, ConfigError> {
    let item = reader.item("broker.url")?;
    let url = item.text()?;
    let remedy =
        "write database: (tables of the service's own database) or amqp://user:password@host:5672/vhost";
    let queue_type = reader
        .one_of("rabbitmq.queue-type", &[("quorum", QueueType::Quorum), ("classic", QueueType::Classic)])?;
    let authorities = reader.find("broker.ca-file");
    let own = match (url.as_str(), database) {
        ("database:", _) => BrokerChoice::Database,
        ("memory:", DatabaseChoice::File(_)) => BrokerChoice::Memory,
        ("memory:", DatabaseChoice::Server(_)) => {
            let error = item.refused("other processes on this database would never see its messages", remedy);
            return Err(error.related_to(&["database.url"]));
        }
        _ if url.starts_with("amqp:") || url.starts_with("amqps:") => {
            return rabbit(&item, &url, queue_type, authorities, confirm_timeout);
        }
        _ => return Err(item.refused_as(&shown(&url), "it is no broker URL", remedy)),
    };
    match authorities {
        Some(authorities) => {
            let error = authorities.refused("broker.url names no server", "leave it out");
            Err(error.related_to(&["broker.url"]))
        }
        None => Ok(own),
    }
}

fn rabbit(
    item: &Item<'_>,
    url: &str,
    queue_type: QueueType,
    authorities: Option<Item<'_>>,
    confirm_timeout: Duration,
) -> Result<BrokerChoice, ConfigError> {
    let remedy = "write amqp://user:password@host:5672/vhost, or amqps:// for an encrypted connection";
    let mut settings = RabbitSettings::parse(url)
        .map_err(|error| item.refused_as(&shown(url), &error.to_string(), remedy))?;
    if let Some(file) = authorities {
        let pem = certificates(&file, &file.text()?)?;
        settings = settings.trusting(pem).map_err(|error| {
            file.refused(&error.to_string(), "name the authority's certificate, and use amqps://")
        })?;
    }
    settings.queue_type = queue_type;
    settings.confirm_timeout = confirm_timeout.saturating_sub(CONFIRM_MARGIN).max(confirm_timeout / 2);
    Ok(BrokerChoice::Rabbit(Box::new(settings)))
}

/// What a file of certificates holds.
pub(super) fn certificates(item: &Item<'_>, path: &str) -> Result<String, ConfigError> {
    let remedy = "name a file with the authority's certificate in PEM form";
    let text = std::fs::read_to_string(path)
        .map_err(|cause| item.refused(&format!("the file cannot be read: {cause}"), remedy))?;
    if text.contains("-----BEGIN CERTIFICATE-----") {
        Ok(text)
    } else {
        Err(item.refused("the file holds no certificate", remedy))
    }
}

/// A URL in quotes, as it may be shown.
pub(super) fn shown(url: &str) -> String {
    format!("\"{}\"", without_password(url))
}

/// Whether a URL holds a password: `scheme://user:password@host`, or one among its options.
pub(super) fn tells_password(url: &str) -> bool {
    if url.starts_with("sqlite:") {
        return false;
    }
    let bare = url.split_once("://").map_or(url, |(_, bare)| bare);
    let authority = bare.split(['/', '?', '#']).next().unwrap_or_default();
    let user = authority.rsplit_once('@').and_then(|(user, _)| user.split_once(':'));
    let options = bare.split_once('?').map_or("", |(_, options)| options);
    let is_password = |option: &str| option.to_ascii_lowercase().starts_with("password=");
    user.is_some_and(|(_, password)| !password.is_empty()) || options.split('&').any(is_password)
}

/// A URL as it may be shown: `scheme://...@host` keeps scheme and host. The path of a file may hold an `@`. In a URL that
/// nobody can read a password may hold any sign: what could be a part of one is left out.
pub(super) fn without_password(url: &str) -> String {
    if url.starts_with("sqlite:") {
        return url.to_owned();
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    let cut = |text: &str| match text.split_once('?') {
        Some((bare, _)) => format!("{bare}?..."),
        None => text.to_owned(),
    };
    match rest.rsplit_once('@') {
        Some((before, _)) if before.contains('?') => format!("{scheme}..."),
        Some((_, host)) => format!("{scheme}...@{}", cut(host)),
        None => format!("{scheme}{}", cut(rest)),
    }
}
