//! How often a client may ask: counted by this process, or by Redis for all of them.

use std::sync::Arc;

use handover_application::Tasks;
use handover_application::ports::RateLimiter;
use handover_http::Admission;
use handover_limiter::LocalLimiter;
use handover_redis::RedisLimiter;

use crate::config::LimitConfig;

/// What lets requests in.
pub(crate) fn admission(config: &LimitConfig, tasks: &Tasks) -> Admission {
    let own: Arc<dyn RateLimiter> = Arc::new(LocalLimiter::default());
    let limiter: Arc<dyn RateLimiter> = match &config.redis {
        None => own,
        Some(settings) => Arc::new(RedisLimiter::start(settings.clone(), own, tasks)),
    };
    let everywhere = Admission::new(limiter, config.bucket).behind(config.proxies.clone());
    config.routes.iter().fold(everywhere, |admission, (route, bucket)| admission.with_route(route, *bucket))
}
