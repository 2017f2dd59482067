//! Rate limiting: counted per process, or in Redis for all processes.

use std::sync::Arc;

use marketplace::ports::RateLimiter;
use marketplace_http::Admission;
use marketplace_limiter::LocalLimiter;
use marketplace_redis::RedisLimiter;

use super::redis::Redis;
use crate::config::LimitConfig;

/// Admission of requests by the configured token buckets.
pub(crate) fn admission(config: &LimitConfig, redis: &Redis) -> Admission {
    let local: Arc<dyn RateLimiter> = Arc::new(LocalLimiter::default());
    let limiter: Arc<dyn RateLimiter> = match redis.for_limits() {
        None => local,
        Some(link) => Arc::new(RedisLimiter::new(link, local)),
    };
    let default = Admission::new(limiter, config.bucket).behind(config.proxies.clone());
    config.routes.iter().fold(default, |admission, (route, bucket)| admission.with_route(route, *bucket))
}
