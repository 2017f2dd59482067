//! The script of the token buckets.

use std::fmt;
use std::sync::LazyLock;
use std::time::Duration;

use marketplace::ports::{Bucket, RateLimitDecision};
use redis::Script;
use redis::aio::MultiplexedConnection;

use crate::call::{Deadline, RedisUnavailable};

static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("take.lua")));

/// Key prefix of buckets.
const PREFIX: &str = "ratelimit:";

/// Takes a token of a shared bucket in Redis.
pub(crate) async fn take(
    mut connection: MultiplexedConnection,
    key: impl fmt::Display,
    bucket: Bucket,
    clock_ahead_us: i64,
    mut deadline: Deadline<'_>,
) -> Result<RateLimitDecision, RedisUnavailable> {
    let every_us = u64::try_from(bucket.refill_interval().as_micros()).unwrap_or(u64::MAX);
    let mut script = TAKE.key(format!("{PREFIX}{key}"));
    script.arg(bucket.capacity().get()).arg(every_us).arg(clock_ahead_us);
    let response = deadline.limit(script.invoke_async::<(i64, i64)>(&mut connection)).await?;
    decode(response, bucket, every_us).ok_or_else(|| RedisUnavailable::invalid_response(&response))
}

/// Decodes the response of the script; `None` if it is invalid.
fn decode((allowed, number): (i64, i64), bucket: Bucket, every_us: u64) -> Option<RateLimitDecision> {
    match (allowed, u64::try_from(number).ok()?) {
        (1, left) => {
            let remaining = u32::try_from(left).ok().filter(|left| *left < bucket.capacity().get())?;
            Some(RateLimitDecision::Token { remaining })
        }
        (0, wait_us @ 1..) if wait_us <= every_us => {
            Some(RateLimitDecision::Refused { retry_after: Duration::from_micros(wait_us) })
        }
        _ => None,
    }
}

/// Checks that a connection executes the script within a timeout.
pub(crate) async fn check(
    connection: MultiplexedConnection,
    timeout: Duration,
) -> Result<(), RedisUnavailable> {
    // The bucket of this check refills one token per second, so that its key expires soon.
    let bucket = Bucket::new(std::num::NonZeroU32::MIN, 1_000_000)
        .map_err(|error| RedisUnavailable::from(redis::RedisError::from(std::io::Error::other(error))))?;
    let deadline = Deadline::in_real_time(timeout);
    take(connection, "probe", bucket, 0, deadline).await.map(drop)
}
