//! Built-in defaults < file < environment variables < flags, key by key.
//!
//! **Invariant:** a later layer replaces the whole value of a key, including inline tables: a policy is never merged from
//! two sources.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::error::{ConfigError, Origin};
use super::key_list::{Kind, is_section, key, nearest, nearest_section, variable_of};
use super::read::Item;
use super::urls::contains_password;
use super::variables::{Variable, classify};

/// The file that is read if it exists and `--config` is not given.
pub(super) const DEFAULT_FILE: &str = "handover.toml";

/// External sources of settings. `Debug` shows names only, because values may be secrets.
#[derive(Clone, Default)]
pub struct Sources {
    /// `--config`: read only this file, which must exist.
    pub file: Option<PathBuf>,
    pub variables: Vec<(String, String)>,
    /// Flag, the key that it sets, and the value.
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
    /// The sources of this process, without flags.
    pub fn of_process(file: Option<PathBuf>) -> Sources {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| {
                Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
            })
            .collect();
        Sources { file, variables, flags: Vec::new() }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Setting {
    pub(super) value: Value,
    pub(super) origin: Origin,
}

/// The settings of file, variables and flags by key.
pub(super) type Settings = BTreeMap<&'static str, Setting>;

/// Merges file, variables and flags. Unknown keys and unreadable files are skipped and reported as errors.
pub(super) fn merge(sources: &Sources) -> (Settings, Vec<ConfigError>) {
    let mut settings = Settings::new();
    let mut errors = Vec::new();
    match &sources.file {
        Some(path) => add_file(path, &mut settings, &mut errors),
        None if Path::new(DEFAULT_FILE).exists() => {
            add_file(Path::new(DEFAULT_FILE), &mut settings, &mut errors);
        }
        None => {}
    }
    for (name, text) in &sources.variables {
        add_variable(name, text, &mut settings, &mut errors);
    }
    for (flag, path, text) in &sources.flags {
        let Some(&key) = key(path) else { continue };
        let item = Item { key, setting: Setting { value: key.kind.parse(text), origin: Origin::Flag(flag) } };
        if key.kind == Kind::Url && contains_password(text) {
            let why =
                "process lists show command-line flags, so every user of this machine can read the password";
            let remedy = format!(
                "leave the flag out and set {} or {path} in {DEFAULT_FILE}; change the password if other users have access to this machine",
                variable_of(path),
            );
            errors.push(item.refused(why, &remedy));
        } else {
            settings.insert(key.path, item.setting);
        }
    }
    (settings, errors)
}

fn add_file(path: &Path, settings: &mut Settings, errors: &mut Vec<ConfigError>) {
    let read = std::fs::read_to_string(path)
        .map_err(|cause| ConfigError::Unreadable { path: path.to_owned(), cause });
    match read.and_then(|text| parsed(&text, path)) {
        Ok(content) => add_section("", content, &Origin::File(path.to_owned()), settings, errors),
        Err(error) => errors.push(error),
    }
}

fn parsed(text: &str, path: &Path) -> Result<Table, ConfigError> {
    text.parse().map_err(|cause: toml::de::Error| {
        // The line itself is not shown: it may contain a secret.
        let before = cause.span().and_then(|at| text.get(..at.start)).unwrap_or_default();
        let cause =
            format!("line {}: {}", before.matches('\n').count() + 1, cause.message().replace('\n', ", "));
        ConfigError::Syntax { path: path.to_owned(), cause }
    })
}

fn add_section(
    section: &str,
    content: Table,
    origin: &Origin,
    settings: &mut Settings,
    errors: &mut Vec<ConfigError>,
) {
    for (name, value) in content {
        let path = if section.is_empty() { name } else { format!("{section}.{name}") };
        if let Some(key) = key(&path) {
            settings.insert(key.path, Setting { value, origin: origin.clone() });
            continue;
        }
        let is_section = is_section(&path);
        let origin = origin.clone();
        if let Value::Table(inner) = value {
            if is_section {
                add_section(&path, inner, &origin, settings, errors);
            } else {
                let nearest = nearest_section(&path);
                errors.push(ConfigError::UnknownSection { section: path, origin, nearest });
            }
        } else if is_section {
            errors.push(ConfigError::NotASection { key: path, origin });
        } else {
            let nearest = nearest(&path).map(str::to_owned);
            errors.push(ConfigError::UnknownKey { key: path, origin, nearest });
        }
    }
}

/// Adds the value of a key. Variables that are not keys are ignored here: [`Sources::warnings`] reports them.
fn add_variable(name: &str, text: &str, settings: &mut Settings, errors: &mut Vec<ConfigError>) {
    let origin = Origin::Variable(name.to_owned());
    match classify(name) {
        Some(Variable::Setting(key)) => {
            settings.insert(key.path, Setting { value: key.kind.parse(text), origin });
        }
        Some(Variable::Misspelt { nearest }) => {
            errors.push(ConfigError::UnknownKey { key: name.to_owned(), origin, nearest });
        }
        Some(Variable::Ignored(_)) | None => {}
    }
}
