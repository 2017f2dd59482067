//! Tests of events: envelope, ids, states, partitions and retry policies.
//!
//! Random cases use a new seed in each run, unless `PROPTEST_RNG_SEED` is set.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed precondition ends the test")]

use chrono::{DateTime, Utc};
use proptest::prelude::*;

mod aggregate;
mod envelope;
mod event_type;
mod fields;
mod ids;
mod json;
mod outbox;
mod retry;
mod trace;

fn at(text: &str) -> DateTime<Utc> {
    text.parse().expect("an RFC 3339 time")
}

/// Any time that RFC 3339 can represent, with microsecond precision.
fn times() -> impl Strategy<Value = DateTime<Utc>> {
    let first = at("0000-01-01T00:00:00Z").timestamp();
    let last = at("9999-12-31T23:59:59Z").timestamp();
    (first..=last, prop_oneof![Just(0), Just(500_000u32), 0..1_000_000u32]).prop_map(|(seconds, micros)| {
        DateTime::from_timestamp(seconds, micros * 1_000).expect("the time is in the range of RFC 3339")
    })
}
