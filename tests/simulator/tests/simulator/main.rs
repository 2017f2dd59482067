//! The simulator's seeds hold every promise, and a seed is the same run everywhere.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a failed run panics with its story, and rates are measured in real time"
)]

mod seeds;
mod traces;

/// Whether `tests/run --long` runs: more seeds, and fresh ones.
fn long() -> bool {
    std::env::var_os("HANDOVER_LONG").is_some()
}
