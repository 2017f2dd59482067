//! Clock and random numbers of the operating system.

use std::collections::BTreeSet;
use std::time::Duration;

use chrono::TimeDelta;
use handover_memory::SeededRandom;
use handover_outbox::ports::{Clock, RandomSource};
use handover_system::{EntropyError, FollowingClock, OsRandom, SystemClock, secret_bytes};

/// Computes the state from which SplitMix64 generated this number, by inverting the steps of SplitMix64.
fn splitmix64_state_of(number: u64) -> u64 {
    let mut state = number ^ (number >> 31) ^ (number >> 62);
    state = state.wrapping_mul(0x3196_42B2_D24D_8EC3);
    state ^= (state >> 27) ^ (state >> 54);
    state = state.wrapping_mul(0x96DE_1B17_3F11_9089);
    state ^ (state >> 30) ^ (state >> 60)
}

#[test]
fn os_random_generates_splitmix64_sequence() -> Result<(), EntropyError> {
    let random = OsRandom::seeded()?;
    let reference = SeededRandom::new(splitmix64_state_of(random.next()));
    for _ in 0..1000 {
        assert_eq!(random.next(), reference.next());
    }
    Ok(())
}

#[test]
fn seeds_and_secrets_differ_between_calls() -> Result<(), EntropyError> {
    assert_ne!(OsRandom::seeded()?.next(), OsRandom::seeded()?.next());
    assert_ne!(secret_bytes::<32>()?, secret_bytes::<32>()?);
    Ok(())
}

#[test]
fn os_random_generates_distinct_numbers_in_two_threads() -> Result<(), EntropyError> {
    let random = OsRandom::seeded()?;
    let numbers = || (0..10_000).map(|_| random.next()).collect::<Vec<_>>();
    let (mut one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(numbers);
        (numbers(), other.join().unwrap())
    });
    one.extend(two);
    assert_eq!(one.iter().collect::<BTreeSet<_>>().len(), one.len());
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn following_clock_adopts_offset_corrected_by_half_round_trip() {
    let clock = FollowingClock::default();
    let requested = clock.now();
    let received = requested + TimeDelta::milliseconds(10);
    let ahead = TimeDelta::seconds(90);
    assert_eq!(clock.follow(requested, requested + TimeDelta::milliseconds(3), received), None);
    // The clock assumes that the server read its time in the middle of the round trip.
    let moved = clock.follow(requested, requested + ahead, received).unwrap();
    assert_eq!(moved, ahead - TimeDelta::milliseconds(5));
    assert_eq!(clock.now(), requested + moved);
    assert_eq!(clock.follow(requested, requested + ahead, received), None);
    assert!(clock.follow(requested, requested - ahead, received).unwrap() < -ahead);
    assert!(clock.now() < requested);
}

/// The clock of this machine does not advance with the paused clock of the runtime.
#[tokio::test(start_paused = true)]
async fn following_clock_advances_by_the_time_that_passes_and_not_with_the_clock_of_the_machine() {
    let clock = FollowingClock::default();
    let before = clock.now();
    tokio::time::advance(Duration::from_secs(3_600)).await;
    assert_eq!(clock.now() - before, TimeDelta::hours(1));
    let sampled = clock.now() + TimeDelta::seconds(90);
    clock.sample(async { Ok::<_, std::convert::Infallible>(sampled) }).await.unwrap();
    assert_eq!(clock.now(), sampled);
}

#[test]
fn system_clock_truncates_to_microseconds() {
    for _ in 0..1000 {
        let now = SystemClock.now();
        assert_eq!(now.timestamp_subsec_nanos() % 1000, 0, "{now}");
    }
}

#[tokio::test]
async fn sleep_lasts_at_least_the_requested_time() {
    let before = SystemClock.now();
    SystemClock.sleep(Duration::from_millis(20)).await;
    assert!(SystemClock.now() - before >= TimeDelta::milliseconds(19));
}
