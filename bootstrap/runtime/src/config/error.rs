//! Configuration errors: what is wrong, why, and what to do.

use std::fmt;
use std::path::PathBuf;

use super::names::{is_below, variable_of};
use crate::explanation::Explanation;

/// Source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// The built-in default.
    Default,
    /// A configuration file.
    File(PathBuf),
    /// The name of an environment variable.
    Variable(String),
    /// A flag of the command line.
    Flag(&'static str),
}

impl Origin {
    /// The kind of the source, and its name: the path, the variable or the flag.
    pub fn kind_and_name(&self) -> (&'static str, Option<String>) {
        match self {
            Origin::Default => ("default", None),
            Origin::File(path) => ("file", Some(path.display().to_string())),
            Origin::Variable(name) => ("variable", Some(name.clone())),
            Origin::Flag(flag) => ("flag", Some((*flag).to_owned())),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("the built-in default"),
            Origin::File(path) => write!(f, "the file {}", path.display()),
            Origin::Variable(name) => write!(f, "the environment variable {name}"),
            Origin::Flag(flag) => write!(f, "the flag {flag}"),
        }
    }
}

/// All errors of a configuration; never empty.
#[derive(Debug)]
pub struct ConfigErrors(pub(super) Vec<ConfigError>);

impl ConfigErrors {
    /// Iterates over the errors: those of files, variables and flags first, then those of values.
    pub fn iter(&self) -> impl Iterator<Item = &ConfigError> {
        self.0.iter()
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let errors: Vec<String> = self.iter().map(ConfigError::to_string).collect();
        f.write_str(&errors.join("\n"))
    }
}

impl std::error::Error for ConfigErrors {}

/// An error of a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A key that does not exist.
    #[error("unknown key {key} in {origin}")]
    UnknownKey {
        /// The key, as written in the source of the settings.
        key: String,
        /// Source of the key.
        origin: Origin,
        /// The most similar known key, if one is similar enough.
        nearest: Option<String>,
    },
    /// A section that does not exist.
    #[error("unknown section {section} in {origin}")]
    UnknownSection {
        /// The section, as written in the source of the settings.
        section: String,
        /// Source of the section.
        origin: Origin,
        /// The section with the most similar name, if one is similar enough.
        nearest: Option<&'static str>,
    },
    /// A value in place of a section.
    #[error("{key} in {origin} must be a section, but has a value")]
    NotASection {
        /// Path of the section.
        key: String,
        /// Source of the value.
        origin: Origin,
    },
    /// A file that cannot be read.
    #[error("the configuration file {} cannot be read: {cause}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        cause: std::io::Error,
    },
    /// A file that is not valid TOML.
    #[error("the configuration file {} is not valid TOML: {}", path.display(), cause.trim_end())]
    Syntax {
        /// Path of the file.
        path: PathBuf,
        /// Line number and parser message, without the text of the line.
        cause: String,
    },
    /// A value that its key does not accept.
    #[error("{key} in {origin} is {found}")]
    Refused {
        /// Path of the key.
        key: &'static str,
        /// Source of the value.
        origin: Origin,
        /// The value without secret parts.
        found: Box<str>,
        /// Reason for the limit that the value violates.
        why: Box<str>,
        /// What to set instead.
        remedy: Box<str>,
        /// Keys whose values are valid on their own but conflict with this value.
        related: Vec<&'static str>,
    },
}

impl ConfigError {
    /// The key whose value is invalid.
    pub fn key(&self) -> Option<&'static str> {
        match self {
            ConfigError::Refused { key, .. } => Some(key),
            ConfigError::UnknownKey { .. }
            | ConfigError::UnknownSection { .. }
            | ConfigError::NotASection { .. }
            | ConfigError::Unreadable { .. }
            | ConfigError::Syntax { .. } => None,
        }
    }

    /// Marks the error as a conflict with the values of these keys.
    pub fn related_to(mut self, others: &[&'static str]) -> ConfigError {
        if let ConfigError::Refused { related, .. } = &mut self {
            others.clone_into(related);
        }
        self
    }

    /// Whether this conflict may only be a consequence of an earlier error: the intended value of one of its keys was not
    /// used.
    pub(super) fn follows_from(&self, earlier: &[ConfigError]) -> bool {
        let ConfigError::Refused { key, related, .. } = self else { return false };
        let conflicting = || std::iter::once(key).chain(related);
        !related.is_empty() && earlier.iter().any(|error| conflicting().any(|key| error.concerns(key)))
    }

    /// Whether this error means that the intended value of `path` was not used.
    fn concerns(&self, path: &str) -> bool {
        match self {
            ConfigError::Refused { key, .. } => *key == path,
            ConfigError::UnknownKey { nearest, .. } => {
                nearest.as_deref().is_some_and(|nearest| nearest == path || nearest == variable_of(path))
            }
            ConfigError::UnknownSection { nearest, .. } => {
                nearest.is_some_and(|section| is_below(path, section))
            }
            ConfigError::NotASection { key, .. } => is_below(path, key),
            ConfigError::Unreadable { .. } | ConfigError::Syntax { .. } => true,
        }
    }

    /// The explanation: what is wrong, why it is refused, and what to do.
    pub fn explanation(&self) -> Explanation {
        let explain = |why: &str, remedy: &str| Explanation::new(self, why, remedy);
        let unknown = |why, nearest: Option<String>| match nearest {
            Some(nearest) => explain(why, &format!("did you mean {nearest}? otherwise remove it")),
            None => explain(why, "remove it; `handover config show` lists every key"),
        };
        match self {
            ConfigError::UnknownKey { nearest, .. } => {
                unknown("a mistyped key would be ignored silently", nearest.clone())
            }
            ConfigError::UnknownSection { nearest, .. } => {
                let nearest = nearest.map(|nearest| format!("[{nearest}]"));
                unknown("all keys in an unknown section would be ignored silently", nearest)
            }
            ConfigError::NotASection { key, .. } => explain(
                "a section contains keys, not a value",
                &format!("write [{key}] and below it the keys of the section"),
            ),
            ConfigError::Unreadable { .. } => explain(
                "the settings of the file would be ignored silently",
                "correct the path or the permissions, or leave --config out",
            ),
            ConfigError::Syntax { .. } => explain(
                "a malformed file is not used at all",
                "correct the line; text must be quoted: \"5s\"",
            ),
            ConfigError::Refused { why, remedy, .. } => explain(why, remedy),
        }
    }
}
