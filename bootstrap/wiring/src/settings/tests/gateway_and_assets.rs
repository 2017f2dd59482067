use std::time::Duration;

use super::super::GatewayChoice;
use super::{error_text, load};

#[test]
fn gateway_is_sandbox_or_https_or_local_http() {
    let gateway = |url: &str| load(&[("HANDOVER_GATEWAY__URL", url)]).map(|config| config.gateway);
    let default = load(&[]).unwrap().gateway;
    assert_eq!(default.choice, GatewayChoice::Sandbox(Duration::from_secs(1)));
    assert!(
        !default.is_chosen && gateway("sandbox:").unwrap().is_chosen,
        "only an explicit value counts as chosen"
    );
    for url in ["https://pay.example/v1", "http://127.0.0.1:9000", "http://localhost:9000"] {
        let found = gateway(url).unwrap();
        assert_eq!((found.choice.to_string().as_str(), found.is_chosen), (url, true));
    }
    for (url, why) in [
        ("http://pay.example", "plain http:// to another machine"),
        ("stripe:", "it has no scheme or no host"),
        ("ftp://pay.example", "only https:// and http:// are supported"),
        ("sandbox", "it has no scheme or no host"),
        ("", "it has no scheme or no host"),
        ("https://shop:hush@pay.example", "a user name or password in a URL"),
    ] {
        let text = error_text(load(&[("HANDOVER_GATEWAY__URL", url)]));
        assert!(text.contains(why) && !text.contains("hush"), "{text}");
        assert!(text.contains("write https://host/path") && text.contains("or sandbox:"), "{text}");
    }
}

#[test]
fn reference_is_required_only_if_configured() {
    let require = |value: &str| load(&[("HANDOVER_GATEWAY__REQUIRE_REFERENCE", value)]);
    assert!(!load(&[]).unwrap().gateway.requires_reference);
    assert!(require("true").unwrap().gateway.requires_reference);
    assert!(!require("false").unwrap().gateway.requires_reference);
    let text = error_text(require("always"));
    assert!(text.contains("gateway.require-reference") && text.contains("set true or false"), "{text}");
}

#[test]
fn minutes_and_hours_accept_fractions() {
    let config = load(&[
        ("HANDOVER_ASSET__LOCK_TIMEOUT_MINUTES", "0.05"),
        ("HANDOVER_CONSISTENCY__SCAN_WINDOW_HOURS", "0.5"),
        ("HANDOVER_CONSISTENCY__INTERVAL", "5m"),
    ]);
    let settings = config.unwrap().settings.consistency;
    assert_eq!(settings.lock_timeout, Duration::from_secs(3));
    assert_eq!(settings.scan_window, Duration::from_secs(1800));
    for (name, least) in [
        ("HANDOVER_ASSET__LOCK_TIMEOUT_MINUTES", "0.00002"),
        ("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0.00002"),
    ] {
        load(&[(name, least)]).unwrap();
        assert!(error_text(load(&[(name, "0.000001")])).contains(&format!("from {least} (a millisecond)")));
    }
}

#[test]
fn locks_time_out_before_the_payment_deadline_only_if_configured() {
    let lock_timeout = |minutes: &[(&str, &str)]| {
        let config = load(minutes).unwrap();
        config.settings.consistency.lock_timeout.as_secs() / 60
    };
    let pending = |minutes| ("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", minutes);
    let lock = ("HANDOVER_ASSET__LOCK_TIMEOUT_MINUTES", "20");
    assert_eq!(lock_timeout(&[]), 30);
    assert_eq!(lock_timeout(&[pending("29")]), 30);
    assert_eq!(lock_timeout(&[pending("60")]), 60);
    assert_eq!(lock_timeout(&[pending("60"), lock]), 20);
}

#[test]
fn conflicting_durations_name_each_other() {
    let text = error_text(load(&[("HANDOVER_GATEWAY__RETRY_BASE", "2h")]));
    assert!(text.starts_with("gateway.retry-cap in the built-in default is \"1h\""), "{text}");
    assert!(text.contains("gateway.retry-base, which is \"2h\""), "{text}");
    let text = error_text(load(&[("HANDOVER_CONSISTENCY__SCAN_WINDOW_HOURS", "1")]));
    assert!(text.starts_with("consistency.scan-window-hours in the environment"), "{text}");
    assert!(text.contains("consistency.interval, which is \"2h\""), "{text}");
}

#[test]
fn points_rules_are_read() {
    let config = load(&[("HANDOVER_ASSET__POINTS_PER_UNIT", "50"), ("HANDOVER_ASSET__EARN_PER_UNIT", "0")]);
    let points = config.unwrap().rules.points;
    assert_eq!((points.per_unit.get(), points.earned_per_unit), (50, 0));
}
