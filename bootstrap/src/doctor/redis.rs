//! Redis, where processes share their limits: whether it is there and does what is asked of it.

use super::report::Check;
use crate::config::Config;

const NAME: &str = "redis";

/// Looks at it, if it is used.
pub(super) async fn check(config: &Config) -> Option<Check> {
    let settings = config.limits.redis.as_ref()?;
    let place = settings.place();
    Some(match handover_redis::probe(settings).await {
        Ok(()) => Check::ok(NAME, format!("{place} counts requests within {:?}", settings.timeout)),
        Err(away) => Check::warn(
            NAME,
            format!("{place} does not count requests: {away}"),
            "each process limits them for itself until it does; nothing else depends on it",
            "see that redis.url is right, that its user may run scripts and write ratelimit:*, and that it answers \
             within redis.timeout",
        ),
    })
}
