//! The explanation of an error for the user.

use std::fmt;

/// Explanation of an error: what failed, why it failed, and what the user should do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    pub what: String,
    pub why: String,
    pub remedy: String,
}

impl Explanation {
    pub(crate) fn new(
        what: &impl fmt::Display,
        why: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Explanation {
        Explanation { what: what.to_string(), why: why.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error: {}\n  why: {}\n  do:  {}", self.what, self.why, self.remedy)
    }
}
