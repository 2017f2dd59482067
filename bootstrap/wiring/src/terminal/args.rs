//! The flags that programs have in common.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};

use crate::Failure;
use crate::config::{Config, Sources};

/// What every command takes.
#[derive(Debug, Clone, Default, Args)]
pub struct Common {
    /// Read this file instead of handover.toml
    #[arg(long, value_name = "FILE", env = "HANDOVER_CONFIG")]
    pub config: Option<PathBuf>,
    /// Where orders and events are kept [default: sqlite://handover.db] [env: HANDOVER_DATABASE__URL]
    #[arg(long, value_name = "URL")]
    pub database: Option<String>,
}

/// Where the API listens.
#[derive(Debug, Clone, Default, Args)]
pub struct Address {
    /// Address and port of the API; port 0 is any free one [default: 127.0.0.1:8080] [env: HANDOVER_HTTP__LISTEN]
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Option<String>,
}

/// A flag, the key that it sets, and its value if it is given.
pub type Flag<'a> = (&'static str, &'static str, Option<&'a String>);

impl Common {
    /// Where this process finds its configuration, with these flags.
    pub fn sources(&self, more: &[Flag<'_>]) -> Sources {
        let mut sources = Sources::of_process(self.config.clone());
        let flags: [Flag<'_>; 1] = [("--database", "database.url", self.database.as_ref())];
        sources.flags = flags
            .iter()
            .chain(more)
            .filter_map(|(flag, key, value)| value.map(|value| (*flag, *key, value.clone())))
            .collect();
        sources
    }

    /// The configuration of this process with these flags.
    pub fn load(&self) -> Result<Config, Failure> {
        Ok(Config::load(&self.sources(&[]))?)
    }
}

impl Address {
    /// As a layer of the configuration.
    pub fn flag(&self) -> Flag<'_> {
        ("--listen", "http.listen", self.listen.as_ref())
    }
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// Columns; with lines between them on a terminal
    #[default]
    Table,
    /// JSON, with the field names of the API
    Json,
}

/// How the answer is written.
#[derive(Debug, Clone, Default, Args)]
pub struct OutputArgs {
    /// How the answer is written
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Output,
}

/// Reads a whole number within limits. What is wrong with it is said in words of ours: those of the standard library name no
/// limits.
pub fn whole<T>(limits: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| limits.contains(number));
        number.ok_or_else(|| format!("write a whole number from {} to {}", limits.start(), limits.end()))
    }
}
