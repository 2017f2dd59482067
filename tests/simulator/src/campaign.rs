//! Runs many seeds on several threads and shortens a failing run.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Coverage, Outcome, Profile, Run};

/// Totals of many runs.
#[derive(Debug, Clone, Default)]
pub struct RunTotals {
    pub seeds: u64,
    pub orders: u64,
    pub events: u64,
    pub coverage: Coverage,
    /// The smallest seed that violated an invariant.
    pub failed: Option<u64>,
}

/// Runs the seeds in ascending order on `jobs` threads until a run violates an invariant. The runs of all smaller seeds
/// are then completed, so that the reported seed is the smallest that fails. Calls `played` after each run.
pub fn run(
    seeds: std::ops::Range<u64>,
    jobs: usize,
    run_seed: impl Fn(u64) -> Outcome + Sync,
    played: impl Fn() + Sync,
) -> RunTotals {
    let next = AtomicU64::new(seeds.start);
    let failed = AtomicU64::new(u64::MAX);
    let totals = Mutex::new(RunTotals::default());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                let mut own_totals = RunTotals::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || seed > failed.load(Ordering::Relaxed) {
                        break;
                    }
                    let outcome = run_seed(seed);
                    own_totals.add(&outcome);
                    if !outcome.violations.is_empty() {
                        failed.fetch_min(seed, Ordering::Relaxed);
                    }
                    played();
                }
                totals.lock().unwrap_or_else(std::sync::PoisonError::into_inner).join(&own_totals);
            });
        }
    });
    let totals = totals.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    RunTotals { failed: Some(failed.into_inner()).filter(|seed| *seed != u64::MAX), ..totals }
}

impl RunTotals {
    fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.orders += outcome.orders as u64;
        self.events += outcome.events as u64;
        self.coverage.add(&outcome.coverage);
    }

    /// Adds the totals of other runs.
    pub fn join(&mut self, other: &RunTotals) {
        self.seeds += other.seeds;
        self.orders += other.orders;
        self.events += other.events;
        self.coverage.add(&other.coverage);
        self.failed = self.failed.or(other.failed);
    }
}

/// Shortens the fault phase of a failing run by bisection; returns the shortest run that still fails, with its log. Up
/// to the end of its fault phase, a shortened run equals the original one.
pub fn shortest(seed: u64, profile: Profile, run_seed: impl Fn(Run) -> Outcome) -> Outcome {
    let whole = run_seed(Run { story: true, ..Run::new(seed, profile) });
    let (mut best, mut low) = (whole, Duration::ZERO);
    let mut high = best.fault_duration;
    while high - low > Duration::from_millis(50) {
        let middle = low + (high - low) / 2;
        let shorter = run_seed(Run { until: Some(middle), story: true, ..Run::new(seed, profile) });
        if shorter.violations.is_empty() {
            low = middle;
        } else {
            (high, best) = (middle, shorter);
        }
    }
    best
}

/// The seeds of `regressions.txt`, which once violated an invariant.
pub fn regressions() -> Vec<(u64, Profile)> {
    let lines = include_str!("../regressions.txt").lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (seed, profile) =
                line.split_once(' ').expect("regressions.txt: a line must be a seed, a space and a profile");
            let seed = seed.parse().expect("regressions.txt: the seed must be a number");
            (seed, profile.trim().parse().expect("regressions.txt: the profile must exist"))
        })
        .collect()
}

/// Report about a failing seed: the violations, the related log lines, and the command that repeats the run.
pub fn report(seed: u64, profile: Profile, outcome: &Outcome) -> String {
    let mut text = format!(
        "seed {seed} of profile {} has {} violations after {:.2} s of faults:\n",
        profile.name(),
        outcome.violations.len(),
        outcome.fault_duration.as_secs_f64()
    );
    for what in outcome.violations.iter().take(10) {
        text += &format!("  - {what}\n");
    }
    text += "related log lines:\n";
    for line in super::story::about(&outcome.story, &outcome.violations, 60) {
        text += &format!("  {line}\n");
    }
    text += &format!(
        "complete log: cargo run --profile simulator -p handover-simulator -- --profile {} --seed {seed}\n\
        to run it in every test: add the line `{seed} {}` to tests/simulator/regressions.txt",
        profile.name(),
        profile.name()
    );
    text
}
