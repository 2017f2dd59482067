//! Tests the simulator: it must detect each fault planted in the application.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test"
)]

use std::sync::atomic::{AtomicU64, Ordering};

use handover_simulator::campaign;
use handover_simulator::{Profile, Run, play};
use marketplace::mutants::{names, plant, struck};

/// Number of seeds within which each planted fault must be detected.
const SEEDS: u64 = 2_000;

#[test]
fn simulator_detects_every_planted_fault() {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut undetected = Vec::new();
    let mutants = names();
    for mutant in &mutants {
        let activations = AtomicU64::new(0);
        let run_with_mutant = |run: Run| {
            plant(Some(*mutant));
            let outcome = play(run);
            activations.fetch_add(struck(), Ordering::Relaxed);
            plant(None);
            outcome
        };
        let first =
            campaign::run(0..SEEDS, jobs, |seed| run_with_mutant(Run::new(seed, Profile::Storm)), || {})
                .failed;
        match first {
            Some(seed) => {
                let broken = run_with_mutant(Run::new(seed, Profile::Storm)).violations;
                println!("{mutant}: seed {seed}: {}", broken.first().expect("it failed before"));
            }
            // A fault that was never active needs runs that reach its code; one that was active needs a check.
            None => match activations.into_inner() {
                0 => undetected.push(format!("{mutant}: never active")),
                times => undetected.push(format!("{mutant}: active {times} times")),
            },
        }
    }
    assert!(mutants.len() >= 20);
    assert!(undetected.is_empty(), "not detected in {SEEDS} seeds: {undetected:#?}");
}
