//! Built-in defaults < file < environment variables < flags, key by key.
//!
//! **Invariant:** a later layer replaces the whole value of a key, including inline tables: a policy is never merged from
//! two sources.

use std::path::Path;

use toml::{Table, Value};

use super::error::{ConfigError, Origin};
use super::item::{Item, Setting, Settings, contains_password};
use super::keys::{Keys, Kind};
use super::names::variable_of;
use super::sources::Sources;
use super::variables::Variable;
use crate::names::names;

/// Merges file, variables and flags. Unknown keys and unreadable files are skipped and reported as errors.
pub(super) fn merge(sources: &Sources, keys: &Keys) -> (Settings, Vec<ConfigError>) {
    let mut layers = Layers { keys, settings: Settings::new(), errors: Vec::new() };
    match &sources.file {
        Some(path) => layers.add_file(path),
        None if Path::new(names().file).exists() => layers.add_file(Path::new(names().file)),
        None => {}
    }
    for (name, text) in &sources.variables {
        layers.add_variable(name, text);
    }
    for (flag, path, text) in &sources.flags {
        layers.add_flag(flag, path, text);
    }
    (layers.settings, layers.errors)
}

struct Layers<'a> {
    keys: &'a Keys,
    settings: Settings,
    errors: Vec<ConfigError>,
}

impl Layers<'_> {
    fn add_file(&mut self, path: &Path) {
        let read = std::fs::read_to_string(path)
            .map_err(|cause| ConfigError::Unreadable { path: path.to_owned(), cause });
        match read.and_then(|text| parsed(&text, path)) {
            Ok(content) => self.add_section("", content, &Origin::File(path.to_owned())),
            Err(error) => self.errors.push(error),
        }
    }

    fn add_section(&mut self, section: &str, content: Table, origin: &Origin) {
        for (name, value) in content {
            let path = if section.is_empty() { name } else { format!("{section}.{name}") };
            if let Some(key) = self.keys.key(&path) {
                self.settings.insert(key.path, Setting { value, origin: origin.clone() });
                continue;
            }
            let is_section = self.keys.is_section(&path);
            let origin = origin.clone();
            if let Value::Table(inner) = value {
                if is_section {
                    self.add_section(&path, inner, &origin);
                } else {
                    let nearest = self.keys.nearest_section(&path);
                    self.errors.push(ConfigError::UnknownSection { section: path, origin, nearest });
                }
            } else if is_section {
                self.errors.push(ConfigError::NotASection { key: path, origin });
            } else {
                let nearest = self.keys.nearest(&path).map(str::to_owned);
                self.errors.push(ConfigError::UnknownKey { key: path, origin, nearest });
            }
        }
    }

    /// Adds the value of a key. Variables that are not keys are ignored here: [`Keys::warnings`] reports them.
    fn add_variable(&mut self, name: &str, text: &str) {
        let origin = Origin::Variable(name.to_owned());
        match self.keys.classify(name) {
            Some(Variable::Setting(key)) => {
                self.settings.insert(key.path, Setting { value: key.kind.parse(text), origin });
            }
            Some(Variable::Misspelt { nearest }) => {
                self.errors.push(ConfigError::UnknownKey { key: name.to_owned(), origin, nearest });
            }
            Some(Variable::Ignored(_)) | None => {}
        }
    }

    fn add_flag(&mut self, flag: &'static str, path: &str, text: &str) {
        let Some(key) = self.keys.key(path) else { return };
        let setting = Setting { value: key.kind.parse(text), origin: Origin::Flag(flag) };
        if key.kind != Kind::Url || !contains_password(text) {
            self.settings.insert(key.path, setting);
            return;
        }
        let why =
            "process lists show command-line flags, so every user of this machine can read the password";
        let remedy = format!(
            "leave the flag out and set {} or {path} in {file}; change the password if other users have access to this machine",
            variable_of(path),
            file = names().file,
        );
        self.errors.push(Item { key: key.clone(), setting }.refused(why, &remedy));
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
