//! What can be wrong with a configuration: what, why, and what to do about it.

use std::fmt;
use std::path::PathBuf;

use super::keys;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// It is built in.
    Default,
    /// A file.
    File(PathBuf),
    /// An environment variable, by its name.
    Variable(String),
    /// A flag of the command line.
    Flag(&'static str),
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

/// Every error of a configuration; there is at least one.
#[derive(Debug)]
pub struct ConfigErrors(pub(super) Vec<ConfigError>);

impl ConfigErrors {
    /// The errors: those of files, variables and flags before those of values.
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

/// Why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A key that nothing reads.
    #[error("unknown key {key} in {origin}")]
    UnknownKey {
        /// The key, as it was written.
        key: String,
        /// Where.
        origin: Origin,
        /// The known key that looks most like it, if one does.
        nearest: Option<String>,
    },
    /// A section that has no keys.
    #[error("unknown section {section} in {origin}")]
    UnknownSection {
        /// The section, as it was written.
        section: String,
        /// Where.
        origin: Origin,
        /// The section with the most similar name, if one is similar.
        nearest: Option<&'static str>,
    },
    /// A value where a section belongs.
    #[error("{key} in {origin} is a section, not a value")]
    NotASection {
        /// The section.
        key: String,
        /// Where.
        origin: Origin,
    },
    /// The file cannot be read.
    #[error("the configuration file {} cannot be read: {cause}", path.display())]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// The file is no TOML.
    #[error("the configuration file {} is not valid TOML: {}", path.display(), cause.trim_end())]
    Syntax {
        /// Which.
        path: PathBuf,
        /// What the parser said.
        cause: String,
    },
    /// A value that its key cannot have.
    #[error("{key} in {origin} is {found}")]
    Refused {
        /// The key.
        key: &'static str,
        /// Where its value came from.
        origin: Origin,
        /// The value, as far as it may be shown.
        found: Box<str>,
        /// Why that is no good.
        why: Box<str>,
        /// What to do.
        remedy: Box<str>,
        /// Keys whose values are correct by themselves but do not fit this one.
        related: &'static [&'static str],
    },
}

impl ConfigError {
    /// The key whose value is refused.
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

    /// The same error; its value only does not fit the values of these keys.
    pub(super) fn related_to(mut self, others: &'static [&'static str]) -> ConfigError {
        if let ConfigError::Refused { related, .. } = &mut self {
            *related = others;
        }
        self
    }

    /// The key and those related to it: one of them causes the error.
    pub(super) fn keys(&self) -> impl Iterator<Item = &'static str> {
        let related: &[_] = if let ConfigError::Refused { related, .. } = self { related } else { &[] };
        self.key().into_iter().chain(related.iter().copied())
    }

    /// Whether it may only be here because of an earlier error: two values do not fit, and one of them is not the one that
    /// was meant.
    pub(super) fn follows_from(&self, earlier: &[ConfigError]) -> bool {
        self.keys().count() > 1 && self.keys().any(|key| earlier.iter().any(|error| error.concerns(key)))
    }

    /// Whether the value of this key is not what its author meant.
    fn concerns(&self, path: &str) -> bool {
        let in_section = |section: &str| path.strip_prefix(section).is_some_and(|rest| rest.starts_with('.'));
        match self {
            ConfigError::Refused { key, .. } => *key == path,
            ConfigError::UnknownKey { nearest, .. } => nearest.as_deref().is_some_and(|nearest| {
                nearest == path || keys::key(path).is_some_and(|key| nearest == key.variable())
            }),
            ConfigError::UnknownSection { nearest, .. } => nearest.is_some_and(in_section),
            ConfigError::NotASection { key, .. } => in_section(key),
            ConfigError::Unreadable { .. } | ConfigError::Syntax { .. } => true,
        }
    }

    /// Why it is refused.
    pub fn why(&self) -> String {
        match self {
            ConfigError::UnknownKey { .. } => "a mistyped key would be ignored in silence".to_owned(),
            ConfigError::UnknownSection { .. } => "all keys in it would be ignored in silence".to_owned(),
            ConfigError::NotASection { .. } => "it holds keys of its own".to_owned(),
            ConfigError::Unreadable { .. } => "it was asked for, so nothing is started without it".to_owned(),
            ConfigError::Syntax { .. } => "nothing in it can be relied on".to_owned(),
            ConfigError::Refused { why, .. } => why.to_string(),
        }
    }

    /// What to do.
    pub fn remedy(&self) -> String {
        match self {
            ConfigError::UnknownKey { nearest: Some(nearest), .. } => {
                format!("did you mean {nearest}? otherwise remove it")
            }
            ConfigError::UnknownKey { nearest: None, .. } => {
                "remove it; `handover config show` lists every key".to_owned()
            }
            ConfigError::UnknownSection { nearest: Some(nearest), .. } => {
                format!("did you mean [{nearest}]? otherwise remove it")
            }
            ConfigError::UnknownSection { nearest: None, .. } => {
                "remove it; `handover config show` lists every key".to_owned()
            }
            ConfigError::NotASection { key, .. } => format!("write [{key}] and its keys below"),
            ConfigError::Unreadable { .. } => {
                "correct the path or the permissions, or leave --config out".to_owned()
            }
            ConfigError::Syntax { .. } => "correct the line; text needs quotes: \"5s\"".to_owned(),
            ConfigError::Refused { remedy, .. } => remedy.to_string(),
        }
    }
}
