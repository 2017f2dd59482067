//! No seed violates an invariant, and the seeds reach all critical situations.

use std::hash::{BuildHasher, Hasher};
use std::time::Instant;

use handover_simulator::campaign::{self, RunTotals};
use handover_simulator::{Profile, Run, play};

use crate::long;

pub(crate) fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs a range of seeds; panics with the shortened run of a seed that violates an invariant.
fn assert_no_violations(profile: Profile, seeds: std::ops::Range<u64>) -> RunTotals {
    let begun = Instant::now();
    let totals = campaign::run(seeds, jobs(), |seed| play(Run::new(seed, profile)), || {});
    if let Some(seed) = totals.failed {
        panic!("{}", campaign::report(seed, profile, &campaign::shortest(seed, profile, play)));
    }
    let (seconds, name) = (begun.elapsed().as_secs_f64(), profile.name());
    println!(
        "{name}: {} seeds, {} orders, {} events, {:.0} seeds/s",
        totals.seeds,
        totals.orders,
        totals.events,
        totals.seeds as f64 / seconds
    );
    totals
}

#[test]
fn regression_seeds_violate_no_invariant() {
    for (seed, profile) in campaign::regressions() {
        assert_no_violations(profile, seed..seed + 1);
    }
}

/// The first seed and the number of seeds: fixed in CI, random with `--long`.
fn seeds() -> (u64, u64) {
    let fresh = || std::hash::RandomState::new().build_hasher().finish() >> 32;
    if long() { (fresh(), 25_000) } else { (0, 500) }
}

#[test]
fn seeds_violate_no_invariant_and_reach_full_coverage() {
    let (first, seeds) = seeds();
    println!("first seed: {first}");
    let mut all = RunTotals::default();
    for profile in Profile::ALL {
        let totals = assert_no_violations(profile, first..first + seeds);
        let missing = totals.coverage.rarer_than(totals.seeds.div_ceil(1_000));
        assert!(
            missing.is_empty(),
            "{} seeds of {} have these faults too rarely: {missing:#?}",
            totals.seeds,
            profile.name()
        );
        all.join(&totals);
    }
    println!("{}", all.coverage);
    let missing = all.coverage.missing();
    assert!(missing.is_empty(), "{} seeds never reached these faults or situations: {missing:#?}", all.seeds);
    let orders = all.orders as f64 / all.seeds as f64;
    assert!((6.0..20.0).contains(&orders), "a seed has {orders:.1} orders on average, expected 6 to 20");
}

#[test]
fn run_with_shortened_fault_phase_equals_whole_run_up_to_end_of_phase() {
    for profile in Profile::ALL {
        let whole = play(Run { story: true, ..Run::new(3, profile) });
        let until = whole.fault_duration / 2;
        let half = play(Run { story: true, until: Some(until), ..Run::new(3, profile) });
        let healed = half.story.iter().position(|line| line.what.contains("faults end")).unwrap();
        assert!(healed > 20, "{healed} lines");
        assert_eq!(half.story.get(..healed), whole.story.get(..healed), "{profile:?}");
    }
}
