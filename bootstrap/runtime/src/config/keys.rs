//! The keys of a configuration, and the suggestion for a mistyped one.

use toml::Value;

use super::Configuration;
use super::layers::Settings;
use super::read::Reader;
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
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Section and name, separated by dots.
    pub path: &'static str,
    /// The default, in the syntax of an environment variable; `None` if the key has no default.
    pub default: Option<&'static str>,
    /// Type of the value.
    pub kind: Kind,
}

/// All keys of a configuration, in the order of the documentation.
pub struct Keys(Vec<Key>);

impl Keys {
    /// The keys that [`Configuration::read`] reads from an empty configuration.
    pub fn of<C: Configuration>() -> Keys {
        let nothing_set = Settings::new();
        let reader = Reader::new(&nothing_set, Vec::new());
        drop(C::read(&reader));
        Keys(reader.into_keys())
    }

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

/// Prefix of the environment variables.
pub(super) const PREFIX: &str = "HANDOVER_";

/// Separates a section from what is below it in the name of a variable.
pub(super) const SECTION_MARK: &str = "__";

/// Variables with the prefix that are not settings: the path of the file, and the variables of the tests.
pub(super) const NON_SETTINGS: [&str; 9] = [
    "HANDOVER_CONFIG",
    "HANDOVER_BIN",
    "HANDOVER_LONG",
    "HANDOVER_SEED",
    "HANDOVER_DECODER",
    "HANDOVER_FUZZ",
    "HANDOVER_SIMULATE",
    "HANDOVER_SCHEMATHESIS",
    "HANDOVER_WRITE_GOLDEN",
];

/// `HANDOVER_SECTION__KEY`: dots become two underscores, dashes one.
pub fn variable_of(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', SECTION_MARK).replace('-', "_").to_ascii_uppercase())
}

/// The key path that a variable name corresponds to, whether or not the key exists.
pub(super) fn path_of(variable: &str) -> String {
    let name = variable.strip_prefix(PREFIX).unwrap_or(variable);
    name.replace(SECTION_MARK, ".").replace('_', "-").to_ascii_lowercase()
}

/// Whether the key is in this section or in one of its subsections.
pub(super) fn is_below(path: &str, section: &str) -> bool {
    path.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'))
}

/// Minimum similarity of a suggestion.
const MIN_SIMILARITY: f64 = 0.6;
/// Minimum similarity of the names without the section, for the suggestion of a key.
const MIN_NAME_SIMILARITY: f64 = 0.4;

/// Similarity of two texts, from 0 to 1.
pub fn similarity(one: &str, two: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(one, two)
}

/// The candidate with the highest score, if the score is high enough for a suggestion.
pub fn best(
    candidates: impl Iterator<Item = &'static str>,
    score: impl Fn(&str) -> f64,
) -> Option<&'static str> {
    candidates
        .map(|candidate| (score(candidate), candidate))
        .filter(|(score, _)| *score >= MIN_SIMILARITY)
        .max_by(|(one, _), (two, _)| one.total_cmp(two))
        .map(|(_, candidate)| candidate)
}
