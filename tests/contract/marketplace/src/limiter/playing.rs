//! Random days of a bucket.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use marketplace::ports::{Bucket, Taken};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::{LimiterRig, fresh_key};

/// What happens to a bucket.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Somebody asks that often.
    Ask(u32),
    /// So much time passes, in microseconds.
    Wait(u32),
    /// Somebody sets the clock, by so many seconds.
    Set(i32),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (1..12u32).prop_map(Step::Ask),
        5 => prop_oneof![Just(0), 1..2_000u32, 1..5_000_000u32].prop_map(Step::Wait),
        1 => prop_oneof![-100_000..100_000i32, -2..2i32].prop_map(Step::Set),
    ]
}

fn bucket() -> impl Strategy<Value = Bucket> {
    (1..20u32, prop_oneof![1..100u64, 1..1_000_000u64, Just(333_334u64)]).prop_map(|(capacity, every_us)| {
        Bucket::new(NonZeroU32::new(capacity).expect("from 1"), every_us).expect("a bucket")
    })
}

/// A token that was handed out: not before and not after these moments.
#[derive(Debug, Clone, Copy)]
struct Handed {
    from: Duration,
    to: Duration,
    /// How often the clock had been set forward.
    set_forward: u32,
}

/// Whatever is asked and however clocks are set, between any two tokens lies the time that is needed for those between
/// them, but for what the bucket held, and holds once more after each time that a clock was set forward. And who waits
/// as long as it is told is not refused.
pub async fn in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow(rig: &dyn LimiterRig) {
    let mut runner = TestRunner::deterministic();
    let cases = if handover_contract::long() { 1_000 } else { 100 };
    for _ in 0..cases {
        let day = (bucket(), vec(step(), 1..40), any::<bool>());
        let (bucket, steps, patient) = day.new_tree(&mut runner).expect("a day").current();
        play(rig, bucket, &steps, patient).await;
    }
}

async fn play(rig: &dyn LimiterRig, bucket: Bucket, steps: &[Step], patient: bool) {
    let (key, limiter, began) = (fresh_key(), rig.limiter(), Instant::now());
    let (mut handed, mut waited, mut set_forward) = (Vec::<Handed>::new(), Duration::ZERO, 0);
    for step in steps {
        match *step {
            Step::Wait(us) => {
                let by = Duration::from_micros(us.into());
                rig.advance(by);
                waited += by;
            }
            Step::Set(seconds) => {
                rig.set_clock(TimeDelta::seconds(seconds.into()));
                set_forward += u32::from(seconds > 0);
            }
            Step::Ask(times) => {
                for _ in 0..times {
                    let from = began.elapsed() + waited;
                    match limiter.take(&key, bucket).await {
                        Taken::Token { remaining } => {
                            assert!(remaining < bucket.capacity().get());
                            handed.push(Handed { from, to: began.elapsed() + waited, set_forward });
                        }
                        Taken::Refused { retry_after } => {
                            assert!(!retry_after.is_zero() && retry_after <= bucket.token_every());
                            if patient && rig.tells_exactly() {
                                rig.advance(retry_after);
                                waited += retry_after;
                                let taken = limiter.take(&key, bucket).await;
                                let to = began.elapsed() + waited;
                                handed.push(Handed { from: from + retry_after, to, set_forward });
                                assert!(matches!(taken, Taken::Token { .. }), "{bucket:?} {steps:?}");
                            }
                        }
                    }
                }
            }
        }
    }
    check(&handed, bucket, steps);
}

fn check(handed: &[Handed], bucket: Bucket, steps: &[Step]) {
    let full = bucket.capacity().get() as usize;
    for (first, early) in handed.iter().enumerate() {
        for (last, late) in handed.iter().enumerate().skip(first) {
            let fills = 1 + (late.set_forward - early.set_forward) as usize;
            // At the longest.
            let passed = late.to - early.from;
            let grown = (passed.as_nanos() / bucket.token_every().as_nanos()) as usize;
            let count = last - first + 1;
            assert!(
                count <= full * fills + grown,
                "{count} within {passed:?} of {bucket:?}, set forward {} times: {steps:?}",
                fills - 1
            );
        }
    }
}
