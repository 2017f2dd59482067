//! Coverage-guided fuzzing of every decoder with libFuzzer: ten minutes for all of them, as a part of
//! `tests/run --long`.
//!
//! `tests/run --long fuzz` builds the fuzzing program with instrumentation and sets `HANDOVER_FUZZ` to its path.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test may panic on failure; libFuzzer runs in real time"
)]

mod campaign;

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use campaign::{Campaign, RunResult};
use handover_fuzz::{DECODERS, PLANTED};

/// Number of parallel runs; a small machine has this many cores.
const PARALLEL_RUNS: u32 = 2;

/// Minimum number of instrumented edges; a correct build has several hundred thousand. With fewer, the code of the
/// workspace is not instrumented.
const LEAST_COUNTERS: u64 = 50_000;

/// Total time for all decoders.
const SECONDS: u32 = 600;

#[test]
fn no_decoder_violates_a_guarantee_under_guided_fuzzing() {
    let time = Duration::from_secs((SECONDS * PARALLEL_RUNS).into()) / u32::try_from(DECODERS.len()).unwrap();
    let waiting = Mutex::new(DECODERS.iter());
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..PARALLEL_RUNS {
            scope.spawn(|| {
                loop {
                    let Some(decoder) = waiting.lock().unwrap().next() else { break };
                    let campaign = Campaign::of(decoder);
                    let result = campaign.run(time);
                    // Print now, not when all runs are over.
                    println!("{:<9} {result}", decoder.name);
                    if let Err(why) = check(&result) {
                        failed.lock().unwrap().push(format!(
                            "{}: {why}\n{}",
                            decoder.name,
                            campaign.describe(&result)
                        ));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

fn check(result: &RunResult) -> Result<(), &'static str> {
    if !result.success {
        return Err("an input violated a guarantee or took too much time or memory");
    }
    if result.counters < LEAST_COUNTERS {
        return Err("the program is not instrumented");
    }
    // A run that executes only the samples does not fuzz.
    if result.inputs < 500 {
        return Err("too few inputs were executed");
    }
    Ok(())
}

/// Only one of 2^80 inputs triggers the planted fault, so without instrumentation, or without feedback about
/// comparisons, it would not be found. The test also checks that a finding is reported and its input is kept.
#[test]
fn guided_fuzzing_finds_planted_fault_and_keeps_input() {
    let campaign = Campaign::of(&PLANTED);
    campaign.reset();
    let result = campaign.run(Duration::from_secs(60));
    println!("{:<9} {result}", PLANTED.name);
    assert!(!result.success, "the planted fault was not found: {}", campaign.describe(&result));
    let input = result.input().unwrap();
    assert!(input.starts_with(b"dnahrevo!?"), "{}", input.escape_ascii());
    assert!(result.output.contains("the planted fault was found"), "{}", result.output);
    let description = campaign.describe(&result);
    assert!(
        description.contains("dnahrevo!?") && description.contains("HANDOVER_DECODER=planted "),
        "{description}"
    );
    campaign.reset();
}
