//! Errors of the benchmark.

use std::fmt::Display;

use handover_runtime::config::ConfigErrors;
use handover_runtime::{Exit, Explained, Failure};

use crate::baseline::BaselineError;

/// Errors after which the benchmark reports no figures.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// An error of the configuration, the command line or the wiring, which the benchmark shares with `handover`.
    #[error(transparent)]
    Handover(#[from] Failure),
    /// The service or the baseline failed while it was measured.
    #[error("{0}")]
    Measurement(String),
}

impl From<ConfigErrors> for BenchError {
    fn from(errors: ConfigErrors) -> BenchError {
        BenchError::Handover(errors.into())
    }
}

impl BenchError {
    pub fn exit(&self) -> Exit {
        match self {
            BenchError::Handover(failure) => failure.exit(),
            BenchError::Measurement(_) => Exit::Failed,
        }
    }

    /// Describes the error: the failure, its consequence and the remedy.
    pub fn explain(&self) -> String {
        match self {
            BenchError::Handover(failure) => failure.explain(),
            BenchError::Measurement(what) => format!(
                "error: {what}\n  why: the measurement is incomplete, so no figures are reported\n  \
                do:  read the log of the server that failed, then run the benchmark again"
            ),
        }
    }
}

/// Converts an error of the baseline, or of the fixture's own connections, into a [`BenchError`].
pub(crate) fn baseline_error(action: &'static str) -> impl FnOnce(BaselineError) -> BenchError {
    move |cause| BenchError::Measurement(format!("{action}: {cause}"))
}

/// Converts an error of the service into a [`BenchError`].
pub(crate) fn service_error(cause: impl Display) -> BenchError {
    BenchError::Measurement(cause.to_string())
}

/// An error of the command line or of the configuration.
pub(crate) fn usage_error(what: impl Display, remedy: &str) -> BenchError {
    BenchError::Handover(Failure::Usage { what: what.to_string(), remedy: remedy.to_owned() })
}
