//! Failures of a bench, in its own words.

use std::fmt::Display;

use crate::baseline::BareError;

use handover::Failure;

/// The plain code failed, or what stands under both.
pub(super) fn failed(what: &'static str) -> impl FnOnce(BareError) -> Failure {
    move |cause| Failure::Bench(format!("{what}: {cause}"))
}

/// The service failed.
pub(super) fn odd(cause: impl Display) -> Failure {
    Failure::Bench(cause.to_string())
}

/// What is wrong with what was asked for, and the way out.
pub(super) fn refuse(what: &dyn Display, remedy: &str) -> Failure {
    Failure::Usage { what: what.to_string(), remedy: remedy.to_owned() }
}
