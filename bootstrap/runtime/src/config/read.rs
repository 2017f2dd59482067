//! Reads settings as validated values: one function per type of value, one message per type of error.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::error::{ConfigError, ConfigErrors, Origin};
use super::item::{Item, Setting, Settings};
use super::keys::{Key, Kind};

/// Unit of a duration that is configured as a number.
pub struct Unit {
    name: &'static str,
    seconds: f64,
    /// One millisecond in this unit of time, rounded up.
    least: &'static str,
    example: &'static str,
}

/// Minutes.
pub const MINUTES: Unit = Unit { name: "minutes", seconds: 60.0, least: "0.00002", example: "0.05 is 3 s" };
/// Hours.
pub const HOURS: Unit =
    Unit { name: "hours", seconds: 3600.0, least: "0.0000003", example: "0.5 is 30 minutes" };

/// Proof that an error was reported to the [`Reader`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported(());

/// A valid value. A section MUST read all of its keys before it returns [`Reported`], so that all errors are reported.
pub type Checked<T> = Result<T, Reported>;

/// Reads settings in one pass. It records the keys in the sequence of reading, which is the order of the documentation,
/// and the errors.
pub struct Reader<'a> {
    settings: &'a Settings,
    keys: RefCell<Vec<Key>>,
    errors: RefCell<Vec<ConfigError>>,
}

impl<'a> Reader<'a> {
    /// A reader of these settings; `errors` are those of their sources.
    pub(super) fn new(settings: &'a Settings, errors: Vec<ConfigError>) -> Reader<'a> {
        Reader { settings, keys: RefCell::default(), errors: RefCell::new(errors) }
    }

    /// The keys that were read.
    pub(super) fn into_keys(self) -> Vec<Key> {
        self.keys.into_inner()
    }

    /// The configuration, or all errors.
    pub(super) fn finish<C>(self, config: Checked<C>) -> Result<C, ConfigErrors> {
        match (config, self.errors.into_inner()) {
            (Ok(config), errors) if errors.is_empty() => Ok(config),
            (Ok(_) | Err(Reported(())), errors) => Err(ConfigErrors(errors)),
        }
    }

    /// Reports an error, unless it may only be a consequence of an earlier one.
    pub fn report(&self, error: ConfigError) -> Reported {
        let mut errors = self.errors.borrow_mut();
        if !error.follows_from(&errors) {
            errors.push(error);
        }
        Reported(())
    }

    /// Reads a key with a default. `parse` checks the value.
    pub fn key<T>(
        &self,
        kind: Kind,
        path: &'static str,
        default: impl Into<Cow<'static, str>>,
        parse: impl FnOnce(&Item) -> Result<T, ConfigError>,
    ) -> Checked<T> {
        self.keys.borrow_mut().push(Key { path, default: Some(default.into()), kind });
        parse(&self.item(path)).map_err(|error| self.report(error))
    }

    /// Reads a key without a default: `None` if it is not set.
    pub fn optional<T>(
        &self,
        kind: Kind,
        path: &'static str,
        parse: impl FnOnce(&Item) -> Result<T, ConfigError>,
    ) -> Checked<Option<T>> {
        self.keys.borrow_mut().push(Key { path, default: None, kind });
        let is_set = self.is_set(path);
        is_set.then(|| parse(&self.item(path)).map_err(|error| self.report(error))).transpose()
    }

    /// Whether a source sets the key, perhaps to its default.
    pub fn is_set(&self, path: &str) -> bool {
        self.settings.contains_key(path)
    }

    /// The setting of a key that was read, for an error that compares it with other settings.
    pub fn item(&self, path: &'static str) -> Item {
        let read = self.keys.borrow().iter().find(|key| key.path == path).cloned();
        let key = read.unwrap_or(Key { path, default: None, kind: Kind::Value });
        let set = self.settings.get(path).cloned();
        let setting = set.unwrap_or_else(|| Setting {
            value: key.kind.parse(key.default.as_deref().unwrap_or_default()),
            origin: Origin::Default,
        });
        Item { key, setting }
    }

    /// Reads a setting that must be one of `choices`; the first choice is the default.
    pub fn one_of<T: Copy>(&self, path: &'static str, choices: &[(&'static str, T)]) -> Checked<T> {
        let default = choices.first().map_or("", |(name, _)| *name);
        self.key(Kind::Text, path, default, |item| {
            let text = item.as_text()?;
            let choice = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| *value);
            choice.ok_or_else(|| {
                let names: Vec<String> = choices.iter().map(|(name, _)| format!("\"{name}\"")).collect();
                item.refused("it is not one of the allowed values", &format!("set {}", names.join(" or ")))
            })
        })
    }

    /// Reads `true` or `false`.
    pub fn boolean(&self, path: &'static str, default: &'static str) -> Checked<bool> {
        let parse = |item: &Item| item.parse("it is neither true nor false", "set true or false");
        self.key(Kind::Value, path, default, parse)
    }

    /// Reads a whole number within limits; `why` explains both limits.
    pub fn count<T, N>(
        &self,
        path: &'static str,
        default: impl Into<Cow<'static, str>>,
        limits: RangeInclusive<T>,
        why: &str,
    ) -> Checked<N>
    where
        T: DeserializeOwned + PartialOrd + Display,
        N: TryFrom<T>,
    {
        let remedy = format!("set a whole number from {} to {}", limits.start(), limits.end());
        self.key(Kind::Value, path, default, |item| {
            let number: T = item.parse("it is not a whole number in the allowed range", &remedy)?;
            let number = Some(number).filter(|number| limits.contains(number));
            number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| item.refused(why, &remedy))
        })
    }

    /// Reads a duration within limits; `why` explains both limits.
    pub fn duration(
        &self,
        path: &'static str,
        default: impl Into<Cow<'static, str>>,
        limits: RangeInclusive<Duration>,
        why: &str,
    ) -> Checked<Duration> {
        self.key(Kind::Value, path, default, |item| {
            let duration = item.duration_of(item.value())?;
            if limits.contains(&duration) {
                return Ok(duration);
            }
            let [least, most] =
                [limits.start(), limits.end()].map(|limit| humantime::format_duration(*limit));
            Err(item.refused(why, &format!("set a duration from \"{least}\" to \"{most}\"")))
        })
    }

    /// Reads a number of minutes or hours, fractions allowed, from 1 ms to `days`; `why` explains both limits.
    pub fn time(
        &self,
        path: &'static str,
        default: &'static str,
        unit: &Unit,
        days: u32,
        why: &str,
    ) -> Checked<Duration> {
        let most = f64::from(days) * 86_400.0 / unit.seconds;
        let Unit { name, least, example, .. } = unit;
        let remedy = format!("set {name} from {least} (a millisecond) to {most} ({days} days); {example}");
        self.key(Kind::Value, path, default, |item| {
            let number: f64 = item.parse("it is not a number", &remedy)?;
            if !(number > 0.0 && number <= most) {
                return Err(item.refused(why, &remedy));
            }
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "the check above allows only positive numbers below 2^53"
            )]
            let time = Duration::from_millis((number * unit.seconds * 1000.0).round() as u64);
            if time.is_zero() {
                Err(item.refused("it is less than a millisecond", &remedy))
            } else {
                Ok(time)
            }
        })
    }

    /// Reports that the duration of `path` is too short compared with the duration of another key. `set_it` is "above"
    /// or "to at least".
    pub fn too_short(
        &self,
        path: &'static str,
        set_it: &str,
        other: &'static str,
        limit: Duration,
        why: &str,
    ) -> Reported {
        let limit = humantime::format_duration(limit);
        let remedy = format!("set this duration {set_it} {other}, which is \"{limit}\"");
        self.report(self.item(path).refused(why, &remedy).related_to(&[other]))
    }
}
