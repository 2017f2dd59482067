//! The configuration keys, and the suggestion for a mistyped one.
//!
//! A key is defined where [`Config::read`] reads it: name, default, limits and the reason for the limits.

use std::sync::LazyLock;

use toml::Value;

use super::Config;
use super::layers::Settings;
use super::read::Reader;
use super::value::read_value;

/// Type of a setting: defines how an environment variable or a flag is parsed, and how the value is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Plain text.
    Text,
    /// Plain text; output never shows a password in it.
    Url,
    /// Plain text, even if it consists of digits only; never shown in output.
    Secret,
    /// A TOML-like value: a number, a list, an inline table, otherwise text.
    Value,
}

impl Kind {
    pub(super) fn parse(self, text: &str) -> Value {
        match self {
            Kind::Text | Kind::Url | Kind::Secret => Value::from(text),
            Kind::Value => read_value(text),
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    /// Section and name, separated by dots.
    pub(super) path: &'static str,
    /// The default, in the syntax of an environment variable; `None` if the key has no default.
    pub(super) default: Option<&'static str>,
    pub(super) kind: Kind,
}

/// All keys, in the order of the documentation: those that [`Config::read`] reads from an empty configuration.
pub(super) fn keys() -> &'static [Key] {
    static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
        let nothing_set = Settings::new();
        let reader = Reader::new(&nothing_set);
        // The defaults are valid (test `every_default_is_accepted_as_a_variable`), so every key is read.
        drop(Config::read(&reader));
        reader.into_keys()
    });
    &KEYS
}

pub(super) fn key(path: &str) -> Option<&'static Key> {
    keys().iter().find(|key| key.path == path)
}

/// Prefix of the program's environment variables.
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
pub(super) fn variable_of(path: &str) -> String {
    format!("{PREFIX}{}", path.replace('.', SECTION_MARK).replace('-', "_").to_ascii_uppercase())
}

/// The help text of a flag, with default and variable of the key that it sets.
pub(crate) fn flag_help(text: &str, path: &str) -> String {
    let default = key(path).and_then(|key| key.default).map(|default| format!(" [default: {default}]"));
    format!("{text}{} [env: {}]", default.unwrap_or_default(), variable_of(path))
}

/// The key path that a variable name corresponds to, whether or not the key exists.
pub(super) fn path_of(variable: &str) -> String {
    let name = variable.strip_prefix(PREFIX).unwrap_or(variable);
    name.replace(SECTION_MARK, ".").replace('_', "-").to_ascii_lowercase()
}

/// Whether any key is below this path.
pub(super) fn is_section(path: &str) -> bool {
    keys().iter().any(|key| is_below(key.path, path))
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
pub(super) fn similarity(one: &str, two: &str) -> f64 {
    strsim::normalized_damerau_levenshtein(one, two)
}

/// The candidate with the highest score, if the score is high enough for a suggestion.
pub(super) fn best(
    candidates: impl Iterator<Item = &'static str>,
    score: impl Fn(&str) -> f64,
) -> Option<&'static str> {
    candidates
        .map(|candidate| (score(candidate), candidate))
        .filter(|(score, _)| *score >= MIN_SIMILARITY)
        .max_by(|(one, _), (two, _)| one.total_cmp(two))
        .map(|(_, candidate)| candidate)
}

/// The section with the most similar name, if one is similar enough.
pub(super) fn nearest_section(unknown: &str) -> Option<&'static str> {
    let sections = keys().iter().flat_map(|key| key.path.match_indices('.').map(|(end, _)| &key.path[..end]));
    best(sections, |section| similarity(section, unknown))
}

/// The path of the most similar key, if one is similar enough.
pub(super) fn nearest(unknown: &str) -> Option<&'static str> {
    let name = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
    best(keys().iter().map(|key| key.path), |known| {
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
