//! Differential test: plays the same random sequences of port operations on a store and on the in-memory store, and
//! compares the results: values, counts and kinds of error (not error texts).
//!
//! The contract suite tests what is documented; this test finds differences that no rule covers. Ids, tenants, keys and
//! times come from small sets, so that operations collide.

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

/// Runs `cases` random sequences on the in-memory store and on fresh stores of this adapter. Panics at the first
/// difference.
///
/// `PROPTEST_RNG_SEED` fixes the seed; without it the seed is random, and a failure prints it.
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

/// Results of the in-memory store for a fixed set of sequences of steps, so that a test can check which results occur.
pub fn results_of_memory(sequences: usize) -> Vec<String> {
    let runtime = runtime();
    let mut runner = TestRunner::deterministic();
    let mut results = Vec::new();
    for _ in 0..sequences {
        let steps = steps::sequences().new_tree(&mut runner).expect("a sequence").current();
        results.extend(runtime.block_on(play(&MemoryStoreRig::new(), &steps)));
    }
    results
}

/// Sets the database's clock to the time of the in-memory store.
async fn align_clock(rig: &dyn MarketRig) {
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
    align_clock(rig).await;
    let expected = play(&MemoryStoreRig::new(), steps).await;
    let actual = play(rig, steps).await;
    for (memory, other) in expected.iter().zip(&actual) {
        prop_assert_eq!(memory, other, "left: result of memory; right: result of {}", name);
    }
    prop_assert_eq!(expected.len(), actual.len());
    Ok(())
}
