//! Settings of Redis connections.

use marketplace_redis::RedisSettings;

#[test]
fn parsed_url_is_shown_without_password() {
    let settings = RedisSettings::parse("rediss://shop:hush@cache:6380/3").unwrap();
    assert_eq!(settings.address(), "Redis at cache:6380, database 3");
    assert!(!format!("{settings:?}").contains("hush"));
    assert_eq!(RedisSettings::parse("redis://cache").unwrap().address(), "Redis at cache:6379, database 0");
}

#[test]
fn invalid_url_disabled_certificate_check_or_empty_certificates_are_rejected() {
    for url in ["", "redis", "redis://", "http://cache", "unix:/run/redis", "redis://cache/x"] {
        assert!(RedisSettings::parse(url).is_err(), "{url}");
    }
    assert!(RedisSettings::parse("rediss://cache/#insecure").is_err());
    assert!(RedisSettings::parse("redis://cache").unwrap().with_ca_certificates("").is_err());
}
