//! Converts settings to validated values: one function per kind of value, one message per kind of error.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::de::DeserializeOwned;
use toml::Value;

use super::error::{ConfigError, Origin};
use super::layers::{Setting, Settings};

/// Unit of a duration that is configured as a number.
pub(super) struct Unit {
    name: &'static str,
    seconds: f64,
    /// One millisecond in this unit of time, rounded up.
    least: &'static str,
    example: &'static str,
}

/// Minutes.
pub(super) const MINUTES: Unit =
    Unit { name: "minutes", seconds: 60.0, least: "0.00002", example: "0.05 is 3 s" };
/// Hours.
pub(super) const HOURS: Unit =
    Unit { name: "hours", seconds: 3600.0, least: "0.0000003", example: "0.5 is 30 minutes" };

/// Reads and validates settings.
pub(super) struct Reader<'a>(pub(super) &'a Settings);

/// A setting with its key, so that every error names the key.
#[derive(Clone)]
pub(super) struct Item<'a> {
    pub(super) key: &'static str,
    pub(super) setting: &'a Setting,
}

impl<'a> Reader<'a> {
    /// Returns the setting, if it has a value.
    pub(super) fn find(&self, key: &'static str) -> Option<Item<'a>> {
        self.0.get(key).map(|setting| Item { key, setting })
    }

    /// Returns the setting. The key MUST have a default; a missing value is an error.
    pub(super) fn item(&self, key: &'static str) -> Result<Item<'a>, ConfigError> {
        self.find(key).ok_or_else(|| ConfigError::Refused {
            key,
            origin: Origin::Default,
            found: "not set".into(),
            why: "it has no default".into(),
            remedy: format!("set {key}").into(),
            related: &[],
        })
    }

    /// Reads text.
    pub(super) fn text(&self, key: &'static str) -> Result<String, ConfigError> {
        self.item(key)?.text()
    }

    /// Reads a whole number within limits.
    pub(super) fn count<T>(
        &self,
        key: &'static str,
        limits: RangeInclusive<T>,
        why: &str,
    ) -> Result<T, ConfigError>
    where
        T: DeserializeOwned + PartialOrd + Display,
    {
        let item = self.item(key)?;
        let remedy = format!("set a whole number from {} to {}", limits.start(), limits.end());
        let number: T = item.value("it is not a whole number in the allowed range", &remedy)?;
        if limits.contains(&number) { Ok(number) } else { Err(item.refused(why, &remedy)) }
    }

    /// Reads a duration within limits.
    pub(super) fn duration(
        &self,
        key: &'static str,
        limits: RangeInclusive<Duration>,
        why: &str,
    ) -> Result<Duration, ConfigError> {
        let item = self.item(key)?;
        let duration = item.duration_of(&item.setting.value)?;
        if limits.contains(&duration) {
            return Ok(duration);
        }
        let [least, most] = [limits.start(), limits.end()].map(|limit| humantime::format_duration(*limit));
        Err(item.refused(why, &format!("set a duration from \"{least}\" to \"{most}\"")))
    }

    /// Reads a number of minutes or hours, fractions allowed, with a resolution of 1 ms and up to `days`.
    pub(super) fn time(
        &self,
        key: &'static str,
        unit: &Unit,
        days: u32,
        why: &str,
    ) -> Result<Duration, ConfigError> {
        let item = self.item(key)?;
        let most = f64::from(days) * 86_400.0 / unit.seconds;
        let Unit { name, least, example, .. } = unit;
        let remedy = format!("set {name} from {least} (a millisecond) to {most} ({days} days); {example}");
        let number: f64 = item.value("it is not a number", &remedy)?;
        if !(number > 0.0 && number <= most) {
            return Err(item.refused(why, &remedy));
        }
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "positive and below 2^53 by now"
        )]
        let time = Duration::from_millis((number * unit.seconds * 1000.0).round() as u64);
        if time.is_zero() { Err(item.refused("it is less than a millisecond", &remedy)) } else { Ok(time) }
    }

    /// Reads one of these values.
    pub(super) fn one_of<T: Copy>(&self, key: &'static str, choices: &[(&str, T)]) -> Result<T, ConfigError> {
        let item = self.item(key)?;
        let text = self.text(key)?;
        let allowed =
            || choices.iter().map(|(name, _)| format!("\"{name}\"")).collect::<Vec<_>>().join(" or ");
        choices
            .iter()
            .find(|(name, _)| *name == text)
            .map(|(_, value)| *value)
            .ok_or_else(|| item.refused("it is not one of the allowed values", &format!("set {}", allowed())))
    }
}

impl Item<'_> {
    /// An error that shows the value.
    pub(super) fn refused(&self, why: &str, remedy: &str) -> ConfigError {
        self.refused_as(&show(&self.setting.value), why, remedy)
    }

    /// An error with another description of the value, for instance without its secret parts.
    pub(super) fn refused_as(&self, found: &str, why: &str, remedy: &str) -> ConfigError {
        ConfigError::Refused {
            key: self.key,
            origin: self.setting.origin.clone(),
            found: found.into(),
            why: why.into(),
            remedy: remedy.into(),
            related: &[],
        }
    }

    /// The value as text.
    pub(super) fn text(&self) -> Result<String, ConfigError> {
        let text = self.setting.value.as_str().map(str::to_owned);
        text.ok_or_else(|| self.refused_as("not text", "this key takes text", "put it in quotes"))
    }

    /// Deserializes the value.
    pub(super) fn value<T: DeserializeOwned>(&self, why: &str, remedy: &str) -> Result<T, ConfigError> {
        self.setting.value.clone().try_into().map_err(|_| self.refused(why, remedy))
    }

    /// Parses a duration inside this setting's value.
    pub(super) fn duration_of(&self, value: &Value) -> Result<Duration, ConfigError> {
        let duration = value.as_str().and_then(|text| humantime::parse_duration(text).ok());
        duration.ok_or_else(|| {
            self.refused_as(
                &show(value),
                "it is not a duration",
                "write a number and its unit: \"200ms\", \"5s\", \"2m\"",
            )
        })
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
