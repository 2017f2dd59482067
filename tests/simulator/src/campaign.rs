//! Many runs on several threads, and the shortest way to what broke.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Coverage, Outcome, Profile, Run};

/// What many runs came to.
#[derive(Debug, Clone, Default)]
pub struct Tally {
    /// How many were played.
    pub seeds: u64,
    /// Orders in all of them.
    pub orders: u64,
    /// Events in all of them.
    pub events: u64,
    /// Where they got to.
    pub coverage: Coverage,
    /// The smallest seed that broke a promise.
    pub failed: Option<u64>,
}

/// Plays these seeds on so many threads until one fails; the smaller ones are played to their end, so that the seed it
/// names is the smallest. `played` is called after each.
pub fn run(
    seeds: std::ops::Range<u64>,
    jobs: usize,
    day: impl Fn(u64) -> Outcome + Sync,
    played: impl Fn() + Sync,
) -> Tally {
    let next = AtomicU64::new(seeds.start);
    let failed = AtomicU64::new(u64::MAX);
    let tally = Mutex::new(Tally::default());
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                let mut mine = Tally::default();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || seed > failed.load(Ordering::Relaxed) {
                        break;
                    }
                    let outcome = day(seed);
                    mine.add(&outcome);
                    if !outcome.violations.is_empty() {
                        failed.fetch_min(seed, Ordering::Relaxed);
                    }
                    played();
                }
                tally.lock().unwrap_or_else(std::sync::PoisonError::into_inner).join(&mine);
            });
        }
    });
    let tally = tally.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    Tally { failed: Some(failed.into_inner()).filter(|seed| *seed != u64::MAX), ..tally }
}

impl Tally {
    fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.orders += outcome.orders as u64;
        self.events += outcome.events as u64;
        self.coverage.add(&outcome.coverage);
    }

    /// Adds what others came to.
    pub fn join(&mut self, other: &Tally) {
        self.seeds += other.seeds;
        self.orders += other.orders;
        self.events += other.events;
        self.coverage.add(&other.coverage);
        self.failed = self.failed.or(other.failed);
    }
}

/// The shortest prefix of trouble after which a failing run still fails, found by halving: up to there it is the same
/// run, then nothing goes wrong any more. With its story.
pub fn shortest(seed: u64, profile: Profile, day: impl Fn(Run) -> Outcome) -> Outcome {
    let whole = day(Run { story: true, ..Run::new(seed, profile) });
    let (mut best, mut low) = (whole, Duration::ZERO);
    let mut high = best.trouble;
    while high - low > Duration::from_millis(50) {
        let middle = low + (high - low) / 2;
        let shorter = day(Run { until: Some(middle), story: true, ..Run::new(seed, profile) });
        if shorter.violations.is_empty() {
            low = middle;
        } else {
            (high, best) = (middle, shorter);
        }
    }
    best
}

/// The seeds that once broke a promise, one `seed profile` a line of `regressions.txt`.
pub fn regressions() -> Vec<(u64, Profile)> {
    let lines = include_str!("../regressions.txt").lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (seed, profile) = line.split_once(' ').expect("regressions.txt: a seed, a blank, a profile");
            let seed = seed.parse().expect("regressions.txt: the seed is a number");
            (seed, profile.trim().parse().expect("regressions.txt: the profile has a name"))
        })
        .collect()
}

/// What is said of a seed that broke a promise: how to see it again, what broke, and what led there.
pub fn report(seed: u64, profile: Profile, outcome: &Outcome) -> String {
    let mut text = format!(
        "seed {seed} of profile {} breaks {} promises after {:.2} s of trouble:\n",
        profile.name(),
        outcome.violations.len(),
        outcome.trouble.as_secs_f64()
    );
    for what in outcome.violations.iter().take(10) {
        text += &format!("  - {what}\n");
    }
    text += "what led there:\n";
    for line in super::story::about(&outcome.story, &outcome.violations, 60) {
        text += &format!("  {line}\n");
    }
    text += &format!(
        "to see all of it: cargo run --profile simulator -p handover-simulator -- --profile {} --seed {seed}\n\
         to keep it: the line `{seed} {}` in tests/simulator/regressions.txt",
        profile.name(),
        profile.name()
    );
    text
}
