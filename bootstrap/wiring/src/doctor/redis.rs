//! Check of Redis, if it is used: runs the scripts that its configured uses need.

use marketplace_redis::RedisUse;

use crate::settings::{Config, RedisConfig};
use handover_runtime::doctor::Check;

const NAME: &str = "redis";

/// Returns `None` if Redis is not used.
pub(super) async fn check(config: &Config) -> Option<Check> {
    let RedisConfig { settings, uses } = config.redis.as_ref()?;
    let place = settings.address();
    let join = |describe: fn(RedisUse) -> &'static str, separator: &str| {
        uses.iter().map(|each| describe(*each)).collect::<Vec<_>>().join(separator)
    };
    Some(match marketplace_redis::probe(settings, uses).await {
        Ok(()) => {
            Check::ok(NAME, format!("{place} {} within {:?}", join(function, " and "), settings.timeout))
        }
        Err(error) => Check::warn(
            NAME,
            format!("{place} failed the test: {error}"),
            &format!(
                "until Redis works, {}; nothing else depends on Redis",
                join(RedisUse::without, ", and ")
            ),
            &format!(
                "check redis.url, that its user may run scripts and write {}, and that Redis answers within redis.timeout",
                join(key_patterns, " and ")
            ),
        ),
    })
}

fn function(each: RedisUse) -> &'static str {
    match each {
        RedisUse::Limits => "counts requests",
        RedisUse::Keys => "stores idempotency keys",
    }
}

fn key_patterns(each: RedisUse) -> &'static str {
    match each {
        RedisUse::Limits => "ratelimit:*",
        RedisUse::Keys => "idempotent:*",
    }
}
