//! The test of the test: the simulator notices each defect of an adapter.

use handover_simulator::{Defect, Profile, Run, campaign, play};

use crate::seeds::jobs;

/// Seeds within which each defect must be noticed.
const SEEDS: u64 = 1_000;

#[test]
fn every_defect_of_an_adapter_is_noticed() {
    let mut missed = Vec::new();
    for defect in Defect::ALL {
        let day = |seed| play(Run { defect: Some(*defect), ..Run::new(seed, Profile::Storm) });
        match campaign::run(0..SEEDS, jobs(), day, || {}).failed {
            Some(seed) => {
                let violations = day(seed).violations;
                println!("{}: seed {seed}: {}", defect.name(), violations.first().expect("the same run"));
            }
            None => missed.push(defect.name()),
        }
    }
    assert!(missed.is_empty(), "{SEEDS} seeds do not show {missed:?}");
}
