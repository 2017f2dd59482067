//! A store beside the one in memory.

use handover_tests::contract::store::StoreRig;
use handover_tests::rigs::MemoryStoreRig;
use handover_tests::samples::start;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::play::play;
use crate::steps::{Step, sequences};

/// Plays so many random sequences on the memory and on a fresh store of this name; panics where the answers differ.
pub(crate) fn with_memory<R: StoreRig>(name: &str, cases: u32, fresh: impl AsyncFn() -> R) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    TestRunner::new(config)
        .run(&sequences(), |steps| runtime.block_on(async { compare(name, &fresh().await, &steps).await }))
        .unwrap_or_else(|failure| panic!("{failure}"));
}

/// Brings the database's own clock to where the memory's stands.
async fn set_the_clock(rig: &dyn StoreRig) {
    let now = rig.store().view().await.expect("a view").database_now().await.expect("the database's now");
    rig.move_database_clock(start() - now);
}

async fn compare(name: &str, rig: &dyn StoreRig, steps: &[Step]) -> Result<(), TestCaseError> {
    set_the_clock(rig).await;
    let expected = play(&MemoryStoreRig::new(), steps).await;
    let seen = play(rig, steps).await;
    for (memory, other) in expected.iter().zip(&seen) {
        prop_assert_eq!(memory, other, "left is memory, right is {}", name);
    }
    prop_assert_eq!(expected.len(), seen.len());
    Ok(())
}
