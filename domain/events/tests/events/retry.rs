//! Retry policies: delays, jitter, and the final failure.

use std::num::NonZeroU32;
use std::time::Duration;

use handover_events::{Jitter, Retry, RetryPolicy, RetryPolicyError};
use proptest::prelude::*;

const HOUR: Duration = Duration::from_secs(3600);

fn nth(failures: u32) -> NonZeroU32 {
    NonZeroU32::new(failures).expect("failures are counted from 1")
}

fn seconds(all: &[u64]) -> Vec<Duration> {
    all.iter().copied().map(Duration::from_secs).collect()
}

fn schedule(delays: Vec<Duration>) -> RetryPolicy {
    RetryPolicy::Schedule { delays }
}

fn exponential(base: Duration, cap: Duration, max_attempts: u32, percent: u8) -> RetryPolicy {
    let jitter = Jitter::percent(percent).expect("at most 100");
    RetryPolicy::Exponential { base, cap, max_attempts: nth(max_attempts), jitter }
}

/// The delays up to the final failure. Checks that failure number `attempts` and two later ones are final.
fn delays(policy: &RetryPolicy, random: u64) -> Vec<Duration> {
    let mut delays = Vec::new();
    for failures in 1..policy.attempts() {
        match policy.after(nth(failures), random) {
            Retry::After(delay) => delays.push(delay),
            Retry::GiveUp => panic!("no retry after failure {failures} of {} attempts", policy.attempts()),
        }
    }
    for failures in [policy.attempts(), policy.attempts().saturating_add(1), u32::MAX] {
        assert_eq!(policy.after(nth(failures), random), Retry::GiveUp, "after {failures} failures");
    }
    delays
}

#[test]
fn outbox_default_waits_5_s_30_s_2_min_and_the_fourth_failure_is_final() {
    let policy = RetryPolicy::outbox_default();
    assert_eq!(policy.after(nth(1), 0), Retry::After(Duration::from_secs(5)));
    assert_eq!(policy.after(nth(2), 0), Retry::After(Duration::from_secs(30)));
    assert_eq!(policy.after(nth(3), 0), Retry::After(Duration::from_secs(120)));
    assert_eq!(policy.after(nth(4), 0), Retry::GiveUp);
    assert_eq!(policy.attempts(), 4);
    assert_eq!(policy.clone().checked(), Ok(policy));
}

#[test]
fn exponential_policy_with_5_attempts_doubles_the_delay_from_5_s() {
    let policy = exponential(Duration::from_secs(5), HOUR, 5, 0);
    assert_eq!(delays(&policy, 0), seconds(&[5, 10, 20, 40]));
}

#[test]
fn exponential_policy_with_10_attempts_doubles_the_delay_from_1_s() {
    let policy = exponential(Duration::from_secs(1), HOUR, 10, 0);
    assert_eq!(delays(&policy, 0), seconds(&[1, 2, 4, 8, 16, 32, 64, 128, 256]));
}

#[test]
fn consumer_policy_has_one_attempt_more_than_its_threshold() {
    let policy = RetryPolicy::consumer(Duration::from_millis(200), Duration::from_secs(5), 3);
    assert_eq!(delays(&policy, u64::MAX), [200, 400, 800].map(Duration::from_millis));
    let capped = RetryPolicy::consumer(Duration::from_millis(200), Duration::from_secs(5), 7);
    assert_eq!(delays(&capped, 0), [200, 400, 800, 1600, 3200, 5000, 5000].map(Duration::from_millis));
    let never = RetryPolicy::consumer(Duration::from_millis(200), Duration::from_secs(5), 0);
    assert_eq!(never.after(nth(1), 0), Retry::GiveUp);
    let most = RetryPolicy::consumer(Duration::from_millis(200), Duration::from_secs(5), u32::MAX);
    assert_eq!(most.attempts(), u32::MAX, "the number of attempts must not overflow");
}

#[test]
fn exponential_delay_is_at_most_one_hour_with_the_largest_cap() {
    let policy = exponential(Duration::from_secs(5), Duration::MAX, 40, 0);
    let delays = delays(&policy, 0);
    assert_eq!(delays[9], Duration::from_secs(2560));
    assert!(delays[10..].iter().all(|delay| *delay == HOUR));
    assert_eq!(RetryPolicy::MAX_DELAY, HOUR);
}

#[test]
fn longest_delay_is_the_largest_delay_of_the_policy() {
    assert_eq!(schedule(seconds(&[5, 30, 120])).longest_delay(), Duration::from_secs(120));
    let exponential = |cap| exponential(Duration::from_secs(1), Duration::from_secs(cap), 20, 50);
    assert_eq!(exponential(60).longest_delay(), Duration::from_secs(60));
    assert_eq!(exponential(u64::MAX).longest_delay(), RetryPolicy::MAX_DELAY);
}

#[test]
fn empty_schedule_makes_the_first_failure_final() {
    let policy = schedule(Vec::new()).checked().unwrap();
    assert_eq!(policy.attempts(), 1);
    assert_eq!(policy.after(nth(1), 0), Retry::GiveUp);
}

#[test]
fn policy_with_zero_or_decreasing_delay_is_rejected() {
    let none = Duration::ZERO;
    let second = Duration::from_secs(1);
    let minute = Duration::from_secs(60);
    let invalid = [
        (schedule(vec![none]), RetryPolicyError::ZeroDelay),
        (schedule(vec![none, second]), RetryPolicyError::ZeroDelay),
        (schedule(vec![second, none]), RetryPolicyError::ZeroDelay),
        (schedule(vec![minute, second]), RetryPolicyError::Shrinking),
        (schedule(vec![second, minute, second]), RetryPolicyError::Shrinking),
        (exponential(none, minute, 5, 0), RetryPolicyError::ZeroDelay),
        (exponential(none, none, 5, 0), RetryPolicyError::ZeroDelay),
        (exponential(minute, second, 5, 0), RetryPolicyError::CapBelowBase),
    ];
    for (policy, why) in invalid {
        assert_eq!(policy.clone().checked(), Err(why), "{policy:?}");
    }
    for policy in [
        schedule(vec![second, second, minute]),
        exponential(second, second, 1, 100),
        exponential(second, minute, u32::MAX, 20),
    ] {
        assert_eq!(policy.clone().checked(), Ok(policy));
    }
}

#[test]
fn jitter_above_100_percent_is_rejected() {
    assert_eq!(Jitter::percent(0), Ok(Jitter::NONE));
    assert!(Jitter::percent(100).is_ok());
    for percent in [101, 200, 255] {
        assert_eq!(Jitter::percent(percent), Err(RetryPolicyError::Jitter));
    }
}

#[test]
fn jitter_grows_with_the_random_number_from_0_to_the_configured_percentage() {
    let policy = exponential(Duration::from_secs(10), HOUR, 2, 20);
    let shortest = Duration::from_secs(8);
    assert_eq!(policy.after(nth(1), 0), Retry::After(Duration::from_secs(10)));
    assert_eq!(policy.after(nth(1), 1 << 63), Retry::After(Duration::from_secs(9)));
    let Retry::After(least) = policy.after(nth(1), u64::MAX) else {
        panic!("no retry after the first of two attempts")
    };
    assert!(least >= shortest && least < shortest + Duration::from_millis(1), "{least:?}");
}

fn durations() -> impl Strategy<Value = Duration> {
    prop_oneof![1..=5_000_000u64, 1..=7_200_000_000u64].prop_map(Duration::from_micros)
}

proptest! {
    #[test]
    fn schedule_is_followed_exactly(mut planned in prop::collection::vec(durations(), 0..12), random: u64) {
        planned.sort();
        let policy = schedule(planned.clone()).checked().unwrap();
        prop_assert_eq!(delays(&policy, random), planned);
    }

    #[test]
    fn schedule_is_valid_exactly_if_delays_do_not_decrease(
        planned in prop::collection::vec(durations(), 0..5),
    ) {
        prop_assert_eq!(schedule(planned.clone()).checked().is_ok(), planned.is_sorted());
    }

    #[test]
    fn without_jitter_each_delay_doubles_up_to_the_cap(
        base in durations(), cap in durations(), attempts in 1..=60u32, random: u64,
    ) {
        prop_assume!(base <= cap);
        let policy = exponential(base, cap, attempts, 0).checked().unwrap();
        let delays = delays(&policy, random);
        prop_assert!(delays.is_sorted());
        let mut expected = base.min(HOUR);
        for delay in delays {
            prop_assert_eq!(delay, expected);
            expected = (expected * 2).min(cap).min(HOUR);
        }
    }

    #[test]
    fn jitter_shortens_a_delay_by_at_most_the_configured_percentage(
        base in durations(), cap in durations(), percent in 0..=100u8, failures in 1..=59u32, random: u64,
    ) {
        prop_assume!(base <= cap);
        let nominal = exponential(base, cap, 60, 0).after(nth(failures), random);
        let jittered = exponential(base, cap, 60, percent).after(nth(failures), random);
        let (Retry::After(nominal), Retry::After(jittered)) = (nominal, jittered) else {
            panic!("no retry after failure {failures} of 60 attempts")
        };
        prop_assert!(jittered <= nominal && jittered <= cap);
        // One nanosecond of tolerance for rounding.
        let shortest_allowed = nominal.as_nanos() * u128::from(100 - percent) / 100;
        prop_assert!(jittered.as_nanos() + 1 >= shortest_allowed, "{:?} of {:?}", jittered, nominal);
    }

    #[test]
    fn same_random_number_gives_the_same_delay(failures in 1..=60u32, percent in 0..=100u8, random: u64) {
        let policy = exponential(Duration::from_secs(5), HOUR, 50, percent);
        prop_assert_eq!(policy.after(nth(failures), random), policy.after(nth(failures), random));
    }

    #[test]
    fn failure_is_final_exactly_if_no_attempt_is_left(
        failures in 1..=u32::MAX, attempts in 1..=u32::MAX, percent in 0..=100u8, random: u64,
    ) {
        let policy = exponential(Duration::from_secs(5), Duration::MAX, attempts, percent);
        let is_final = policy.after(nth(failures), random) == Retry::GiveUp;
        prop_assert_eq!(is_final, failures >= attempts);
    }
}
