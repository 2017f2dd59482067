use std::time::Duration;

use marketplace_redis::RedisUse;

use super::{error_text, load};

const LIMITS: (&str, &str) = ("HANDOVER_RATE_LIMIT__STORE", "redis");
const KEYS: (&str, &str) = ("HANDOVER_IDEMPOTENCY__STORE", "redis");
const URL: (&str, &str) = ("HANDOVER_REDIS__URL", "redis://cache");

#[test]
fn redis_needs_a_url_and_a_store_that_uses_it() {
    let redis =
        |url: &str, more: &[(&str, &str)]| load(&[&[LIMITS, ("HANDOVER_REDIS__URL", url)], more].concat());
    let config = redis("redis://shop:hush@cache:6380/2", &[("HANDOVER_REDIS__TIMEOUT", "20ms")]).unwrap();
    let settings = &config.redis.as_ref().unwrap().settings;
    assert_eq!(settings.address(), "Redis at cache:6380, database 2");
    assert_eq!(settings.timeout, Duration::from_millis(20));
    assert!(!format!("{config:?}").contains("hush"));
    for url in ["http://shop:hush@cache", "cache:6379", "", "rediss://shop:hush@cache/#insecure"] {
        let text = error_text(redis(url, &[]));
        assert!(text.contains("write redis://user:password@host:6379/0") && !text.contains("hush"), "{text}");
    }
    assert!(load(&[]).unwrap().redis.is_none());
    assert!(error_text(load(&[URL])).contains("no store uses Redis"));
    let authorities = ("HANDOVER_REDIS__CA_FILE", "/nowhere/ca.pem");
    assert!(error_text(redis("rediss://cache", &[authorities])).starts_with("redis.ca-file in "));
}

#[test]
fn rate_limits_and_idempotency_keys_use_redis_independently() {
    let uses = |more: &[(&str, &str)]| load(&[&[URL], more].concat()).unwrap().redis.unwrap().uses;
    assert_eq!(uses(&[LIMITS]), [RedisUse::Limits]);
    assert_eq!(uses(&[KEYS]), [RedisUse::Keys]);
    assert_eq!(uses(&[LIMITS, KEYS]), [RedisUse::Limits, RedisUse::Keys]);
    for (used, key, otherwise) in
        [(LIMITS, "rate-limit.store", "\"local\""), (KEYS, "idempotency.store", "\"database\"")]
    {
        let text = error_text(load(&[used]));
        assert!(text.starts_with(&format!("{key} in ")) && text.contains("redis.url is not set"), "{text}");
        assert!(text.contains("set redis.url = ") && text.contains(otherwise), "{text}");
    }
}
