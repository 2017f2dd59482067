//! The application on the adapters in memory, in virtual time.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on panics")]

mod assets;
mod cancellation;
mod consumers;
mod metrics;
#[cfg(feature = "mutants")]
mod mutants;
mod operations;
mod rate_limits;
mod relay;
mod support;
mod use_cases;
