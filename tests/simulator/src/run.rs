//! Parameters and result of a run.

use std::time::Duration;

use super::coverage::Coverage;
use super::ports::defects::Defect;
use super::profile::Profile;
use super::story::Line;

/// Parameters of a run.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    /// Seed of all random decisions.
    pub seed: u64,
    pub profile: Profile,
    /// Maximum length of the fault phase in virtual time. Until that time the run equals the run without this limit.
    pub until: Option<Duration>,
    /// Whether the log is recorded.
    pub story: bool,
    /// A defect of the adapters, which the oracle must detect; `None` in a run that tests the application.
    pub defect: Option<Defect>,
}

impl Run {
    /// A complete run without a log.
    pub fn new(seed: u64, profile: Profile) -> Run {
        Run { seed, profile, until: None, story: false, defect: None }
    }
}

/// Result of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Violated invariants; empty if the application is correct.
    pub violations: Vec<String>,
    /// Number of orders.
    pub orders: usize,
    /// Number of events.
    pub events: usize,
    /// Length of the fault phase, in virtual time.
    pub fault_duration: Duration,
    pub coverage: Coverage,
    /// The log, if it was recorded.
    pub story: Vec<Line>,
}
