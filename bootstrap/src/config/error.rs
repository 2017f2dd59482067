//! What can be wrong with a configuration: what, why, and what to do about it.

use std::fmt;
use std::path::PathBuf;

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
        found: String,
        /// Why that is no good.
        why: String,
        /// What to do.
        remedy: String,
    },
}

impl ConfigError {
    /// Why it is refused.
    pub fn why(&self) -> String {
        match self {
            ConfigError::UnknownKey { .. } => "a mistyped key would be ignored in silence".to_owned(),
            ConfigError::NotASection { .. } => "it holds keys of its own".to_owned(),
            ConfigError::Unreadable { .. } => "it was asked for, so nothing is started without it".to_owned(),
            ConfigError::Syntax { .. } => "nothing in it can be relied on".to_owned(),
            ConfigError::Refused { why, .. } => why.clone(),
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
            ConfigError::NotASection { key, .. } => format!("write [{key}] and its keys below"),
            ConfigError::Unreadable { .. } => {
                "correct the path or the permissions, or leave --config out".to_owned()
            }
            ConfigError::Syntax { .. } => "correct the line; text needs quotes: \"5s\"".to_owned(),
            ConfigError::Refused { remedy, .. } => remedy.clone(),
        }
    }
}
