//! Rate limiting: counted per process, or in Redis for all processes.

use std::sync::Arc;

use marketplace::ports::RateLimiter;
use marketplace_http::RateLimits;
use marketplace_limiter::LocalLimiter;
use marketplace_redis::RedisLimiter;

use super::redis::Redis;
use crate::settings::LimitConfig;

/// Creates the rate limits from the configured token buckets.
pub(crate) fn admission(config: &LimitConfig, redis: &Redis) -> RateLimits {
    let local: Arc<dyn RateLimiter> = Arc::new(LocalLimiter::default());
    let limiter: Arc<dyn RateLimiter> = match redis.for_limits() {
        None => local,
        Some(link) => Arc::new(RedisLimiter::new(link, local)),
    };
    let default = RateLimits::new(limiter, config.bucket).with_proxies(config.proxies.clone());
    config
        .routes
        .iter()
        .fold(default, |admission, (route, bucket)| admission.with_route_limit(route, *bucket))
}
