//! No seed violates an invariant, and a seed gives the same run in every process.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a failed run panics with its log, and rates are measured in real time"
)]

mod defects;
mod overlay;
mod seeds;
mod traces;

/// Whether the tests run with `tests/run --long`: more seeds, chosen at random.
fn long() -> bool {
    std::env::var_os("HANDOVER_LONG").is_some()
}
