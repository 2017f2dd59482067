//! Flags that set keys of the configuration.

use std::path::PathBuf;

use clap::Args;

use crate::config::{Configuration, Sources, variable_of};
use crate::failure::Failure;
use crate::names::names;
use crate::settings::{DATABASE_DEFAULT, DATABASE_URL, LISTEN, LISTEN_DEFAULT};
use crate::terminal::warn;

/// Flags of every command that reads the configuration.
#[derive(Debug, Clone, Default, Args)]
pub struct Common {
    /// Path of the configuration file.
    #[arg(long, value_name = "FILE", env = names().file_variable,
        help = format!("Read this file instead of {}", names().file))]
    pub config: Option<PathBuf>,
    /// Value of the key `database.url`.
    #[arg(long, value_name = "URL", help = flag_help("Database that stores the events", DATABASE_URL, DATABASE_DEFAULT))]
    pub database: Option<String>,
}

/// Address flag of commands that need the API's address.
#[derive(Debug, Clone, Default, Args)]
pub struct Address {
    /// Value of the key `http.listen`.
    #[arg(long, value_name = "ADDRESS", help = flag_help("Address and port of the API; port 0 selects any free port", LISTEN, LISTEN_DEFAULT))]
    pub listen: Option<String>,
}

impl Address {
    /// The flag `--listen` as a configuration source.
    pub fn flag(&self) -> Flag<'_> {
        ("--listen", LISTEN, self.listen.as_ref())
    }
}

/// The help text of a flag, with default and variable of the key that it sets.
fn flag_help(text: &str, path: &str, default: &str) -> String {
    format!("{text} [default: {default}] [env: {}]", variable_of(path))
}

/// A flag, the configuration key that it sets, and its value if given.
pub type Flag<'a> = (&'static str, &'static str, Option<&'a String>);

impl Common {
    /// Configuration sources of this process, including these flags.
    pub fn sources(&self, other_flags: &[Flag<'_>]) -> Sources {
        let mut sources = Sources::of_process(self.config.clone());
        let flags: [Flag<'_>; 1] = [("--database", DATABASE_URL, self.database.as_ref())];
        sources.flags = flags
            .iter()
            .chain(other_flags)
            .filter_map(|(flag, key, value)| value.map(|value| (*flag, *key, value.clone())))
            .collect();
        sources
    }

    /// Loads the configuration of this process with these flags. Warnings go to stderr.
    pub fn load<C: Configuration>(&self) -> Result<C, Failure> {
        let sources = self.sources(&[]);
        warn(&C::keys(), &sources);
        Ok(C::load(&sources)?)
    }
}
