//! A store and the store in memory play the same random sequences of port operations and must give the same answers: the same
//! values, the same counts, the same kinds of error (not the same texts).
//!
//! The contract suite says what is promised; this finds what nobody thought of promising. Ids, tenants, keys and
//! moments come from small universes, so that operations meet.

mod play;
mod steps;

use handover_contract::samples::start;
use marketplace_contract::store::MarketRig;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use crate::rigs::MemoryStoreRig;
use play::play;
use steps::{Step, sequences};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Plays so many random sequences on the memory and on a fresh store of this name; panics where the answers differ.
///
/// `PROPTEST_RNG_SEED` fixes the seed; without it the seed is new each time, and a failure names it.
pub fn with_memory<R: MarketRig>(name: &str, cases: u32, fresh: impl AsyncFn() -> R) {
    let runtime = runtime();
    let mut config =
        Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    let seed = match config.rng_seed {
        RngSeed::Fixed(seed) => seed,
        RngSeed::Random => TestRunner::default().rng().next_u64(),
    };
    config.rng_seed = RngSeed::Fixed(seed);
    TestRunner::new(config)
        .run(&sequences(), |steps| runtime.block_on(async { compare(name, &fresh().await, &steps).await }))
        .unwrap_or_else(|failure| panic!("PROPTEST_RNG_SEED={seed}: {failure}"));
}

/// What the memory answers to so many sequences, the same ones each time.
pub fn answers_of_memory(sequences: usize) -> Vec<String> {
    let runtime = runtime();
    let mut runner = TestRunner::deterministic();
    let mut answers = Vec::new();
    for _ in 0..sequences {
        let steps = steps::sequences().new_tree(&mut runner).expect("a sequence").current();
        answers.extend(runtime.block_on(play(&MemoryStoreRig::new(), &steps)));
    }
    answers
}

/// Brings the database's own clock to where the memory's stands.
async fn set_the_clock(rig: &dyn MarketRig) {
    let now = rig
        .store()
        .view()
        .await
        .expect("a view")
        .outbox_view()
        .database_now()
        .await
        .expect("the database's now");
    rig.move_database_clock(start() - now);
}

async fn compare(name: &str, rig: &dyn MarketRig, steps: &[Step]) -> Result<(), TestCaseError> {
    set_the_clock(rig).await;
    let expected = play(&MemoryStoreRig::new(), steps).await;
    let seen = play(rig, steps).await;
    for (memory, other) in expected.iter().zip(&seen) {
        prop_assert_eq!(memory, other, "left is memory, right is {}", name);
    }
    prop_assert_eq!(expected.len(), seen.len());
    Ok(())
}
