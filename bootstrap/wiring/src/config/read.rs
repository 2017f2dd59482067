//! Reads settings as validated values: one function per type of value, one message per type of error.

use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::de::DeserializeOwned;
use toml::Value;

use super::error::{ConfigError, Origin};
use super::key_list::{Key, Kind};
use super::layers::{Setting, Settings};
use super::urls::without_password;

/// Unit of a duration that is configured as a number.
pub(super) struct Unit {
    name: &'static str,
    seconds: f64,
    /// One millisecond in this unit of time, rounded up.
    least: &'static str,
    example: &'static str,
}

pub(super) const MINUTES: Unit =
    Unit { name: "minutes", seconds: 60.0, least: "0.00002", example: "0.05 is 3 s" };
pub(super) const HOURS: Unit =
    Unit { name: "hours", seconds: 3600.0, least: "0.0000003", example: "0.5 is 30 minutes" };

/// Reads settings and records the keys in the sequence of reading, which is the order of the documentation.
pub(super) struct Reader<'a> {
    settings: &'a Settings,
    keys: RefCell<Vec<Key>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(settings: &'a Settings) -> Reader<'a> {
        Reader { settings, keys: RefCell::default() }
    }

    /// The keys that were read.
    pub(super) fn into_keys(self) -> Vec<Key> {
        self.keys.into_inner()
    }

    pub(super) fn text(&self, path: &'static str, default: &'static str) -> Item {
        self.with_default(path, default, Kind::Text)
    }

    /// A URL; output never shows a password in it.
    pub(super) fn url(&self, path: &'static str, default: &'static str) -> Item {
        self.with_default(path, default, Kind::Url)
    }

    /// A number, a duration, a list or an inline table.
    pub(super) fn value(&self, path: &'static str, default: &'static str) -> Item {
        self.with_default(path, default, Kind::Value)
    }

    /// Plain text, if the key is set.
    pub(super) fn optional(&self, path: &'static str) -> Option<Item> {
        self.without_default(path, Kind::Text)
    }

    /// A URL, if the key is set.
    pub(super) fn optional_url(&self, path: &'static str) -> Option<Item> {
        self.without_default(path, Kind::Url)
    }

    /// A secret, if the key is set.
    pub(super) fn secret(&self, path: &'static str) -> Option<Item> {
        self.without_default(path, Kind::Secret)
    }

    /// Reads a setting that must be one of `choices`; the first choice is the default.
    pub(super) fn one_of<T: Copy>(
        &self,
        path: &'static str,
        choices: &[(&'static str, T)],
    ) -> Result<T, ConfigError> {
        let default = choices.first().map_or("", |(name, _)| *name);
        self.text(path, default).one_of(choices)
    }

    fn with_default(&self, path: &'static str, default: &'static str, kind: Kind) -> Item {
        let key = Key { path, default: Some(default), kind };
        let setting =
            self.find(key).unwrap_or_else(|| Setting { value: kind.parse(default), origin: Origin::Default });
        Item { key, setting }
    }

    fn without_default(&self, path: &'static str, kind: Kind) -> Option<Item> {
        let key = Key { path, default: None, kind };
        Some(Item { key, setting: self.find(key)? })
    }

    fn find(&self, key: Key) -> Option<Setting> {
        self.keys.borrow_mut().push(key);
        self.settings.get(key.path).cloned()
    }
}

/// A setting with its key, so that every error names the key.
pub(super) struct Item {
    pub(super) key: Key,
    pub(super) setting: Setting,
}

impl Item {
    /// An error that shows the value without its secret parts.
    pub(super) fn refused(&self, why: &str, remedy: &str) -> ConfigError {
        self.refused_as(&show_safely(self.key.kind, &self.setting.value), why, remedy)
    }

    /// An error that shows `found` in place of the value.
    pub(super) fn refused_as(&self, found: &str, why: &str, remedy: &str) -> ConfigError {
        ConfigError::Refused {
            key: self.key.path,
            origin: self.setting.origin.clone(),
            found: found.into(),
            why: why.into(),
            remedy: remedy.into(),
            related: Vec::new(),
        }
    }

    /// An error of a duration that is too short compared with the duration of another key. `set_it` is "above" or "to
    /// at least".
    pub(super) fn too_short(&self, set_it: &str, other: &Item, limit: Duration, why: &str) -> ConfigError {
        let limit = humantime::format_duration(limit);
        let remedy = format!("set this duration {set_it} {}, which is \"{limit}\"", other.key.path);
        self.refused(why, &remedy).related_to(&[other.key.path])
    }

    pub(super) fn as_text(&self) -> Result<String, ConfigError> {
        let text = self.setting.value.as_str().map(str::to_owned);
        text.ok_or_else(|| self.refused_as("not text", "this key takes text", "put the text in quotes"))
    }

    /// Deserializes the value.
    pub(super) fn parse<T: DeserializeOwned>(&self, why: &str, remedy: &str) -> Result<T, ConfigError> {
        self.setting.value.clone().try_into().map_err(|_| self.refused(why, remedy))
    }

    pub(super) fn boolean(&self) -> Result<bool, ConfigError> {
        self.parse("it is neither true nor false", "set true or false")
    }

    /// A whole number within limits; `why` explains both limits.
    pub(super) fn count<T, N>(&self, limits: RangeInclusive<T>, why: &str) -> Result<N, ConfigError>
    where
        T: DeserializeOwned + PartialOrd + Display,
        N: TryFrom<T>,
    {
        let remedy = format!("set a whole number from {} to {}", limits.start(), limits.end());
        let number: T = self.parse("it is not a whole number in the allowed range", &remedy)?;
        let number = Some(number).filter(|number| limits.contains(number));
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| self.refused(why, &remedy))
    }

    /// A duration within limits; `why` explains both limits.
    pub(super) fn duration(
        &self,
        limits: RangeInclusive<Duration>,
        why: &str,
    ) -> Result<Duration, ConfigError> {
        let duration = self.duration_of(&self.setting.value)?;
        if limits.contains(&duration) {
            return Ok(duration);
        }
        let [least, most] = [limits.start(), limits.end()].map(|limit| humantime::format_duration(*limit));
        Err(self.refused(why, &format!("set a duration from \"{least}\" to \"{most}\"")))
    }

    /// Parses a duration inside this setting's value.
    pub(super) fn duration_of(&self, value: &Value) -> Result<Duration, ConfigError> {
        let duration = value.as_str().and_then(|text| humantime::parse_duration(text).ok());
        duration.ok_or_else(|| {
            let remedy = "write a number and its unit: \"200ms\", \"5s\", \"2m\"";
            self.refused_as(&show(value), "it is not a duration", remedy)
        })
    }

    /// A number of minutes or hours, fractions allowed, from 1 ms to `days`; `why` explains both limits.
    pub(super) fn time(&self, unit: &Unit, days: u32, why: &str) -> Result<Duration, ConfigError> {
        let most = f64::from(days) * 86_400.0 / unit.seconds;
        let Unit { name, least, example, .. } = unit;
        let remedy = format!("set {name} from {least} (a millisecond) to {most} ({days} days); {example}");
        let number: f64 = self.parse("it is not a number", &remedy)?;
        if !(number > 0.0 && number <= most) {
            return Err(self.refused(why, &remedy));
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "the check above allows only positive numbers below 2^53"
        )]
        let time = Duration::from_millis((number * unit.seconds * 1000.0).round() as u64);
        if time.is_zero() { Err(self.refused("it is less than a millisecond", &remedy)) } else { Ok(time) }
    }

    /// Checks that the value is one of `choices`.
    pub(super) fn one_of<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, ConfigError> {
        let text = self.as_text()?;
        let choice = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
        choice.ok_or_else(|| {
            let names: Vec<String> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
            self.refused("it is not one of the allowed values", &format!("set {}", names.join(" or ")))
        })
    }
}

/// Formats a value without its secret parts.
pub(super) fn show_safely(kind: Kind, value: &Value) -> String {
    match kind {
        Kind::Secret => "(hidden)".to_owned(),
        Kind::Url => format!("\"{}\"", without_password(value.as_str().unwrap_or_default())),
        Kind::Text | Kind::Value => show(value),
    }
}

/// Formats a value as in the configuration file.
pub(super) fn show(value: &Value) -> String {
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
