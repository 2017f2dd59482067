//! Periodic jobs, and the leader that runs those of them that only one process should run.

mod leader;
mod missed_runs;
mod periodic;

pub use leader::Leader;
pub(crate) use missed_runs::missed_runs;
pub use periodic::{Job, Periodic, Progress, RunBy};

/// Default length of the lease of a [`Leader`] in milliseconds.
pub const LEADER_LEASE_MS: u32 = 5_000;
