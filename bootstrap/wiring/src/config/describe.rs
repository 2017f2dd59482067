//! The configuration without its secrets, for `config show`.

use super::key_list::{Key, Kind, keys};
use super::layers::{self, Setting, Sources};
use super::read::show_safely;
use super::urls::without_password;
use super::{Config, ConfigError, ConfigErrors, GATEWAY_SECRET, JWT_SECRET, Origin};

/// A setting without its secret parts.
#[derive(Debug, Clone)]
pub struct Described {
    pub key: &'static str,
    pub value: Shown,
    pub origin: Origin,
}

/// All settings and all errors.
#[derive(Debug)]
pub struct Description {
    /// The settings in the order of the documentation, including invalid values.
    pub settings: Vec<Described>,
    /// The errors that [`Config::load`] reports, if any.
    pub errors: Option<ConfigErrors>,
}

impl Description {
    /// The error of this key's value, if it is invalid.
    pub fn error_of(&self, key: &str) -> Option<&ConfigError> {
        self.errors.as_ref()?.iter().find(|error| error.key() == Some(key))
    }
}

/// A value without its secret parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// Not secret.
    Value {
        /// The value as it is written in the configuration file.
        text: String,
        json: serde_json::Value,
    },
    /// A secret that is set.
    Hidden,
    /// A secret that is not set; for a database file, the first start generates it.
    Generated,
    /// An optional setting that is not set.
    Unset,
}

impl Config {
    /// Describes every setting with the origin of its value, and all errors.
    pub fn describe(sources: &Sources) -> Description {
        let (mut settings, _) = layers::merge(sources);
        let described = keys().iter().map(|key| {
            let default = || {
                let value = key.kind.parse(key.default?);
                Some(Setting { value, origin: Origin::Default })
            };
            described(*key, settings.remove(key.path).or_else(default))
        });
        Description { settings: described.collect(), errors: Config::load(sources).err() }
    }
}

fn described(key: Key, setting: Option<Setting>) -> Described {
    let Some(Setting { value, origin }) = setting else {
        let is_generated = [JWT_SECRET, GATEWAY_SECRET].contains(&key.path);
        let value = if is_generated { Shown::Generated } else { Shown::Unset };
        return Described { key: key.path, value, origin: Origin::Default };
    };
    let text = show_safely(key.kind, &value);
    let value = match key.kind {
        Kind::Secret => Shown::Hidden,
        Kind::Url => Shown::Value { text, json: without_password(value.as_str().unwrap_or_default()).into() },
        Kind::Text | Kind::Value => {
            Shown::Value { text, json: serde_json::to_value(&value).unwrap_or_default() }
        }
    };
    Described { key: key.path, value, origin }
}
