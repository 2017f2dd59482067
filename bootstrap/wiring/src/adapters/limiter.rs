//! How often a client may ask: counted by this process, or by Redis for all of them.

use std::sync::Arc;

use marketplace::ports::RateLimiter;
use marketplace_http::Admission;
use marketplace_limiter::LocalLimiter;
use marketplace_redis::RedisLimiter;

use super::redis::Redis;
use crate::config::LimitConfig;

/// What lets requests in.
pub(crate) fn admission(config: &LimitConfig, redis: &Redis) -> Admission {
    let own: Arc<dyn RateLimiter> = Arc::new(LocalLimiter::default());
    let limiter: Arc<dyn RateLimiter> = match redis.for_limits() {
        None => own,
        Some(link) => Arc::new(RedisLimiter::new(link, own)),
    };
    let everywhere = Admission::new(limiter, config.bucket).behind(config.proxies.clone());
    config.routes.iter().fold(everywhere, |admission, (route, bucket)| admission.with_route(route, *bucket))
}
