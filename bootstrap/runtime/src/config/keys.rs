//! The keys of a configuration, and the suggestion for a mistyped one.

use std::borrow::Cow;

use toml::Value;

use super::names::{best, is_below, similarity};
use super::value::read_value;

/// Type of a setting: defines how an environment variable or a flag is parsed, and how the value is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Plain text.
    Text,
    /// Plain text; output never shows a password in it.
    Url,
    /// Plain text, even if it consists of digits only; never shown in output.
    Secret {
        /// Whether the program generates the secret if it is not set.
        is_generated: bool,
    },
    /// A TOML-like value: a number, a list, an inline table, otherwise text.
    Value,
}

impl Kind {
    pub(super) fn parse(self, text: &str) -> Value {
        match self {
            Kind::Text | Kind::Url | Kind::Secret { .. } => Value::from(text),
            Kind::Value => read_value(text),
        }
    }
}

/// A configuration key.
#[derive(Debug, Clone)]
pub struct Key {
    /// Section and name, separated by dots.
    pub path: &'static str,
    /// The default, in the syntax of an environment variable; `None` if the key has no default.
    pub default: Option<Cow<'static, str>>,
    /// Type of the value.
    pub kind: Kind,
}

/// Minimum similarity of the names without the section, for the suggestion of a key.
const MIN_NAME_SIMILARITY: f64 = 0.4;

/// All keys of a configuration, in the order of the documentation.
pub struct Keys(pub(super) Vec<Key>);

impl Keys {
    /// Iterates over the keys.
    pub fn iter(&self) -> impl Iterator<Item = &Key> {
        self.0.iter()
    }

    /// The key with this path.
    pub fn key(&self, path: &str) -> Option<&Key> {
        self.iter().find(|key| key.path == path)
    }

    /// Whether any key is below this path.
    pub(super) fn is_section(&self, path: &str) -> bool {
        self.iter().any(|key| is_below(key.path, path))
    }

    /// The section with the most similar name, if one is similar enough.
    pub(super) fn nearest_section(&self, unknown: &str) -> Option<&'static str> {
        let sections =
            self.iter().flat_map(|key| key.path.match_indices('.').map(|(end, _)| &key.path[..end]));
        best(sections, |section| similarity(section, unknown))
    }

    /// The path of the most similar key, if one is similar enough.
    pub(super) fn nearest(&self, unknown: &str) -> Option<&'static str> {
        let name = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
        best(self.iter().map(|key| key.path), |known| {
            let whole = similarity(known, unknown);
            let names = similarity(&name(known), &name(unknown));
            if !unknown.contains('.') {
                // Without a section only the names can match.
                whole.max(0.9 * names)
            } else if names >= MIN_NAME_SIMILARITY {
                whole
            } else {
                0.0
            }
        })
    }
}
