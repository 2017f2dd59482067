//! No seed breaks a promise, and the seeds go where it hurts.

use std::hash::{BuildHasher, Hasher};
use std::time::Instant;

use handover_simulator::campaign::{self, Tally};
use handover_simulator::{Profile, Run, play};

use crate::long;

fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Plays these seeds; a broken promise is told with its shortest story.
fn promises_hold(profile: Profile, seeds: std::ops::Range<u64>) -> Tally {
    let begun = Instant::now();
    let tally = campaign::run(seeds, jobs(), |seed| play(Run::new(seed, profile)), || {});
    if let Some(seed) = tally.failed {
        panic!("{}", campaign::report(seed, profile, &campaign::shortest(seed, profile, play)));
    }
    let (seconds, name) = (begun.elapsed().as_secs_f64(), profile.name());
    println!(
        "{name}: {} seeds, {} orders, {} events, {:.0} seeds/s",
        tally.seeds,
        tally.orders,
        tally.events,
        tally.seeds as f64 / seconds
    );
    tally
}

#[test]
fn seeds_that_once_broke_a_promise_break_none() {
    for (seed, profile) in campaign::regressions() {
        promises_hold(profile, seed..seed + 1);
    }
}

/// The first seed and how many: the same in each run of CI, fresh ones with `--long`.
fn seeds() -> (u64, u64) {
    let fresh = || u64::from(std::hash::RandomState::new().build_hasher().finish() as u32);
    if long() { (fresh(), 25_000) } else { (0, 1_000) }
}

#[test]
fn no_seed_breaks_a_promise_and_the_runs_go_where_it_hurts() {
    let (first, seeds) = seeds();
    println!("from seed {first}");
    let mut all = Tally::default();
    for profile in Profile::ALL {
        let tally = promises_hold(profile, first..first + seeds);
        let missing = tally.coverage.rarer_than(tally.seeds / 1_000);
        assert!(missing.is_empty(), "{} seeds of {} lack {missing:#?}", tally.seeds, profile.name());
        all.join(&tally);
    }
    println!("{}", all.coverage);
    let missing = all.coverage.missing();
    assert!(missing.is_empty(), "{} seeds never reached {missing:#?}", all.seeds);
    let orders = all.orders as f64 / all.seeds as f64;
    assert!((6.0..20.0).contains(&orders), "{orders:.1} orders a seed");
}

#[test]
fn a_prefix_of_trouble_is_the_same_run_up_to_there() {
    for profile in Profile::ALL {
        let whole = play(Run { story: true, ..Run::new(3, profile) });
        let until = whole.trouble / 2;
        let half = play(Run { story: true, until: Some(until), ..Run::new(3, profile) });
        let healed = half.story.iter().position(|line| line.what.contains("goes wrong any more")).unwrap();
        assert!(healed > 20, "{healed} lines");
        assert_eq!(half.story.get(..healed), whole.story.get(..healed), "{profile:?}");
    }
}
