//! Rules for system clocks that are set back or forward.

use chrono::TimeDelta;

use super::{LimiterRig, SLOW, drain, fresh_key, refused, slow, take};
use marketplace::ports::RateLimitDecision;

fn day() -> TimeDelta {
    TimeDelta::days(1)
}

/// After the clock was set back, the wait for the next token is at most the refill interval.
pub async fn clock_set_back_does_not_stop_refill(rig: &dyn LimiterRig) {
    let key = fresh_key();
    let bucket = slow(2);
    drain(rig, &key, bucket).await;
    rig.set_clock(-day());
    let wait = refused(rig, &key, bucket).await;
    assert!(wait <= SLOW, "{wait:?}");
    rig.advance(wait);
    assert!(matches!(take(rig, &key, bucket).await, RateLimitDecision::Token { .. }));
    // A used bucket that is not empty refills like an empty bucket.
    let key = fresh_key();
    take(rig, &key, bucket).await;
    rig.set_clock(-day());
    assert_eq!(drain(rig, &key, bucket).await, 1);
    rig.advance(2 * SLOW);
    assert_eq!(drain(rig, &key, bucket).await, 2);
}

pub async fn clock_set_back_adds_no_tokens(rig: &dyn LimiterRig) {
    let key = fresh_key();
    let bucket = slow(3);
    drain(rig, &key, bucket).await;
    for _ in 0..3 {
        rig.set_clock(-day());
        refused(rig, &key, bucket).await;
    }
}

/// Setting the clock forward by any amount fills a bucket at most once.
pub async fn clock_set_forward_adds_at_most_one_full_bucket(rig: &dyn LimiterRig) {
    let key = fresh_key();
    let bucket = slow(3);
    drain(rig, &key, bucket).await;
    rig.set_clock(day() * 30);
    assert!(drain(rig, &key, bucket).await <= 3);
    refused(rig, &key, bucket).await;
}
