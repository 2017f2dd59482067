//! The simulator: the real application on the memory adapters, one thread, virtual time, every choice from one seed.
//!
//! A failing seed is run again with `HANDOVER_SEED=<seed>`, which also prints its story.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    missing_docs,
    unreachable_pub,
    reason = "a test that plays the world; time in it is virtual"
)]

mod broker;
mod chance;
mod clients;
mod faults;
mod mutants;
mod oracle;
mod parties;
mod store;
mod world;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use mutants::Mutant;

/// Seeds in which each planted fault must show.
const MUTANT_SEEDS: u64 = 300;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn seeds() -> u64 {
    let usual = if handover_tests::long() { 20_000 } else { 1_000 };
    number("HANDOVER_SEEDS").unwrap_or(usual)
}

/// Runs seeds on every core until one fails; returns the first failing seed and what it broke.
fn first_failure(seeds: std::ops::Range<u64>, mutant: Option<Mutant>) -> (Option<(u64, Vec<String>)>, u64) {
    let next = AtomicU64::new(seeds.start);
    let worst = AtomicU64::new(u64::MAX);
    let events = AtomicU64::new(0);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end || seed > worst.load(Ordering::Relaxed) {
                        return;
                    }
                    let report = world::run(seed, mutant);
                    events.fetch_add(report.events as u64, Ordering::Relaxed);
                    if !report.violations.is_empty() {
                        worst.fetch_min(seed, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let worst = worst.into_inner();
    let failure = (worst != u64::MAX).then(|| (worst, world::run(worst, mutant).violations));
    (failure, events.into_inner())
}

#[test]
fn no_seed_breaks_a_promise() {
    if let Some(seed) = number("HANDOVER_SEED") {
        let report = world::run(seed, None);
        println!("{}", report.story.join("\n"));
        assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
        return;
    }
    let (begun, seeds) = (Instant::now(), seeds());
    let (failure, events) = first_failure(0..seeds, None);
    let elapsed = begun.elapsed().as_secs_f64();
    println!("{seeds} seeds, {events} events, {:.0} seeds/s", seeds as f64 / elapsed);
    assert!(failure.is_none(), "run it alone with HANDOVER_SEED: {failure:#?}");
    assert!(events > seeds, "the runs have to do something");
}

#[test]
fn a_seed_is_the_same_run_every_time() {
    for seed in 0..10 {
        assert_eq!(world::run(seed, None), world::run(seed, None), "seed {seed}");
    }
}

#[test]
fn every_planted_fault_is_found() {
    for mutant in Mutant::ALL {
        let (failure, _) = first_failure(0..MUTANT_SEEDS, Some(mutant));
        let (seed, violations) =
            failure.unwrap_or_else(|| panic!("{mutant:?} was not found in {MUTANT_SEEDS} seeds"));
        println!("{mutant:?}: seed {seed}: {}", violations.first().cloned().unwrap_or_default());
    }
}

#[test]
fn the_runs_go_where_it_hurts() {
    let mut reached = BTreeSet::new();
    for seed in 0..MUTANT_SEEDS {
        reached.extend(world::run(seed, None).reached);
    }
    let wanted = [
        "a FAILED event",
        "a completed order",
        "a crash",
        "a dead letter",
        "a partition lost in the middle of a window",
        "a payment that came too late",
        "a publish after a failed one",
        "an attempt after a failed or unfinished one",
        "an event that waits for an earlier one",
        "an order closed by its deadline",
        "an outage of the broker",
    ];
    let missing: Vec<&str> = wanted.into_iter().filter(|place| !reached.contains(place)).collect();
    assert!(missing.is_empty(), "{MUTANT_SEEDS} seeds never reached {missing:?}");
}
