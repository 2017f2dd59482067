//! The configuration without its secrets, for `config show`.

use handover_outbox::operations::RunningSetting;

use super::error::{ConfigError, ConfigErrors, Origin};
use super::item::{Setting, Settings, show_safely, without_password};
use super::keys::{Key, Keys, Kind};

/// A setting without its secret parts.
#[derive(Debug, Clone)]
pub struct Described {
    /// Path of the key.
    pub key: &'static str,
    /// The value.
    pub value: Shown,
    /// Source of the value.
    pub origin: Origin,
    /// Whether the value is a secret, or a URL that may contain a password.
    pub may_be_secret: bool,
}

impl Described {
    /// The setting as `config show` prints it, and as a running process reports it.
    pub fn as_text(&self) -> RunningSetting {
        let value = match &self.value {
            Shown::Value { text, .. } => text.clone(),
            Shown::Hidden => "(hidden)".to_owned(),
            Shown::Generated => "(generated at the first start, stored next to the database file)".to_owned(),
            Shown::Unset => "(not set)".to_owned(),
        };
        let (kind, name) = self.origin.kind_and_name();
        RunningSetting { key: self.key.to_owned(), value, from: name.unwrap_or_else(|| kind.to_owned()) }
    }
}

/// All settings and all errors.
#[derive(Debug)]
pub struct Description {
    /// The settings in the order of the documentation, including invalid values.
    pub settings: Vec<Described>,
    /// The errors that [`Configuration::load`](super::Configuration::load) reports, if any.
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
        /// The value as JSON.
        json: serde_json::Value,
    },
    /// A secret that is set.
    Hidden,
    /// A secret that is not set; for a database file, the first start generates it.
    Generated,
    /// An optional setting that is not set.
    Unset,
}

impl Description {
    /// Describes these settings and the defaults of all other keys.
    pub(super) fn new(keys: &Keys, mut settings: Settings, errors: Option<ConfigErrors>) -> Description {
        let described = keys.iter().map(|key| {
            let default = || {
                let value = key.kind.parse(key.default.as_deref()?);
                Some(Setting { value, origin: Origin::Default })
            };
            described(key, settings.remove(key.path).or_else(default))
        });
        Description { settings: described.collect(), errors }
    }
}

fn described(key: &Key, setting: Option<Setting>) -> Described {
    let may_be_secret = match key.kind {
        Kind::Secret { .. } | Kind::Url => true,
        Kind::Text | Kind::Value => false,
    };
    let Some(Setting { value, origin }) = setting else {
        let value = match key.kind {
            Kind::Secret { is_generated: true } => Shown::Generated,
            Kind::Secret { is_generated: false } | Kind::Text | Kind::Url | Kind::Value => Shown::Unset,
        };
        return Described { key: key.path, value, origin: Origin::Default, may_be_secret };
    };
    let text = show_safely(key.kind, &value);
    let value = match key.kind {
        Kind::Secret { .. } => Shown::Hidden,
        Kind::Url => Shown::Value { text, json: without_password(value.as_str().unwrap_or_default()).into() },
        Kind::Text | Kind::Value => {
            Shown::Value { text, json: serde_json::to_value(&value).unwrap_or_default() }
        }
    };
    Described { key: key.path, value, origin, may_be_secret }
}
