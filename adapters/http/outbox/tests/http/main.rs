//! Tests of the toolkit's HTTP crate in applications of their own.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod columns;
mod keys;
mod operators;
mod tokens;
mod webhooks;

use chrono::{DateTime, TimeZone, Utc};

pub(crate) const SECRET: &[u8] = b"a secret of at least thirty-two bytes";

pub(crate) fn start() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 1, 31, 8, 0, 0).unwrap()
}
