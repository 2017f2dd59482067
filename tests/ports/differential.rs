//! The store in memory and the store on SQLite play the same random sequences. `HANDOVER_LONG=1` plays many more. The same on
//! MariaDB and PostgreSQL: `servers/differential.rs`.

use std::panic::catch_unwind;

use handover_tests::differential::{answers_of_memory, with_memory};
use handover_tests::flawed::store::{Flaw, FlawedStoreRig};
use handover_tests::rigs::SqliteStoreRig;

fn cases() -> u32 {
    if handover_tests::long() { 2_000 } else { 64 }
}

#[test]
fn memory_and_sqlite_give_the_same_answers() {
    with_memory("SQLite", cases(), SqliteStoreRig::new);
}

/// A comparison that finds nothing proves nothing.
#[test]
fn a_store_that_answers_otherwise_is_reported_with_the_seed() {
    let found = catch_unwind(|| {
        with_memory("a faulty store", 64, async || FlawedStoreRig::new(Flaw::UpdatesIgnoreTheVersion));
    });
    let told = *found.expect_err("it is found").downcast::<String>().expect("a text");
    assert!(told.contains("PROPTEST_RNG_SEED=") && told.contains("right is a faulty store"), "{told}");
}

/// Answers that are all errors, or all empty, would prove nothing.
#[test]
fn the_random_sequences_do_something() {
    let answers = answers_of_memory(40);
    let share = |what: &dyn Fn(&str) -> bool| {
        answers.iter().filter(|answer| what(answer)).count() * 100 / answers.len()
    };
    let conflicts = share(&|answer| answer.ends_with("Err(Conflict)"));
    assert!((1..40).contains(&conflicts), "{conflicts} % are conflicts");
    let empty = share(&|answer| answer.ends_with("Ok([])") || answer.ends_with("Ok(None)"));
    assert!(empty < 75, "{empty} % are empty");
    for what in
        ["Ok(One)", "Ok(None)", "Err(Conflict)", "Ok(2)", "commit: Ok(())", "status: Retry", "status: Failed"]
    {
        assert!(answers.iter().any(|answer| answer.contains(what)), "{what} never happened");
    }
}
