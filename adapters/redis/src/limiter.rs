//! Token buckets shared by all processes: one script, by the clock of the server.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use marketplace::LIMIT_FALLBACK;
use marketplace::ports::{Bucket, LimitKey, RateLimitDecision, RateLimiter};
use redis::Script;
use redis::aio::MultiplexedConnection;

use crate::link::{Deadline, RedisConnection, RedisUnavailable};

static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("take.lua")));

/// Key prefix of buckets (seed 003).
const PREFIX: &str = "ratelimit:";

/// Rate limiter shared by all processes that use the same Redis server.
///
/// Each request first takes a token of the local bucket of this process. Most requests of a flood are rejected there
/// and do not reach Redis. If Redis becomes unavailable, loses its data or returns invalid responses, the local bucket
/// still limits the requests.
pub struct RedisLimiter {
    local: Arc<dyn RateLimiter>,
    link: Arc<RedisConnection>,
    /// Offset added to the clock of the server, in microseconds.
    clock_ahead_us: Box<dyn Fn() -> i64 + Send + Sync>,
}

impl RedisLimiter {
    /// Creates a limiter on this connection; while the connection is unavailable, only `local` decides.
    pub fn new(link: Arc<RedisConnection>, local: Arc<dyn RateLimiter>) -> RedisLimiter {
        RedisLimiter { local, link, clock_ahead_us: Box::new(|| 0) }
    }

    /// Adds an offset to the clock of the server, for tests of clock changes.
    #[must_use]
    pub fn with_clock_ahead(self, us: impl Fn() -> i64 + Send + Sync + 'static) -> RedisLimiter {
        RedisLimiter { clock_ahead_us: Box::new(us), ..self }
    }

    /// Whether the shared buckets in Redis are in use at the moment.
    pub fn is_shared(&self) -> bool {
        self.link.is_available()
    }
}

#[async_trait]
impl RateLimiter for RedisLimiter {
    async fn take(&self, key: &LimitKey, bucket: Bucket) -> RateLimitDecision {
        let local = self.local.take(key, bucket).await;
        let RateLimitDecision::Token { .. } = local else { return local };
        if let Some(connection) = self.link.connection() {
            let name = format!("{PREFIX}{key}");
            match shared(
                connection.handle.clone(),
                &name,
                bucket,
                (self.clock_ahead_us)(),
                self.link.deadline(),
            )
            .await
            {
                Ok(taken) => return taken,
                Err(error) => self.link.disable(&connection, &error),
            }
        }
        metrics::counter!(LIMIT_FALLBACK).increment(1);
        local
    }
}

/// Takes a token of a shared bucket in Redis.
async fn shared(
    mut connection: MultiplexedConnection,
    name: &str,
    bucket: Bucket,
    clock_ahead_us: i64,
    mut deadline: Deadline<'_>,
) -> Result<RateLimitDecision, RedisUnavailable> {
    let every_us = u64::try_from(bucket.refill_interval().as_micros()).unwrap_or(u64::MAX);
    let mut script = TAKE.key(name);
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
    // One token per second, so that the bucket of the check expires soon.
    let bucket = Bucket::new(std::num::NonZeroU32::MIN, 1_000_000)
        .map_err(|error| RedisUnavailable::from(redis::RedisError::from(std::io::Error::other(error))))?;
    let deadline = Deadline::in_real_time(timeout);
    shared(connection, &format!("{PREFIX}probe"), bucket, 0, deadline).await.map(drop)
}
