//! The configuration as it may be shown to anybody.

use super::keys::{KEYS, Kind};
use super::layers::{self, Sources};
use super::read::show;
use super::urls::without_password;
use super::{Config, ConfigError, ConfigErrors, Origin};

/// A setting as it may be shown.
#[derive(Debug, Clone)]
pub struct Described {
    /// Its key.
    pub key: &'static str,
    /// Its value, unless that is a secret.
    pub value: Shown,
    /// Where the value came from.
    pub origin: Origin,
}

/// Every setting, and every error.
#[derive(Debug)]
pub struct Description {
    /// The settings, in the order of the documentation; refused values too.
    pub settings: Vec<Described>,
    /// The errors that [`Config::load`] reports, if there are any.
    pub errors: Option<ConfigErrors>,
}

impl Description {
    /// The error of this key's value, if it is refused.
    pub fn error_of(&self, key: &str) -> Option<&ConfigError> {
        self.errors.as_ref()?.iter().find(|error| error.key() == Some(key))
    }
}

/// A value as it may be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown {
    /// It is nobody's secret.
    Value {
        /// As it would stand in the file.
        text: String,
        /// As a program reads it.
        json: serde_json::Value,
    },
    /// A secret that is set.
    Hidden,
    /// A secret that is not set: beside a database file one is made.
    Made,
    /// It need not be set, and is not.
    Unset,
}

impl Config {
    /// Every setting with the origin of its value, and the errors of all of them.
    pub fn describe(sources: &Sources) -> Description {
        let (settings, _) = layers::merge(sources);
        let described = KEYS.iter().map(|key| match settings.get(key.path) {
            None => {
                let value = if key.kind == Kind::Secret { Shown::Made } else { Shown::Unset };
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
