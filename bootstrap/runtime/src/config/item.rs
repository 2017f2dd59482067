//! A setting with its key: its value, and errors that name the key.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::DeserializeOwned;
use toml::Value;

use super::error::{ConfigError, Origin};
use super::keys::{Key, Kind};

/// A value and its source.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// The settings of file, variables and flags by key.
pub(super) type Settings = BTreeMap<&'static str, Setting>;

/// A setting with its key, so that every error names the key.
pub struct Item {
    pub(super) key: Key,
    pub(super) setting: Setting,
}

impl Item {
    /// The value as it was set.
    pub fn value(&self) -> &Value {
        &self.setting.value
    }

    /// An error that shows the value without its secret parts.
    pub fn refused(&self, why: &str, remedy: &str) -> ConfigError {
        self.refused_as(&show_safely(self.key.kind, &self.setting.value), why, remedy)
    }

    /// An error that shows `found` in place of the value.
    pub fn refused_as(&self, found: &str, why: &str, remedy: &str) -> ConfigError {
        ConfigError::Refused {
            key: self.key.path,
            origin: self.setting.origin.clone(),
            found: found.into(),
            why: why.into(),
            remedy: remedy.into(),
            related: Vec::new(),
        }
    }

    /// The text of the value.
    pub fn as_text(&self) -> Result<String, ConfigError> {
        let text = self.setting.value.as_str().map(str::to_owned);
        text.ok_or_else(|| self.refused_as("not text", "this key takes text", "put the text in quotes"))
    }

    /// Deserializes the value.
    pub fn parse<T: DeserializeOwned>(&self, why: &str, remedy: &str) -> Result<T, ConfigError> {
        self.setting.value.clone().try_into().map_err(|_| self.refused(why, remedy))
    }

    /// Parses a duration inside this setting's value.
    pub fn duration_of(&self, value: &Value) -> Result<Duration, ConfigError> {
        let duration = value.as_str().and_then(|text| humantime::parse_duration(text).ok());
        duration.ok_or_else(|| {
            let remedy = "write a number and its unit: \"200ms\", \"5s\", \"2m\"";
            self.refused_as(&show(value), "it is not a duration", remedy)
        })
    }
}

/// Formats a value without its secret parts.
pub(super) fn show_safely(kind: Kind, value: &Value) -> String {
    match kind {
        Kind::Secret { .. } => "(hidden)".to_owned(),
        Kind::Url => format!("\"{}\"", without_password(value.as_str().unwrap_or_default())),
        Kind::Text | Kind::Value => show(value),
    }
}

/// Formats a value as in the configuration file.
pub fn show(value: &Value) -> String {
    match value {
        Value::String(text) => format!("\"{text}\""),
        Value::Boolean(yes) => yes.to_string(),
        Value::Integer(whole) => whole.to_string(),
        Value::Float(fraction) => fraction.to_string(),
        Value::Datetime(moment) => moment.to_string(),
        Value::Table(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{key} = {}", show(value))).collect();
            format!("{{{}}}", entries.join(", "))
        }
        Value::Array(items) => format!("[{}]", items.iter().map(show).collect::<Vec<_>>().join(", ")),
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
