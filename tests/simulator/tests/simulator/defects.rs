//! Self-test of the simulator: it detects each defect of an adapter.

use handover_simulator::{Defect, Profile, Run, campaign, play};

use crate::seeds::jobs;

/// Number of seeds within which each defect must be detected.
const SEEDS: u64 = 1_000;

#[test]
fn every_defect_of_an_adapter_is_detected() {
    let mut missed = Vec::new();
    for defect in Defect::ALL {
        let run_with_defect = |seed| play(Run { defect: Some(*defect), ..Run::new(seed, Profile::Storm) });
        match campaign::run(0..SEEDS, jobs(), run_with_defect, || {}).failed {
            Some(seed) => {
                let violations = run_with_defect(seed).violations;
                println!(
                    "{}: seed {seed}: {}",
                    defect.name(),
                    violations.first().expect("the same run must fail again")
                );
            }
            None => missed.push(defect.name()),
        }
    }
    assert!(missed.is_empty(), "not detected within {SEEDS} seeds: {missed:?}");
}
