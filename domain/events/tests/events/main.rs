//! The rules of events: how they are written and read, where they stand, and when a failed attempt is made again.
//!
//! Random cases have a fresh seed in each run, unless `PROPTEST_RNG_SEED` names one.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test that cannot go on ends there")]

use chrono::{DateTime, Utc};
use proptest::prelude::*;

mod envelope;
mod ids;
mod outbox;
mod retry;

fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect("an RFC 3339 time")
}

/// Every moment that RFC 3339 can write, with or without a fraction, to the microsecond: so exact are ours.
fn times() -> impl Strategy<Value = DateTime<Utc>> {
    let first = at("0000-01-01T00:00:00Z").timestamp();
    let last = at("9999-12-31T23:59:59Z").timestamp();
    (first..=last, prop_oneof![Just(0), Just(500_000u32), 0..1_000_000u32]).prop_map(|(seconds, micros)| {
        DateTime::from_timestamp(seconds, micros * 1_000).expect("a moment in range")
    })
}
