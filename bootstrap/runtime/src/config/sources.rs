//! The sources of settings outside of the program.

use std::fmt;
use std::path::PathBuf;

/// External sources of settings. `Debug` shows names only, because values may be secrets.
#[derive(Clone, Default)]
pub struct Sources {
    /// `--config`: read only this file, which must exist.
    pub file: Option<PathBuf>,
    /// Name and value of environment variables.
    pub variables: Vec<(String, String)>,
    /// Flag, the key that it sets, and the value.
    pub flags: Vec<(&'static str, &'static str, String)>,
}

impl fmt::Debug for Sources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let variables: Vec<&str> = self.variables.iter().map(|(name, _)| name.as_str()).collect();
        let flags: Vec<&str> = self.flags.iter().map(|(flag, ..)| *flag).collect();
        f.debug_struct("Sources")
            .field("file", &self.file)
            .field("variables", &variables)
            .field("flags", &flags)
            .finish()
    }
}

impl Sources {
    /// The sources of this process, without flags.
    pub fn of_process(file: Option<PathBuf>) -> Sources {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| {
                Some((name.into_string().ok()?, value.to_string_lossy().into_owned()))
            })
            .collect();
        Sources { file, variables, flags: Vec::new() }
    }
}
