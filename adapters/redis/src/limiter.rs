//! Token buckets shared by all processes: one script, by the clock of the server.

use std::sync::Arc;

use async_trait::async_trait;
use marketplace::LIMIT_FALLBACK;
use marketplace::ports::{Bucket, LimitKey, RateLimitDecision, RateLimiter};

use crate::link::RedisConnection;
use crate::scripts::buckets;

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
            let handle = connection.handle.clone();
            let deadline = self.link.deadline();
            match buckets::take(handle, key, bucket, (self.clock_ahead_us)(), deadline).await {
                Ok(taken) => return taken,
                Err(error) => self.link.disable(&connection, &error),
            }
        }
        metrics::counter!(LIMIT_FALLBACK).increment(1);
        local
    }
}
