//! Every decoder is fed what libFuzzer makes of its samples, guided by the code that an input reaches: ten minutes for all
//! of them, as a part of `tests/run --long`.
//!
//! `tests/run --long fuzz` builds the program that does it, with instrumentation, and names it in `HANDOVER_FUZZ`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test, in real time"
)]

mod campaign;

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use campaign::{Campaign, Ended};
use handover_fuzz::{DECODERS, PLANTED};

/// As many as there are cores for, on a small machine.
const AT_A_TIME: u32 = 2;

/// Fewer places that report would mean that not even our own code is instrumented: there are some hundred thousand.
const LEAST_COUNTERS: u64 = 50_000;

/// For all decoders together.
const SECONDS: u32 = 600;

#[test]
fn no_decoder_breaks_a_promise_for_any_input_that_coverage_leads_to() {
    let time = Duration::from_secs((SECONDS * AT_A_TIME).into()) / u32::try_from(DECODERS.len()).unwrap();
    let waiting = Mutex::new(DECODERS.iter());
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let Some(decoder) = waiting.lock().unwrap().next() else { break };
                    let campaign = Campaign::of(decoder);
                    let ended = campaign.run(time);
                    // Now, and not when the last of them is over.
                    println!("{:<9} {ended}", decoder.name);
                    if let Err(why) = right(&ended) {
                        failed.lock().unwrap().push(format!(
                            "{}: {why}\n{}",
                            decoder.name,
                            campaign.told(&ended)
                        ));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

fn right(ended: &Ended) -> Result<(), &'static str> {
    if !ended.success {
        return Err("an input broke a promise, took too long or too much memory");
    }
    if ended.counters < LEAST_COUNTERS {
        return Err("the program is not instrumented");
    }
    // The samples alone are no fuzzing.
    if ended.inputs < 500 {
        return Err("hardly an input was tried");
    }
    Ok(())
}

/// Without instrumentation, or without being told of comparisons, it would stay hidden: 2^80 inputs begin so. And whoever
/// finds something says so, and keeps it.
#[test]
fn guidance_finds_the_planted_fault_and_keeps_the_input() {
    let campaign = Campaign::of(&PLANTED);
    campaign.forget();
    let ended = campaign.run(Duration::from_secs(60));
    println!("{:<9} {ended}", PLANTED.name);
    assert!(!ended.success, "the planted fault was not found: {}", campaign.told(&ended));
    let input = ended.input().unwrap();
    assert!(input.starts_with(b"dnahrevo!?"), "{}", input.escape_ascii());
    assert!(ended.output.contains("the planted fault was found"), "{}", ended.output);
    let told = campaign.told(&ended);
    assert!(told.contains("dnahrevo!?") && told.contains("HANDOVER_DECODER=planted "), "{told}");
    campaign.forget();
}
