//! The contract of [`RateLimiter`].

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use chrono::TimeDelta;
use marketplace::ports::{Bucket, LimitKey, Party, RateLimitDecision, RateLimiter};

pub mod clocks;
pub mod random_sequences;
pub mod taking;

/// A limiter under test, and control of its clocks.
pub trait LimiterRig: Send + Sync {
    /// The limiter; every call returns the same instance.
    fn limiter(&self) -> Arc<dyn RateLimiter>;

    /// Advances the limiter's time, in addition to real time.
    fn advance(&self, by: Duration);

    /// Changes the system clock, which a limiter may use, by this amount.
    fn set_clock(&self, by: TimeDelta);

    /// Whether a refusal reports the exact wait for the next token. A limiter that consists of two limiters with
    /// separate clocks does not; it is tested only with the rules that do not depend on exact waits.
    fn reports_exact_wait(&self) -> bool {
        true
    }
}

// The list of all rules: add each rule here, under the name of its file.
handover_contract::rules! { limiter_rules: LimiterRig;
    taking: [
        bucket_grants_exactly_its_capacity,
        each_party_and_route_has_a_separate_bucket,
        refusal_reports_wait_for_next_token,
        refusal_does_not_delay_next_token,
        bucket_refills_at_its_rate_up_to_capacity,
        concurrent_requests_get_at_most_the_capacity,
    ]
    clocks: [
        clock_set_back_does_not_stop_refill,
        clock_set_back_adds_no_tokens,
        clock_set_forward_adds_at_most_one_full_bucket,
    ]
    random_sequences: [
        granted_tokens_never_exceed_capacity_and_rate,
    ]
}

/// Interval between tokens; the run time of a rule is negligible in comparison.
pub(crate) const SLOW: Duration = Duration::from_secs(400);

/// A bucket that gains one token per [`SLOW`].
pub(crate) fn slow(capacity: u32) -> Bucket {
    let us = u64::try_from(SLOW.as_micros()).expect("400 s in microseconds must fit into 64 bits");
    Bucket::new(NonZeroU32::new(capacity).expect("a capacity of at least 1"), us).expect("a valid bucket")
}

/// A key that no other rule uses.
pub(crate) fn fresh_key() -> LimitKey {
    static USED: AtomicI64 = AtomicI64::new(1);
    let user = USED.fetch_add(1, Ordering::Relaxed);
    let party = Party::User(1.try_into().expect("a tenant"), user.try_into().expect("a user"));
    LimitKey { route: Arc::from("POST /api/v1/orders"), party }
}

pub(crate) async fn take(rig: &dyn LimiterRig, key: &LimitKey, bucket: Bucket) -> RateLimitDecision {
    rig.limiter().take(key, bucket).await
}

/// Takes tokens until the limiter refuses; returns the number of tokens taken.
pub(crate) async fn drain(rig: &dyn LimiterRig, key: &LimitKey, bucket: Bucket) -> u32 {
    let mut taken = 0;
    while let RateLimitDecision::Token { .. } = take(rig, key, bucket).await {
        taken += 1;
        assert!(taken <= 2 * bucket.capacity().get(), "{taken} tokens were granted without a refusal");
    }
    taken
}

/// Requests a token from an empty bucket; returns the wait that the refusal reports.
pub(crate) async fn refused(rig: &dyn LimiterRig, key: &LimitKey, bucket: Bucket) -> Duration {
    match take(rig, key, bucket).await {
        RateLimitDecision::Refused { retry_after } => retry_after,
        taken @ RateLimitDecision::Token { .. } => panic!("expected a refusal, got {taken:?}"),
    }
}
