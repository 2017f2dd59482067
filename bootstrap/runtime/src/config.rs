//! The configuration: built-in defaults < `handover.toml` < `HANDOVER_*` variables < flags, validated completely before
//! any component starts.
//!
//! A program declares each of its keys where it reads it ([`Configuration::read`]): path, default, type with limits, and
//! the reason for the limits. [`crate::settings`] reads the toolkit's sections.
//!
//! **Invariant:** every loaded configuration has passed all checks; no value is clamped or ignored. All errors are
//! reported, not only the first.

mod describe;
mod error;
mod item;
mod keys;
mod layers;
mod names;
mod read;
mod sources;
mod value;
mod variables;

use std::fmt;
use std::time::Duration;

pub use describe::{Described, Description, Shown};
pub use error::{ConfigError, ConfigErrors, Origin};
pub use item::{Item, show};
pub use keys::{Key, Keys, Kind};
pub use names::{best, similarity, variable_of};
pub use read::{Checked, HOURS, MINUTES, Reader, Reported, Unit};
pub use sources::Sources;

use item::Settings;
pub use value::read_value;

/// The configuration of a program.
pub trait Configuration: Sized {
    /// Reads and validates every key, in the order of the documentation.
    ///
    /// This function and those that it calls declare all keys. MUST read every key, whether or not another is valid:
    /// [`Configuration::keys`] are those that it reads, and all errors are reported at once.
    fn read(reader: &Reader<'_>) -> Checked<Self>;

    /// All keys: those that [`Configuration::read`] reads from an empty configuration.
    fn keys() -> Keys {
        let nothing_set = Settings::new();
        let reader = Reader::new(&nothing_set, Vec::new());
        drop(Self::read(&reader));
        Keys(reader.into_keys())
    }

    /// Reads and validates the configuration of these sources.
    fn load(sources: &Sources) -> Result<Self, ConfigErrors> {
        let (settings, errors) = layers::merge(sources, &Self::keys());
        let reader = Reader::new(&settings, errors);
        let config = Self::read(&reader);
        reader.finish(config)
    }

    /// Describes every setting with the origin of its value, and all errors.
    fn describe(sources: &Sources) -> Description {
        let keys = Self::keys();
        let (settings, _) = layers::merge(sources, &keys);
        Description::new(&keys, settings, Self::load(sources).err())
    }
}

/// A secret that is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps the text of a secret.
    pub fn new(secret: impl Into<String>) -> Secret {
        Secret(secret.into())
    }

    /// The secret itself, for signing and verifying.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(...)")
    }
}

/// A millisecond, for limits of durations.
pub const MILLISECOND: Duration = Duration::from_millis(1);
/// A second.
pub const SECOND: Duration = Duration::from_secs(1);
/// A minute.
pub const MINUTE: Duration = Duration::from_secs(60);
/// An hour.
pub const HOUR: Duration = Duration::from_secs(3600);
