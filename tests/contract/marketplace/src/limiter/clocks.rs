//! Rules for system clocks that are set back or forward.

use chrono::TimeDelta;

use super::{LimiterRig, SLOW, drain, fresh_key, refused, slow, take};
use marketplace::ports::Taken;

fn day() -> TimeDelta {
    TimeDelta::days(1)
}

/// After the clock was set back, the wait for the next token is not longer than usual.
pub async fn a_clock_set_back_keeps_no_bucket_empty(rig: &dyn LimiterRig) {
    let key = fresh_key();
    let bucket = slow(2);
    drain(rig, &key, bucket).await;
    rig.set_clock(-day());
    let wait = refused(rig, &key, bucket).await;
    assert!(wait <= SLOW, "{wait:?}");
    rig.advance(wait);
    assert!(matches!(take(rig, &key, bucket).await, Taken::Token { .. }));
    // The same for a bucket that was used before but is not empty.
    let key = fresh_key();
    take(rig, &key, bucket).await;
    rig.set_clock(-day());
    assert_eq!(drain(rig, &key, bucket).await, 1);
    rig.advance(2 * SLOW);
    assert_eq!(drain(rig, &key, bucket).await, 2);
}

/// Setting the clock back adds no tokens.
pub async fn a_clock_set_back_gives_nothing(rig: &dyn LimiterRig) {
    let key = fresh_key();
    let bucket = slow(3);
    drain(rig, &key, bucket).await;
    for _ in 0..3 {
        rig.set_clock(-day());
        refused(rig, &key, bucket).await;
    }
}

/// Setting the clock forward by any amount fills a bucket at most once.
pub async fn a_clock_set_forward_gives_one_full_bucket_at_most(rig: &dyn LimiterRig) {
    let key = fresh_key();
    let bucket = slow(3);
    drain(rig, &key, bucket).await;
    rig.set_clock(day() * 30);
    assert!(drain(rig, &key, bucket).await <= 3);
    refused(rig, &key, bucket).await;
}
