//! Token buckets that processes share: one script, by the clock of the server.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use async_trait::async_trait;
use marketplace::LIMIT_FALLBACK;
use marketplace::ports::{Bucket, LimitKey, RateLimiter, Taken};
use redis::Script;
use redis::aio::MultiplexedConnection;

use crate::link::{Deadline, Link, RedisAway};

static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("take.lua")));

/// What every bucket's key begins with (seed 003).
const PREFIX: &str = "ratelimit:";

/// Limits what all processes take that share a Redis.
///
/// Each request first takes a token of this process's own bucket, which is never emptier than the shared one: so a flood does
/// not reach Redis, and when Redis goes away, forgets everything or answers nonsense, this process goes on where it is.
pub struct RedisLimiter {
    own: Arc<dyn RateLimiter>,
    link: Arc<Link>,
    /// Added to the server's clock, in microseconds.
    clock_ahead_us: Box<dyn Fn() -> i64 + Send + Sync>,
}

impl RedisLimiter {
    /// On this connection; while it is not there, `own` decides alone.
    pub fn new(link: Arc<Link>, own: Arc<dyn RateLimiter>) -> RedisLimiter {
        RedisLimiter { own, link, clock_ahead_us: Box::new(|| 0) }
    }

    /// The same on a server whose clock is said to be ahead by so much, for tests of clocks that are set.
    #[must_use]
    pub fn with_clock_ahead(self, us: impl Fn() -> i64 + Send + Sync + 'static) -> RedisLimiter {
        RedisLimiter { clock_ahead_us: Box::new(us), ..self }
    }

    /// Whether Redis decides now.
    pub fn is_shared(&self) -> bool {
        self.link.is_there()
    }
}

#[async_trait]
impl RateLimiter for RedisLimiter {
    async fn take(&self, key: &LimitKey, bucket: Bucket) -> Taken {
        let own = self.own.take(key, bucket).await;
        let Taken::Token { .. } = own else { return own };
        if let Some(connection) = self.link.connection() {
            let name = format!("{PREFIX}{key}");
            match shared(connection.to.clone(), &name, bucket, (self.clock_ahead_us)(), self.link.deadline())
                .await
            {
                Ok(taken) => return taken,
                Err(away) => self.link.broken(&connection, &away),
            }
        }
        metrics::counter!(LIMIT_FALLBACK).increment(1);
        own
    }
}

/// Takes a token of a shared bucket.
async fn shared(
    mut connection: MultiplexedConnection,
    name: &str,
    bucket: Bucket,
    clock_ahead_us: i64,
    mut deadline: Deadline<'_>,
) -> Result<Taken, RedisAway> {
    let every_us = u64::try_from(bucket.token_every().as_micros()).unwrap_or(u64::MAX);
    let mut asked = TAKE.key(name);
    asked.arg(bucket.capacity().get()).arg(every_us).arg(clock_ahead_us);
    let answer = deadline.answered(asked.invoke_async::<(i64, i64)>(&mut connection)).await?;
    taken(answer, bucket, every_us).ok_or_else(|| RedisAway::nonsense(&answer))
}

/// What an answer of the script means, if it can be one.
fn taken((allowed, number): (i64, i64), bucket: Bucket, every_us: u64) -> Option<Taken> {
    match (allowed, u64::try_from(number).ok()?) {
        (1, left) => {
            let remaining = u32::try_from(left).ok().filter(|left| *left < bucket.capacity().get())?;
            Some(Taken::Token { remaining })
        }
        (0, wait_us @ 1..) if wait_us <= every_us => {
            Some(Taken::Refused { retry_after: Duration::from_micros(wait_us) })
        }
        _ => None,
    }
}

/// Whether a connection does what requests will ask of it: write, and be fast.
pub(crate) async fn tried_out(connection: MultiplexedConnection, within: Duration) -> Result<(), RedisAway> {
    // A second for a token: the bucket is gone soon.
    let bucket = Bucket::new(std::num::NonZeroU32::MIN, 1_000_000)
        .map_err(|error| RedisAway::from(redis::RedisError::from(std::io::Error::other(error))))?;
    let deadline = Deadline::in_real_time(within);
    shared(connection, &format!("{PREFIX}probe"), bucket, 0, deadline).await.map(drop)
}
