//! The contract of [`RateLimiter`].

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::TimeDelta;
use marketplace::ports::{Bucket, LimitKey, Party, RateLimiter, Taken};

pub mod clocks;
pub mod playing;
pub mod taking;

/// A limiter and its time.
pub trait LimiterRig: Send + Sync {
    /// The limiter; every call gives the same.
    fn limiter(&self) -> Arc<dyn RateLimiter>;

    /// Lets time pass for the limiter, beside what passes by itself.
    fn advance(&self, by: Duration);

    /// Sets the clock on the wall, by which a limiter may go.
    fn set_clock(&self, by: TimeDelta);

    /// Whether a refusal tells the very moment of the next token. A limiter of two parts knows it of one of them; it keeps
    /// the rules that say nothing of such moments.
    fn tells_exactly(&self) -> bool {
        true
    }
}

// The one list of the rules: add a rule here, under the file it is in.
handover_contract::rules! { limiter_rules: LimiterRig;
    taking: [
        a_bucket_holds_what_it_says_and_no_more,
        every_party_and_route_has_a_bucket_of_its_own,
        a_refusal_says_when_there_is_a_token,
        a_refusal_costs_nothing,
        a_bucket_fills_at_its_pace_and_no_further_than_full,
        of_many_at_once_no_more_are_let_in_than_the_bucket_holds,
    ]
    clocks: [
        a_clock_set_back_keeps_no_bucket_empty,
        a_clock_set_back_gives_nothing,
        a_clock_set_forward_gives_one_full_bucket_at_most,
    ]
    playing: [
        in_no_stretch_of_time_more_is_handed_out_than_bucket_and_pace_allow,
    ]
}

/// A token takes so long that what a rule takes by itself does not count.
pub(crate) const SLOW: Duration = Duration::from_secs(400);

/// A bucket that fills slowly.
pub(crate) fn slow(capacity: u32) -> Bucket {
    let us = u64::try_from(SLOW.as_micros()).expect("it is minutes");
    Bucket::new(NonZeroU32::new(capacity).expect("a bucket holds something"), us).expect("a bucket")
}

/// A key that nobody else uses.
pub(crate) fn fresh_key() -> LimitKey {
    static USED: AtomicI64 = AtomicI64::new(1);
    let user = USED.fetch_add(1, Ordering::Relaxed);
    let party = Party::User(1.try_into().expect("a tenant"), user.try_into().expect("a user"));
    LimitKey { route: Arc::from("POST /api/v1/orders"), party }
}

pub(crate) async fn take(rig: &dyn LimiterRig, key: &LimitKey, bucket: Bucket) -> Taken {
    rig.limiter().take(key, bucket).await
}

/// How many are handed out until one is refused.
pub(crate) async fn drain(rig: &dyn LimiterRig, key: &LimitKey, bucket: Bucket) -> u32 {
    let mut taken = 0;
    while let Taken::Token { .. } = take(rig, key, bucket).await {
        taken += 1;
        assert!(taken <= 2 * bucket.capacity().get(), "it does not end");
    }
    taken
}

/// How long until there is a token, of an empty bucket.
pub(crate) async fn refused(rig: &dyn LimiterRig, key: &LimitKey, bucket: Bucket) -> Duration {
    match take(rig, key, bucket).await {
        Taken::Refused { retry_after } => retry_after,
        taken @ Taken::Token { .. } => panic!("an empty bucket gave {taken:?}"),
    }
}
