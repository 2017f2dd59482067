//! Self-test of the simulator: it detects each fault of `faults/`. Runs only in the patched copy of the workspace
//! (`tests/run --long overlay`), because only that copy has the switch.
#![cfg(handover_overlay)]
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test")]

use std::sync::atomic::{AtomicU64, Ordering};

use handover_outbox::fault::{activate, hits};
use handover_simulator::{Profile, Run, campaign, overlay, play};

/// Number of seeds within which each fault must be detected.
const SEEDS: u64 = 2_000;

#[test]
fn every_fault_of_the_code_is_detected() {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let faults = overlay::faults().unwrap();
    let mut missed = Vec::new();
    for fault in &faults {
        let name: &'static str = fault.name.clone().leak();
        let all_hits = AtomicU64::new(0);
        let run_with_fault = |run: Run| {
            activate(Some(name));
            let outcome = play(run);
            all_hits.fetch_add(hits(), Ordering::Relaxed);
            activate(None);
            outcome
        };
        let first =
            campaign::run(0..SEEDS, jobs, |seed| run_with_fault(Run::new(seed, Profile::Storm)), || {})
                .failed;
        match first {
            Some(seed) => {
                let violations = run_with_fault(Run::new(seed, Profile::Storm)).violations;
                println!(
                    "{name}: seed {seed}: {}",
                    violations.first().expect("the same run must fail again")
                );
            }
            // Without hits, no run reached the code of the fault; with hits, no check detected it.
            None => match all_hits.into_inner() {
                0 => missed.push(format!("{name}, which was never reached")),
                times => missed.push(format!("{name}, which was hit {times} times")),
            },
        }
    }
    println!("{} faults", faults.len());
    assert!(missed.is_empty(), "not detected within {SEEDS} seeds: {missed:#?}");
}

#[test]
fn fault_is_active_only_on_thread_that_activated_it() {
    activate(Some("no-gate"));
    let elsewhere = std::thread::spawn(|| handover_outbox::fault::is_active("no-gate")).join();
    assert!(!elsewhere.unwrap());
    assert!(!handover_outbox::fault::is_active("no-dedupe"));
    assert_eq!(hits(), 0);
    assert!(handover_outbox::fault::is_active("no-gate"));
    assert_eq!(hits(), 1);
    activate(None);
    assert!(!handover_outbox::fault::is_active("no-gate"));
}
