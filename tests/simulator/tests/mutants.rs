//! The test of the test: each fault planted in the real code is found.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test"
)]

use handover_application::mutants::{Mutant, plant};
use handover_simulator::campaign;
use handover_simulator::{Profile, Run, play};

/// Seeds in which each planted fault must show.
const SEEDS: u64 = 1_000;

#[test]
fn every_planted_fault_is_found() {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut unseen = Vec::new();
    for mutant in Mutant::ALL {
        let day = |run: Run| {
            plant(Some(*mutant));
            let outcome = play(run);
            plant(None);
            outcome
        };
        let first = campaign::run(0..SEEDS, jobs, |seed| day(Run::new(seed, Profile::Storm)), || {}).failed;
        match first {
            Some(seed) => {
                let broken = day(Run::new(seed, Profile::Storm)).violations;
                println!("{mutant}: seed {seed}: {}", broken.first().expect("it failed before"));
            }
            None => unseen.push(mutant.name()),
        }
    }
    assert!(Mutant::ALL.len() >= 20);
    assert!(unseen.is_empty(), "{SEEDS} seeds do not show {unseen:?}");
}
