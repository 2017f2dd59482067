//! The score of a buyer is computed from the counts (spec §2 "Buyer credit").

use marketplace_domain::{CancelReason, CreditCounts, CreditOutcome};
use proptest::prelude::*;

fn counts(completed: u32, cancelled_by_buyer: u32, cancelled_by_timeout: u32) -> CreditCounts {
    CreditCounts { completed, cancelled_by_buyer, cancelled_by_timeout }
}

#[test]
fn score_matches_the_specification() {
    let cases = [
        (counts(0, 0, 0), 100),
        (counts(1, 0, 0), 101),
        (counts(0, 1, 0), 98),
        (counts(0, 0, 1), 95),
        (counts(19, 0, 0), 119),
        (counts(20, 0, 0), 120),
        (counts(21, 0, 0), 120),
        (counts(0, 50, 0), 0),
        (counts(0, 51, 0), 0),
        (counts(0, 0, 20), 0),
        (counts(1, 0, 20), 1),
        // Only the total is clamped: completed orders that would raise it above 120 still offset deductions.
        (counts(30, 5, 0), 120),
        (counts(u32::MAX, 0, 0), 120),
        (counts(u32::MAX, u32::MAX, u32::MAX), 0),
    ];
    for (counts, score) in cases {
        assert_eq!(counts.score(), score, "{counts:?}");
    }
}

#[test]
fn cancellation_counts_only_if_the_buyer_caused_it() {
    let counted: Vec<_> = CancelReason::ALL.iter().map(|it| CreditOutcome::of_cancellation(*it)).collect();
    let names: Vec<_> = CancelReason::ALL.iter().map(|it| it.as_str()).collect();
    assert_eq!(names, ["buyer", "seller", "timeout", "asset_lock_failed", "payment_failed"]);
    let expected =
        [Some(CreditOutcome::CancelledByBuyer), None, Some(CreditOutcome::CancelledByTimeout), None, None];
    assert_eq!(counted, expected);
}

#[test]
fn outcome_names_are_frozen() {
    let names: Vec<_> = CreditOutcome::ALL.iter().map(|step| step.as_str()).collect();
    assert_eq!(names, ["COMPLETED", "CANCELLED_BY_BUYER", "CANCELLED_BY_TIMEOUT"]);
    for step in CreditOutcome::ALL {
        assert_eq!(step.as_str().parse(), Ok(*step));
    }
}

#[test]
fn count_saturates_at_its_maximum() {
    let full = counts(u32::MAX, 0, 0);
    assert_eq!(full.and(CreditOutcome::Completed), full);
}

fn steps() -> impl Strategy<Value = Vec<CreditOutcome>> {
    proptest::collection::vec(proptest::sample::select(CreditOutcome::ALL), 0..200)
}

proptest! {
    #[test]
    fn score_is_the_clamped_sum_of_outcomes_in_any_sequence(
        (steps, shuffled) in steps().prop_flat_map(|steps| (Just(steps.clone()), Just(steps).prop_shuffle()))
    ) {
        let of = |steps: &[CreditOutcome]| steps.iter().fold(CreditCounts::default(), |sum, step| sum.and(*step));
        let sum: i64 = steps.iter().map(|step| match step {
            CreditOutcome::Completed => 1,
            CreditOutcome::CancelledByBuyer => -2,
            CreditOutcome::CancelledByTimeout => -5,
        }).sum();
        prop_assert_eq!(i64::from(of(&steps).score()), (100 + sum).clamp(0, 120));
        prop_assert_eq!(of(&steps), of(&shuffled));
    }

    #[test]
    fn each_outcome_changes_the_score_only_in_its_direction(steps in steps()) {
        let now = steps.iter().fold(CreditCounts::default(), |sum, step| sum.and(*step));
        prop_assert!(now.and(CreditOutcome::Completed).score() >= now.score());
        prop_assert!(now.and(CreditOutcome::CancelledByBuyer).score() <= now.score());
        prop_assert!(now.and(CreditOutcome::CancelledByTimeout).score() <= now.and(CreditOutcome::CancelledByBuyer).score());
    }
}
