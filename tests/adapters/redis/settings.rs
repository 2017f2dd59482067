//! Where Redis is.

use marketplace_redis::RedisSettings;

#[test]
fn a_url_is_read_and_shown_without_its_password() {
    let settings = RedisSettings::parse("rediss://shop:hush@cache:6380/3").unwrap();
    assert_eq!(settings.place(), "Redis at cache:6380, database 3");
    assert!(!format!("{settings:?}").contains("hush"));
    assert_eq!(RedisSettings::parse("redis://cache").unwrap().place(), "Redis at cache:6379, database 0");
}

#[test]
fn what_is_no_redis_or_checks_no_certificate_is_refused() {
    for url in ["", "redis", "redis://", "http://cache", "unix:/run/redis", "redis://cache/x"] {
        assert!(RedisSettings::parse(url).is_err(), "{url}");
    }
    assert!(RedisSettings::parse("rediss://cache/#insecure").is_err());
    assert!(RedisSettings::parse("redis://cache").unwrap().trusting("").is_err());
}
