//! Built-in defaults < file < environment variables < flags, key by key.
//!
//! **Invariant:** the later layer replaces a key whole, inline tables too: a policy is never mixed from two places.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::error::{ConfigError, Origin};
use super::keys::{KEYS, Key, Kind, NO_SETTINGS, PREFIX, is_section, key, nearest, path_of};
use super::urls::{shown, tells_password};
use super::value::read_value;

/// The file that is read when it is there and no other is named.
pub(super) const DEFAULT_FILE: &str = "handover.toml";

/// What the outside gives. Shown by names alone: secrets are among the values.
#[derive(Clone, Default)]
pub struct Sources {
    /// `--config`: this file and no other, and it must be there.
    pub file: Option<PathBuf>,
    /// The environment.
    pub variables: Vec<(String, String)>,
    /// Flags with the keys they set.
    pub flags: Vec<(&'static str, &'static str, String)>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables: Vec<&str> = self.variables.iter().map(|(name, _)| name.as_str()).collect();
        let flags: Vec<&str> = self.flags.iter().map(|(flag, ..)| *flag).collect();
        f.debug_struct("Sources")
            .field("file", &self.file)
            .field("variables", &variables)
            .field("flags", &flags)
            .finish()
    }
}

impl Sources {
    /// Those of this process.
    pub fn of_process(file: Option<PathBuf>) -> Sources {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| {
                Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
            })
            .collect();
        Sources { file, variables, flags: Vec::new() }
    }
}

/// A value and where it came from.
#[derive(Debug, Clone)]
pub(super) struct Setting {
    /// The value.
    pub(super) value: Value,
    /// Where it came from.
    pub(super) origin: Origin,
}

/// What holds for each key.
pub(super) type Settings = BTreeMap<&'static str, Setting>;

/// Lays the layers over one another.
pub(super) fn merge(sources: &Sources) -> Result<Settings, ConfigError> {
    let mut settings = Settings::new();
    for key in KEYS {
        if let Some(default) = key.default {
            settings.insert(key.path, Setting { value: read(key, default), origin: Origin::Default });
        }
    }
    match &sources.file {
        Some(path) => add_file(path, &mut settings)?,
        None if Path::new(DEFAULT_FILE).exists() => add_file(Path::new(DEFAULT_FILE), &mut settings)?,
        None => {}
    }
    for (name, text) in &sources.variables {
        add_variable(name, text, &mut settings)?;
    }
    for (flag, path, text) in &sources.flags {
        if let Some(key) = key(path) {
            if key.kind == Kind::Url && tells_password(text) {
                return Err(ConfigError::Refused {
                    key: key.path,
                    origin: Origin::Flag(flag),
                    found: shown(text),
                    why: "its password can be read by everybody on this machine: processes are listed with their flags"
                        .to_owned(),
                    remedy: format!(
                        "leave the flag out, set {} or {} in {DEFAULT_FILE}, and choose another password if you are not alone here",
                        key.variable(),
                        key.path
                    ),
                });
            }
            settings.insert(key.path, Setting { value: read(key, text), origin: Origin::Flag(flag) });
        }
    }
    Ok(settings)
}

fn read(key: &Key, text: &str) -> Value {
    match key.kind {
        Kind::Text | Kind::Url | Kind::Secret => Value::from(text),
        Kind::Value => read_value(text),
    }
}

fn add_file(path: &Path, settings: &mut Settings) -> Result<(), ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|cause| ConfigError::Unreadable { path: path.to_owned(), cause })?;
    let content: Table = text.parse().map_err(|cause: toml::de::Error| {
        // Not the line itself: it may hold a secret.
        let before = cause.span().and_then(|at| text.get(..at.start)).unwrap_or_default();
        let cause =
            format!("line {}: {}", before.matches('\n').count() + 1, cause.message().replace('\n', ", "));
        ConfigError::Syntax { path: path.to_owned(), cause }
    })?;
    add_section("", content, &Origin::File(path.to_owned()), settings)
}

fn add_section(
    section: &str,
    content: Table,
    origin: &Origin,
    settings: &mut Settings,
) -> Result<(), ConfigError> {
    for (name, value) in content {
        let path = if section.is_empty() { name } else { format!("{section}.{name}") };
        if let Some(key) = key(&path) {
            settings.insert(key.path, Setting { value, origin: origin.clone() });
        } else if !is_section(&path) {
            let nearest = nearest(&path).map(|key| key.path.to_owned());
            return Err(ConfigError::UnknownKey { key: path, origin: origin.clone(), nearest });
        } else if let Value::Table(inner) = value {
            add_section(&path, inner, origin, settings)?;
        } else {
            return Err(ConfigError::NotASection { key: path, origin: origin.clone() });
        }
    }
    Ok(())
}

fn add_variable(name: &str, text: &str, settings: &mut Settings) -> Result<(), ConfigError> {
    if !name.starts_with(PREFIX) || NO_SETTINGS.contains(&name) {
        return Ok(());
    }
    let origin = Origin::Variable(name.to_owned());
    let Some(key) = KEYS.iter().find(|key| key.variable() == name) else {
        let nearest = nearest(&path_of(name)).map(Key::variable);
        return Err(ConfigError::UnknownKey { key: name.to_owned(), origin, nearest });
    };
    settings.insert(key.path, Setting { value: read(key, text), origin });
    Ok(())
}
