//! The in-memory store and the SQLite store run the same random sequences of operations. `HANDOVER_LONG=1` runs many
//! more. `servers/differential.rs` tests MariaDB and PostgreSQL in the same way.

use std::panic::catch_unwind;

use handover_tests::differential::{results_of_memory, with_memory};
use handover_tests::faulty::store::{Fault, FaultyStoreRig};
use handover_tests::rigs::SqliteStoreRig;

fn cases() -> u32 {
    if handover_tests::long() { 2_000 } else { 64 }
}

#[test]
fn memory_and_sqlite_give_same_results() {
    with_memory("SQLite", cases(), SqliteStoreRig::new);
}

/// The comparison must find a faulty store, or it would prove nothing.
#[test]
fn different_result_is_reported_with_seed() {
    let found = catch_unwind(|| {
        with_memory("a faulty store", 64, async || FaultyStoreRig::new(Fault::UpdatesIgnoreVersion));
    });
    let message = *found.expect_err("a difference must be found").downcast::<String>().expect("a text");
    assert!(
        message.contains("PROPTEST_RNG_SEED=") && message.contains("right: result of a faulty store"),
        "{message}"
    );
}

/// Sequences whose results are all errors, or all empty, would prove nothing.
#[test]
fn random_sequences_have_varied_results() {
    let results = results_of_memory(40);
    let share = |what: &dyn Fn(&str) -> bool| {
        results.iter().filter(|result| what(result)).count() * 100 / results.len()
    };
    let conflicts = share(&|result| result.ends_with("Err(Conflict)"));
    assert!((1..40).contains(&conflicts), "{conflicts} % of the results are conflicts, expected 1 to 39 %");
    let empty = share(&|result| result.ends_with("Ok([])") || result.ends_with("Ok(None)"));
    assert!(empty < 75, "{empty} % of the results are empty, expected less than 75 %");
    for what in
        ["Ok(One)", "Ok(None)", "Err(Conflict)", "Ok(2)", "commit: Ok(())", "status: Retry", "status: Failed"]
    {
        assert!(results.iter().any(|result| result.contains(what)), "no result contains {what}");
    }
}
