//! Failures of a bench, in its own words.

use std::fmt::Display;

use crate::Failure;

/// The plain code, or the ground under it, failed.
pub(super) fn failed(what: &'static str) -> impl FnOnce(handover_bare::BareError) -> Failure {
    move |cause| refuse(&format!("{what}: {cause}"), "look at the log of the server, then run it again")
}

/// Interrupted.
pub(super) fn by(name: &str) -> Failure {
    refuse(&format!("{name}: the bench was stopped"), "run it again; what it had made is gone")
}

/// What is wrong, and the way out.
pub(super) fn refuse(what: &dyn Display, remedy: &str) -> Failure {
    Failure::Usage { what: what.to_string(), remedy: remedy.to_owned() }
}
