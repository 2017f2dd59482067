//! Where database and broker are: what works now, and what to say about the rest.

use std::path::PathBuf;

use super::error::ConfigError;
use super::read::Reader;

/// Which broker carries the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BrokerChoice {
    /// Tables of the service's own database.
    Database,
    /// This process's memory: for tests. What it loses in a crash is sent again from the outbox.
    Memory,
}

/// The file of the SQLite database.
pub(super) fn database(reader: &Reader<'_>) -> Result<PathBuf, ConfigError> {
    let item = reader.item("database.url")?;
    let url = item.text()?;
    let remedy = "write sqlite://handover.db (in this folder) or sqlite:///srv/handover/handover.db";
    if let Some(path) = url.strip_prefix("sqlite://") {
        return match path {
            "" => Err(item.refused("it names no file", remedy)),
            _ if path.ends_with('/') => Err(item.refused("it names a folder", remedy)),
            _ if path.contains(['?', '#', '%']) => {
                Err(item.refused("it is a plain path: options and escapes mean nothing", remedy))
            }
            _ => Ok(PathBuf::from(path)),
        };
    }
    let server =
        ["mysql:", "mariadb:", "postgres:", "postgresql:"].iter().any(|scheme| url.starts_with(scheme));
    if server {
        let shown = format!("\"{}\"", without_password(&url));
        return Err(item.refused_as(
            &shown,
            "MySQL and PostgreSQL arrive with a later version; this one has SQLite",
            remedy,
        ));
    }
    let why = if url.contains(":memory:") {
        "a database in memory would lose what was answered"
    } else {
        "it is no database URL"
    };
    Err(item.refused(why, remedy))
}

/// The broker.
pub(super) fn broker(reader: &Reader<'_>) -> Result<BrokerChoice, ConfigError> {
    let item = reader.item("broker.url")?;
    let url = item.text()?;
    let remedy = "write database: (tables of the service's own database)";
    match url.as_str() {
        "database:" => Ok(BrokerChoice::Database),
        "memory:" => Ok(BrokerChoice::Memory),
        _ if url.starts_with("amqp:") || url.starts_with("amqps:") => Err(item.refused_as(
            &format!("\"{}\"", without_password(&url)),
            "RabbitMQ arrives with a later version; this one has the database broker, with the same topology",
            remedy,
        )),
        _ => Err(item.refused("it is no broker URL", remedy)),
    }
}

/// A URL as it may be shown: `scheme://...@host` keeps scheme and host. The path of a file may hold an `@`.
pub(super) fn without_password(url: &str) -> String {
    if url.starts_with("sqlite:") {
        return url.to_owned();
    }
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://...@{host}"),
        (Some(_) | None, Some(_) | None) => url.to_owned(),
    }
}
