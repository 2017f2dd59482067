//! The store in memory and the store on SQLite play the same random sequences of port operations and must give the
//! same answers: the same values, the same counts, the same kinds of error (not the same texts).
//!
//! The contract suite says what is promised; this finds what nobody thought of promising. Ids, tenants, keys and
//! moments come from small universes, so that operations meet. `HANDOVER_LONG=1` plays many more. The same against
//! MariaDB and PostgreSQL: `differential_databases`.

#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    reason = "a test outside any process of the application"
)]

mod compare;
mod play;
mod steps;

use chrono::TimeDelta;
use handover_tests::flawed::store::{Flaw, FlawedStoreRig};
use handover_tests::rigs::{MemoryStoreRig, SqliteStoreRig};
use play::play;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use steps::Step;

fn cases() -> u32 {
    if handover_tests::long() { 2_000 } else { 64 }
}

#[test]
fn memory_and_sqlite_give_the_same_answers() {
    compare::with_memory("SQLite", cases(), SqliteStoreRig::new);
}

/// What is broken is found: a store with one flaw differs from the sound one within as many sequences.
#[test]
fn a_store_with_a_flaw_is_found_out() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let flaws = [
        Flaw::EventsAreAppendedAfterTheCommit,
        Flaw::AppendIgnoresCase,
        Flaw::InsertIgnoresTakenIds,
        Flaw::SecondPaymentInProcessingIsIgnored,
        Flaw::OrdersLeakToOtherTenants,
        Flaw::PagesRepeatTheirLastRow,
        Flaw::OverdueLeavesOutTheDeadline,
        Flaw::UpdatesIgnoreTheVersion,
        Flaw::DueIgnoresHeldRows,
        Flaw::DueCountsHeldRowsAgainstTheLimit,
        Flaw::NextDueIsNotAfterNow,
        Flaw::TheFenceSaysYes,
        Flaw::RecordIgnoresWhatIsExpected,
        Flaw::UnappliedForgetsFailed,
        Flaw::EffectsAreDeduplicated,
        Flaw::NotificationsAreDeduplicated,
        Flaw::NotificationsLeakToOtherTenants,
        Flaw::CreditIsCountedOncePerEvent,
        Flaw::CreditLeaksToOtherTenants,
        Flaw::IdBlocksOverlap,
        Flaw::ForgottenRelaysLiveOn,
        Flaw::EndedLeasesAreNotRenewed,
        Flaw::DroppedUnitsCommit,
        Flaw::ProductsAreWrittenOutsideTheUnit,
        Flaw::RowsAboutAggregatesComeById,
        Flaw::BlockedLeaksToOtherTenants,
        Flaw::BlockedCountsEverythingPending,
        Flaw::CountsAreOfAllTenants,
        Flaw::RedriveMovesNewRows,
        Flaw::RedriveKeepsTheAttempts,
        Flaw::ReleaseReachesOtherTenants,
        Flaw::LogPagesIgnoreTheTenant,
        Flaw::RowsOfEventsComeByConsumer,
        Flaw::DeadLetterPagesIgnoreTheStatus,
        Flaw::DeadLettersOfAKeyAreOfOneQueue,
        Flaw::ParkLeavesWhatIsBeingReplayed,
        Flaw::DecideIgnoresWhereItStands,
        Flaw::DecideForgetsTheNote,
        Flaw::AuditLeaksToOtherTenants,
        Flaw::AuditShowsLooksAmongChanges,
        Flaw::AuditIsWrittenOutsideTheUnit,
    ];
    let mut runner = TestRunner::deterministic();
    let sequences: Vec<Vec<Step>> =
        (0..240).map(|_| steps::sequences().new_tree(&mut runner).expect("a sequence").current()).collect();
    let sound: Vec<_> = sequences
        .iter()
        .map(|steps| runtime.block_on(play(&FlawedStoreRig::new(Flaw::None), steps)))
        .collect();
    let differs = |flaw: Flaw| {
        let played = |steps| runtime.block_on(play(&FlawedStoreRig::new(flaw), steps));
        sequences.iter().zip(&sound).any(|(steps, sound)| played(steps) != *sound)
    };
    let unnoticed: Vec<_> = flaws.into_iter().filter(|flaw| !differs(*flaw)).collect();
    assert_eq!(unnoticed, []);
}

/// Answers that are all errors, or all empty, would prove nothing.
#[test]
fn the_random_sequences_do_something() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let mut answers = Vec::new();
    let mut runner = TestRunner::deterministic();
    for _ in 0..40 {
        let steps = steps::sequences().new_tree(&mut runner).expect("a sequence").current();
        answers.extend(runtime.block_on(play(&MemoryStoreRig::new(), &steps)));
    }
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
    assert!(TimeDelta::zero() < play::LEASE, "leases have a length");
}
