//! Random sequences of operations on a bucket.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use marketplace::ports::{Bucket, RateLimitDecision};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::{LimiterRig, fresh_key};

/// An operation on a bucket or its clocks.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Requests this many tokens.
    Take(u32),
    /// Advances the time by this many microseconds.
    Wait(u32),
    /// Moves the system clock by this many seconds, forward or back.
    SetClock(i32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (1..12u32).prop_map(Step::Take),
        5 => prop_oneof![Just(0), 1..2_000u32, 1..5_000_000u32].prop_map(Step::Wait),
        1 => prop_oneof![-100_000..100_000i32, -2..2i32].prop_map(Step::SetClock),
    ]
}

fn bucket() -> impl Strategy<Value = Bucket> {
    (1..20u32, prop_oneof![1..100u64, 1..1_000_000u64, Just(333_334u64)]).prop_map(|(capacity, every_us)| {
        Bucket::new(NonZeroU32::new(capacity).expect("at least 1"), every_us).expect("a valid bucket")
    })
}

/// A granted token, and the interval in which it was granted.
#[derive(Debug, Clone, Copy)]
struct GrantedToken {
    from: Duration,
    to: Duration,
    /// Number of times that the clock had been set forward before the token was granted.
    set_forward: u32,
}

/// In random sequences of requests and clock changes, the number of tokens granted in an interval is at most the
/// capacity plus the tokens added in that time. Setting the clock forward may add one full bucket each time. A client
/// that waits for the reported time is not refused, if the limiter reports exact waits.
pub async fn granted_tokens_never_exceed_capacity_and_rate(rig: &dyn LimiterRig) {
    let mut runner = TestRunner::deterministic();
    let cases = if handover_contract::long() { 1_000 } else { 100 };
    for _ in 0..cases {
        let case = (bucket(), vec(step(), 1..40), any::<bool>());
        let (bucket, steps, patient) = case.new_tree(&mut runner).expect("a test case").current();
        play(rig, bucket, &steps, patient).await;
    }
}

async fn play(rig: &dyn LimiterRig, bucket: Bucket, steps: &[Step], patient: bool) {
    let key = fresh_key();
    let limiter = rig.limiter();
    let started = Instant::now();
    let mut granted = Vec::<GrantedToken>::new();
    let mut waited = Duration::ZERO;
    let mut set_forward = 0;
    for step in steps {
        match *step {
            Step::Wait(us) => {
                let by = Duration::from_micros(us.into());
                rig.advance(by);
                waited += by;
            }
            Step::SetClock(seconds) => {
                rig.set_clock(TimeDelta::seconds(seconds.into()));
                set_forward += u32::from(seconds > 0);
            }
            Step::Take(times) => {
                for _ in 0..times {
                    let from = started.elapsed() + waited;
                    match limiter.take(&key, bucket).await {
                        RateLimitDecision::Token { remaining } => {
                            assert!(remaining < bucket.capacity().get());
                            granted.push(GrantedToken { from, to: started.elapsed() + waited, set_forward });
                        }
                        RateLimitDecision::Refused { retry_after } => {
                            assert!(!retry_after.is_zero() && retry_after <= bucket.refill_interval());
                            if patient && rig.reports_exact_wait() {
                                rig.advance(retry_after);
                                waited += retry_after;
                                let taken = limiter.take(&key, bucket).await;
                                let to = started.elapsed() + waited;
                                granted.push(GrantedToken { from: from + retry_after, to, set_forward });
                                assert!(
                                    matches!(taken, RateLimitDecision::Token { .. }),
                                    "{bucket:?} {steps:?}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }
    check(&granted, bucket, steps);
}

fn check(granted: &[GrantedToken], bucket: Bucket, steps: &[Step]) {
    let full = bucket.capacity().get() as usize;
    for (first, early) in granted.iter().enumerate() {
        for (last, late) in granted.iter().enumerate().skip(first) {
            let fills = 1 + (late.set_forward - early.set_forward) as usize;
            // The longest possible interval between the grants of the tokens `early` and `late`.
            let elapsed = late.to - early.from;
            let refilled = (elapsed.as_nanos() / bucket.refill_interval().as_nanos()) as usize;
            let count = last - first + 1;
            assert!(
                count <= full * fills + refilled,
                "{count} tokens within {elapsed:?} exceed {bucket:?}, clock set forward {} times: {steps:?}",
                fills - 1
            );
        }
    }
}
