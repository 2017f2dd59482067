//! Redis, where something is kept there: whether it is there and does what is asked of it.

use marketplace_redis::Use;

use super::report::Check;
use marketplace_wiring::config::{Config, RedisConfig};

const NAME: &str = "redis";

/// Looks at it, if it is used.
pub(super) async fn check(config: &Config) -> Option<Check> {
    let RedisConfig { settings, uses } = config.redis.as_ref()?;
    let place = settings.place();
    let of = |what: fn(Use) -> &'static str, and: &str| {
        uses.iter().map(|each| what(*each)).collect::<Vec<_>>().join(and)
    };
    Some(match marketplace_redis::probe(settings, uses).await {
        Ok(()) => Check::ok(NAME, format!("{place} {} within {:?}", of(does, " and "), settings.timeout)),
        Err(away) => Check::warn(
            NAME,
            format!("{place} does not do what is asked of it: {away}"),
            &format!("until it does, {}; nothing else depends on it", of(Use::without, ", and ")),
            &format!(
                "see that redis.url is right, that its user may run scripts and write {}, and that it answers within \
                 redis.timeout",
                of(names, " and ")
            ),
        ),
    })
}

fn does(each: Use) -> &'static str {
    match each {
        Use::Limits => "counts requests",
        Use::Keys => "keeps idempotency keys",
    }
}

fn names(each: Use) -> &'static str {
    match each {
        Use::Limits => "ratelimit:*",
        Use::Keys => "idempotent:*",
    }
}
