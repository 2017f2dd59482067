//! Where database and broker are, word for word: for `bench`, which also speaks to them without our adapters.

use super::error::{ConfigError, Origin};
use super::layers::{self, Sources};
use super::read::Reader;

/// URLs with their passwords; never shown.
pub struct Written {
    /// `database.url`.
    pub database: String,
    /// Nobody named a database.
    pub database_is_default: bool,
    /// `database.ca-file`.
    pub database_authorities: Option<String>,
    /// `database.connections`.
    pub connections: u32,
    /// `broker.url`.
    pub broker: String,
    /// `broker.ca-file`.
    pub broker_authorities: Option<String>,
}

impl Written {
    /// What these sources say; to be read only where a [`Config`](super::Config) of them was.
    pub fn of(sources: &Sources) -> Result<Written, ConfigError> {
        let settings = layers::merge(sources)?;
        let reader = Reader(&settings);
        let file = |key| reader.find(key).map(|item| item.text()).transpose();
        let database = reader.item("database.url")?;
        Ok(Written {
            database: database.text()?,
            database_is_default: matches!(database.setting.origin, Origin::Default),
            database_authorities: file("database.ca-file")?,
            connections: super::urls::connections(&reader)?.get(),
            broker: reader.text("broker.url")?,
            broker_authorities: file("broker.ca-file")?,
        })
    }
}
