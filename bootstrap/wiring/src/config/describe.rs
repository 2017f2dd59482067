//! The configuration without its secrets, for `config show`.

use super::keys::{KEYS, Kind};
use super::layers::{self, Sources};
use super::read::show;
use super::urls::without_password;
use super::{Config, ConfigError, ConfigErrors, Origin};

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
        /// As written in the configuration file.
        text: String,
        json: serde_json::Value,
    },
    /// A secret that is set.
    Hidden,
    /// A secret that is not set; with a database file one is generated.
    Generated,
    /// An optional setting that is not set.
    Unset,
}

impl Config {
    /// Describes every setting with the origin of its value, and all errors.
    pub fn describe(sources: &Sources) -> Description {
        let (settings, _) = layers::merge(sources);
        let described = KEYS.iter().map(|key| match settings.get(key.path) {
            None => {
                let value = if key.kind == Kind::Secret { Shown::Generated } else { Shown::Unset };
                Described { key: key.path, value, origin: Origin::Default }
            }
            Some(setting) => {
                let value = match key.kind {
                    Kind::Secret => Shown::Hidden,
                    Kind::Url => shown_url(setting.value.as_str().unwrap_or_default()),
                    Kind::Text | Kind::Value => Shown::Value {
                        text: show(&setting.value),
                        json: serde_json::to_value(&setting.value).unwrap_or_default(),
                    },
                };
                Described { key: key.path, value, origin: setting.origin.clone() }
            }
        });
        Description { settings: described.collect(), errors: Config::load(sources).err() }
    }
}

fn shown_url(url: &str) -> Shown {
    let url = without_password(url);
    Shown::Value { text: format!("\"{url}\""), json: url.into() }
}
