//! Time and chance of the operating system.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::TimeDelta;
use handover_memory::SeededChance;
use handover_outbox::ports::{Chance, Clock};
use handover_system::{FollowingClock, NoEntropy, OsChance, SystemClock, secret_bytes};

/// The state from which SplitMix64 made this number: its steps undone, the last one first.
fn state_behind(number: u64) -> u64 {
    let mut state = number ^ (number >> 31) ^ (number >> 62);
    state = state.wrapping_mul(0x3196_42B2_D24D_8EC3);
    state ^= (state >> 27) ^ (state >> 54);
    state = state.wrapping_mul(0x96DE_1B17_3F11_9089);
    state ^ (state >> 30) ^ (state >> 60)
}

#[test]
fn the_numbers_are_those_of_splitmix64() -> Result<(), NoEntropy> {
    let chance = OsChance::seeded()?;
    let reference = SeededChance::new(state_behind(chance.next()));
    for _ in 0..1000 {
        assert_eq!(chance.next(), reference.next());
    }
    Ok(())
}

#[test]
fn two_seeds_differ() -> Result<(), NoEntropy> {
    assert_ne!(OsChance::seeded()?.next(), OsChance::seeded()?.next());
    assert_ne!(secret_bytes::<32>()?, secret_bytes::<32>()?);
    Ok(())
}

#[test]
fn no_number_comes_twice_from_two_threads() -> Result<(), NoEntropy> {
    let chance = OsChance::seeded()?;
    let numbers = || (0..10_000).map(|_| chance.next()).collect::<Vec<_>>();
    let (mut one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(numbers);
        (numbers(), other.join().unwrap())
    });
    one.extend(two);
    assert_eq!(one.iter().collect::<BTreeSet<_>>().len(), one.len());
    Ok(())
}

#[test]
fn a_clock_follows_another_and_is_not_moved_by_the_way_there_and_back() {
    let clock = FollowingClock::default();
    let asked = SystemClock.now();
    let answered = asked + TimeDelta::milliseconds(10);
    let ahead = TimeDelta::seconds(90);
    assert_eq!(clock.follow(asked, asked + TimeDelta::milliseconds(3), answered), None);
    // The sample is taken for the middle between question and answer.
    let moved = clock.follow(asked, asked + ahead, answered).unwrap();
    assert_eq!(moved, ahead - TimeDelta::milliseconds(5));
    let before = SystemClock.now();
    let told = clock.now();
    let after = SystemClock.now();
    assert!((before + moved..=after + moved).contains(&told), "{told} between {before} and {after}");
    assert_eq!(clock.follow(asked, asked + ahead, answered), None);
    assert!(clock.follow(asked, asked - ahead, answered).unwrap() < -ahead);
    assert!(clock.now() < SystemClock.now());
}

#[test]
fn now_is_cut_to_microseconds() {
    for _ in 0..1000 {
        let now = SystemClock.now();
        assert_eq!(now.timestamp_subsec_nanos() % 1000, 0, "{now}");
    }
}

#[tokio::test]
async fn a_sleep_is_never_shorter_than_asked() {
    let before = SystemClock.now();
    SystemClock.sleep(Duration::from_millis(20)).await;
    assert!(SystemClock.now() - before >= TimeDelta::milliseconds(19));
}
