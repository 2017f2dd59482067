mod errors;
mod gateway_and_assets;
mod layers;
mod limits;
mod log;
mod redis;
mod secrets;
mod servers;
mod values;

use std::path::Path;
use std::time::Duration;

use handover_http::{Limits, TokenRules};
use handover_outbox::ports::OnFailed;
use handover_outbox::webhooks::WebhookRetention;
use handover_outbox::{ConsumerSettings, OnOutage, RelaySettings};
use handover_runtime::Explanation;
use handover_runtime::config::{ConfigError, ConfigErrors, Configuration, Sources, variable_of};
use handover_runtime::settings::{BrokerChoice, LogFormat};
use marketplace::idempotency::RequestSettings;
use marketplace::{ConsistencySettings, RefundSettings, TimeoutSettings};
use marketplace_domain::PointsRules;

use super::Config;

fn variables(pairs: &[(&str, &str)]) -> Sources {
    let variables = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Sources { variables, ..Sources::default() }
}

fn load(pairs: &[(&str, &str)]) -> Result<Config, ConfigErrors> {
    Config::load(&variables(pairs))
}

fn file(content: &str) -> (tempfile::TempDir, Sources) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.toml");
    std::fs::write(&path, content).unwrap();
    (folder, Sources { file: Some(path), ..Sources::default() })
}

fn load_file(content: &str) -> Result<Config, ConfigErrors> {
    let (_folder, sources) = file(content);
    Config::load(&sources)
}

/// Each error as one text: what is wrong, why, what to do.
fn error_texts(result: Result<Config, ConfigErrors>) -> Vec<String> {
    let errors = result.expect_err("the configuration is invalid");
    let text = |error: &ConfigError| {
        let Explanation { what, why, remedy } = error.explanation();
        for part in [&what, &why, &remedy] {
            assert!(!part.is_empty() && !part.contains('\n'), "{part:?}");
        }
        format!("{what} | {why} | {remedy}")
    };
    errors.iter().map(text).collect()
}

/// The text of the only error.
#[track_caller]
fn error_text(result: Result<Config, ConfigErrors>) -> String {
    let mut texts = error_texts(result);
    assert_eq!(texts.len(), 1, "{texts:#?}");
    texts.remove(0)
}

#[test]
fn defaults_are_those_of_the_application() {
    let config = load(&[]).unwrap();
    let debug = |value: &dyn std::fmt::Debug| format!("{value:?}");
    assert_eq!(debug(&config.settings.relay), debug(&RelaySettings::default()));
    assert_eq!(debug(&config.settings.consumer), debug(&ConsumerSettings::default()));
    assert_eq!(debug(&config.settings.timeout), debug(&TimeoutSettings::default()));
    assert_eq!(debug(&config.settings.refund), debug(&RefundSettings::default()));
    assert_eq!(debug(&config.settings.consistency), debug(&ConsistencySettings::default()));
    assert_eq!(debug(&config.requests), debug(&RequestSettings::default()));
    assert_eq!(config.rules.points, PointsRules::default());
    assert_eq!(config.rules.pending_timeout, marketplace::queues::DEFAULT_TIMEOUT);
    assert_eq!(config.rules.max_retry_count, 3);
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.http.ops_listen, None);
    assert_eq!(config.http.concurrent_requests, Limits::default().concurrent_requests);
    assert_eq!(config.http.idle_timeout, Limits::default().idle);
    assert_eq!(config.http.cors_origins, Limits::default().cors_origins);
    assert_eq!(config.auth.rules, TokenRules::default());
    assert_eq!(config.database.file(), Some(Path::new("handover.db")));
    assert!(matches!(config.broker, BrokerChoice::Database));
    assert_eq!((config.log.format, config.log.traces), (LogFormat::Auto, None));
    assert!(config.auth.secret.is_none() && config.gateway_secret.is_none());
    assert!(config.auth.previous_secret.is_none() && config.previous_gateway_secret.is_none());
}

#[test]
fn traces_need_a_program_with_trace_export() {
    let loaded = load(&[("HANDOVER_LOG__TRACES", "http://127.0.0.1:4318")]);
    if cfg!(feature = "otel") {
        assert_eq!(loaded.unwrap().log.traces.as_deref(), Some("http://127.0.0.1:4318"));
    } else {
        assert!(error_text(loaded).contains("this program was built without trace export"));
    }
}

#[test]
fn every_default_is_accepted_as_a_variable() {
    for key in Config::keys().iter() {
        if let Some(default) = key.default.as_deref() {
            load(&[(variable_of(key.path).as_str(), default)])
                .unwrap_or_else(|error| panic!("{}: {error}", key.path));
        }
    }
}

#[test]
fn pending_minutes_accept_fractions_down_to_a_millisecond() {
    let timeout = |minutes: &str| {
        load(&[("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", minutes)])
            .map(|config| config.rules.pending_timeout)
    };
    for (minutes, millis) in
        [("0.05", 3_000), ("15", 900_000), ("0.333", 19_980), ("0.0001", 6), ("43200", 2_592_000_000)]
    {
        assert_eq!(timeout(minutes).unwrap(), Duration::from_millis(millis), "{minutes}");
    }
    for minutes in ["0", "-1", "0.000001", "43201", "soon", "\"15\"", "NaN"] {
        assert!(timeout(minutes).is_err(), "{minutes}");
    }
    let text = error_text(load(&[("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0")]));
    assert!(text.contains("order.timeout.pending-minutes in the environment variable"), "{text}");
}

#[test]
fn webhook_deliveries_stay_for_the_default_time_of_the_toolkit() {
    assert_eq!(load(&[]).unwrap().webhook.keep, WebhookRetention::DEFAULT);
}

#[test]
fn auto_complete_days_accept_fractions_and_0_for_never() {
    let after = |days: &str| {
        load(&[("HANDOVER_ORDER__AUTO_COMPLETE_DAYS", days)])
            .map(|config| config.settings.auto_completion.after)
    };
    assert_eq!(load(&[]).unwrap().settings.auto_completion.after, Some(Duration::from_secs(864_000)));
    for (days, seconds) in [("10", 864_000), ("0.5", 43_200), ("365", 31_536_000)] {
        assert_eq!(after(days).unwrap(), Some(Duration::from_secs(seconds)), "{days}");
    }
    for never in ["0", "0.0"] {
        assert_eq!(after(never).unwrap(), None, "{never}");
    }
    for days in ["-1", "0.000000001", "366", "1e300", "never", "\"10\"", "NaN"] {
        assert!(after(days).is_err(), "{days}");
    }
    let text = error_text(load(&[("HANDOVER_ORDER__AUTO_COMPLETE_DAYS", "-1")]));
    assert!(text.contains("order.auto-complete-days in the environment variable"), "{text}");
    assert!(text.contains("or 0 for never"), "{text}");
}

#[test]
fn invoices_have_a_fee_in_basis_points_and_begin_with_a_month() {
    let invoices = |variable: &str, value: &str| {
        load(&[(variable, value)]).map(|config| (config.rules.fee_rate, config.settings.invoices))
    };
    let config = load(&[]).unwrap();
    assert_eq!(config.rules.fee_rate.basis_points(), 250);
    assert_eq!(config.settings.invoices.from, None);
    assert_eq!(config.settings.invoices.generate_after, Duration::from_secs(3 * 86_400));
    assert_eq!(config.settings.invoices.interval, Duration::from_secs(3600));
    let (fee_rate, _) = invoices("HANDOVER_INVOICE__FEE_BPS", "10000").unwrap();
    assert_eq!(fee_rate.basis_points(), 10_000);
    let (_, settings) = invoices("HANDOVER_INVOICE__FROM", "2026-02").unwrap();
    assert_eq!(settings.from.map(|period| period.to_string()).as_deref(), Some("2026-02"));
    let (_, settings) = invoices("HANDOVER_INVOICE__GENERATE_AFTER", "20s").unwrap();
    assert_eq!(settings.interval, Duration::from_secs(2));
    for (variable, key, values) in [
        ("HANDOVER_INVOICE__FEE_BPS", "invoice.fee-bps", &["-1", "10001", "2.5"][..]),
        ("HANDOVER_INVOICE__FROM", "invoice.from", &["2026", "2026-13", "2026-02-01", "february"]),
        ("HANDOVER_INVOICE__GENERATE_AFTER", "invoice.generate-after", &["0s", "29d"]),
    ] {
        for value in values {
            let text = error_text(load(&[(variable, *value)]));
            assert!(text.contains(key), "{value}: {text}");
        }
    }
}

#[test]
fn every_limit_is_checked_and_the_error_names_the_key() {
    for (name, key, values) in [
        ("HANDOVER_OUTBOX__BATCH", "outbox.batch", &["0", "10001", "-1", "many", "1.5"][..]),
        ("HANDOVER_OUTBOX__MAX_QUEUED", "outbox.max-queued", &["-1", "1000001"]),
        ("HANDOVER_CONSUMER__PREFETCH", "consumer.prefetch", &["0", "65536", "-1"]),
        ("HANDOVER_CONSUMER__RETRY_THRESHOLD", "consumer.retry-threshold", &["-1", "101"]),
        ("HANDOVER_CONSUMER__BREAKER", "consumer.breaker", &["-1", "1001"]),
        ("HANDOVER_ORDER__TIMEOUT__SWEEP_BATCH", "order.timeout.sweep-batch", &["0", "10001"]),
        (
            "HANDOVER_ORDER__TIMEOUT__SWEEP_INTERVAL",
            "order.timeout.sweep-interval",
            &["0s", "9ms", "61m", "5", "soon"],
        ),
        ("HANDOVER_OUTBOX__SCAN_INTERVAL", "outbox.scan-interval", &["0s", "9ms", "61s"]),
        ("HANDOVER_OUTBOX__LEASE", "outbox.lease", &["0s", "999ms", "61s"]),
        ("HANDOVER_OUTBOX__CONFIRM_TIMEOUT", "outbox.confirm-timeout", &["0s", "99ms", "11m"]),
        ("HANDOVER_CONSUMER__ATTEMPT_TIMEOUT", "consumer.attempt-timeout", &["0s", "11m"]),
        ("HANDOVER_CONSUMER__LEASE", "consumer.lease", &["0s", "10s", "5s", "61m"]),
        ("HANDOVER_CONSUMER__SWEEP_INTERVAL", "consumer.sweep-interval", &["0s", "61m"]),
        ("HANDOVER_CONSUMER__LOST_AFTER", "consumer.lost-after", &["0s", "999ms", "61m"]),
        ("HANDOVER_OUTBOX__ON_FAILED", "outbox.on-failed", &["stop", "Hold", ""]),
        ("HANDOVER_OUTBOX__OUTAGE", "outbox.outage", &["ignore", ""]),
        ("HANDOVER_DATABASE__CONNECTIONS", "database.connections", &["0", "1", "501", "few"]),
        ("HANDOVER_RABBITMQ__QUEUE_TYPE", "rabbitmq.queue-type", &["mirrored", ""]),
        ("HANDOVER_IDEMPOTENCY__LEASE", "idempotency.lease", &["0s", "999ms", "61m"]),
        ("HANDOVER_IDEMPOTENCY__KEEP", "idempotency.keep", &["0s", "40s", "367d", "1"]),
        ("HANDOVER_AUDIT__KEEP_READS", "audit.keep-reads", &["0s", "6d", "3651d", "30"]),
        ("HANDOVER_IDEMPOTENCY__SWEEP_INTERVAL", "idempotency.sweep-interval", &["0s", "25h"]),
        (
            "HANDOVER_ASSET__LOCK_TIMEOUT_MINUTES",
            "asset.lock-timeout-minutes",
            &["0", "-1", "525601", "soon"],
        ),
        ("HANDOVER_ASSET__REAPER_INTERVAL", "asset.reaper-interval", &["0s", "25h", "5"]),
        ("HANDOVER_ASSET__POINTS_PER_UNIT", "asset.points-per-unit", &["0", "-1", "1.5", "1000001"]),
        ("HANDOVER_ASSET__EARN_PER_UNIT", "asset.earn-per-unit", &["-1", "1.5", "1000001"]),
        (
            "HANDOVER_CONSISTENCY__SCAN_WINDOW_HOURS",
            "consistency.scan-window-hours",
            &["0", "-1", "8761", "24h"],
        ),
        ("HANDOVER_CONSISTENCY__RECENT_INTERVAL", "consistency.recent-interval", &["0s", "999ms", "25h"]),
        ("HANDOVER_CONSISTENCY__INTERVAL", "consistency.interval", &["0s", "999ms", "25h"]),
        ("HANDOVER_GATEWAY__SANDBOX_DELAY", "gateway.sandbox-delay", &["0s", "61m"]),
        ("HANDOVER_GATEWAY__REQUIRE_REFERENCE", "gateway.require-reference", &["always", "1", ""]),
        ("HANDOVER_GATEWAY__TIMEOUT", "gateway.timeout", &["0s", "99ms", "11m"]),
        ("HANDOVER_GATEWAY__SCAN_INTERVAL", "gateway.scan-interval", &["0s", "9ms", "61m"]),
        ("HANDOVER_GATEWAY__RETRY_BASE", "gateway.retry-base", &["0s", "25h"]),
        ("HANDOVER_GATEWAY__RETRY_CAP", "gateway.retry-cap", &["0s", "4s", "25h"]),
        ("HANDOVER_HTTP__TRUSTED_PROXIES", "http.trusted-proxies", &["10.0.0.0", "[10]", "[\"::/0\"]"]),
        ("HANDOVER_HTTP__FORWARDED_HEADER", "http.forwarded-header", &["x-real-ip", ""]),
        ("HANDOVER_RATE_LIMIT__STORE", "rate-limit.store", &["off", "", "redis"]),
        ("HANDOVER_IDEMPOTENCY__STORE", "idempotency.store", &["local", "", "redis"]),
        ("HANDOVER_RATE_LIMIT__CAPACITY", "rate-limit.capacity", &["0", "1000001", "1.5", "-1"]),
        (
            "HANDOVER_RATE_LIMIT__PER_SECOND",
            "rate-limit.per-second",
            &["0", "0.0009", "100001", "-1", "fast", "NaN"],
        ),
        ("HANDOVER_REDIS__TIMEOUT", "redis.timeout", &["0s", "2s", "50"]),
        ("HANDOVER_REDIS__URL", "redis.url", &["redis://cache"]),
        ("HANDOVER_LOG__FORMAT", "log.format", &["xml"]),
        ("HANDOVER_LOG__LEVEL", "log.level", &["", "a=b=c", "[request]=debug"]),
        ("HANDOVER_LOG__TRACES", "log.traces", &["", "collector:4318", "https://collector", "http://"]),
        ("HANDOVER_HTTP__LISTEN", "http.listen", &["8080", "127.0.0.1", "127.0.0.1:70000", ""]),
        ("HANDOVER_HTTP__OPS_LISTEN", "http.ops-listen", &["8080", "127.0.0.1:8080", ""]),
        ("HANDOVER_HTTP__CONCURRENT_REQUESTS", "http.concurrent-requests", &["0", "100001", "-1", "many"]),
        ("HANDOVER_HTTP__IDLE_TIMEOUT", "http.idle-timeout", &["0s", "999ms", "61m", "75"]),
        (
            "HANDOVER_HTTP__CORS_ORIGINS",
            "http.cors-origins",
            &["*", "https://shop.example", r#"["*"]"#, r#"["https://shop.example/"]"#, r#"["null"]"#, "[1]"],
        ),
        ("HANDOVER_AUTH__LEEWAY", "auth.leeway", &["301s", "30", "-1s", "some"]),
        ("HANDOVER_AUTH__AUDIENCE", "auth.audience", &[""]),
        ("HANDOVER_AUTH__ISSUER", "auth.issuer", &[""]),
        ("HANDOVER_AUTH__JWKS_FILE", "auth.jwks-file", &["/nowhere/keys.json", ""]),
        ("HANDOVER_GATEWAY__SECRET", "gateway.secret", &["...", "whsec_...", "whsec_c2hvcnQ=", "abc"]),
        ("HANDOVER_AUTH__JWT_SECRET", "auth.jwt-secret", &["...", "", "31 characters are one too few.."]),
        ("HANDOVER_AUTH__PREVIOUS_JWT_SECRET", "auth.previous-jwt-secret", &["...", ""]),
        ("HANDOVER_GATEWAY__PREVIOUS_SECRET", "gateway.previous-secret", &["...", "whsec_c2hvcnQ="]),
    ] {
        for value in values {
            let text = error_text(load(&[(name, value)]));
            let start = format!("{key} in the environment variable {name} is ");
            assert!(text.starts_with(&start), "{text}");
        }
    }
}

#[test]
fn consumer_lease_must_be_longer_than_attempt_timeout() {
    let text = error_text(load(&[("HANDOVER_CONSUMER__ATTEMPT_TIMEOUT", "20s")]));
    assert!(text.contains("consumer.lease in the built-in default is \"15s\""), "{text}");
    assert!(text.contains("above consumer.attempt-timeout, which is \"20s\""), "{text}");
    load(&[("HANDOVER_CONSUMER__ATTEMPT_TIMEOUT", "20s"), ("HANDOVER_CONSUMER__LEASE", "21s")]).unwrap();
}

#[test]
fn invalid_retry_policies_are_refused() {
    for (value, why) in [
        (r#"{policy = "schedule", delays = ["0s"]}"#, "busy loop"),
        (r#"{policy = "schedule", delays = ["5s", "4s"]}"#, "must not decrease"),
        (r#"{policy = "schedule", delays = []}"#, "1 to 100 delays"),
        (r#"{policy = "schedule", delays = ["2h"]}"#, "an hour"),
        (r#"{policy = "schedule", delays = [5]}"#, "not a duration"),
        (r#"{policy = "schedule"}"#, "delays is missing"),
        (r#"{policy = "schedule", delays = ["5s"], base = "5s"}"#, "base is not a field of this policy"),
        (r#"{policy = "exponential", base = "0s", cap = "1s", max-attempts = 2}"#, "busy loop"),
        (r#"{policy = "exponential", base = "5s", cap = "1s", max-attempts = 2}"#, "cap is below"),
        (r#"{policy = "exponential", base = "5s", cap = "2h", max-attempts = 2}"#, "an hour"),
        (r#"{policy = "exponential", base = "5s", max-attempts = 0}"#, "max-attempts"),
        (r#"{policy = "exponential", base = "5s", max-attempts = 3, jitter = 1.1}"#, "from 0 to 1"),
        (r#"{policy = "exponential", base = "5s"}"#, "max-attempts is missing"),
        (r#"{policy = "linear"}"#, "no policy \"linear\""),
        (r#"{delays = ["5s"]}"#, "policy is missing"),
        ("5s", "not an inline table"),
    ] {
        let text = error_text(load(&[("HANDOVER_OUTBOX__RETRY", value)]));
        assert!(text.starts_with("outbox.retry in") && text.contains(why), "{value}: {text}");
    }
    for (value, why) in [
        (r#"{base = "0s", cap = "5s"}"#, "busy loop"),
        (r#"{base = "6s", cap = "5s"}"#, "cap is below"),
        (r#"{base = "6s"}"#, "cap is missing"),
        (r#"{base = "1s", cap = "2s", jitter = 1}"#, "jitter is not a field of this policy"),
    ] {
        let text = error_text(load(&[("HANDOVER_CONSUMER__BACKOFF", value)]));
        assert!(text.starts_with("consumer.backoff in") && text.contains(why), "{value}: {text}");
    }
}

#[test]
fn on_failed_and_outage_are_read() {
    let config =
        load(&[("HANDOVER_OUTBOX__ON_FAILED", "hold"), ("HANDOVER_OUTBOX__OUTAGE", "count")]).unwrap();
    assert_eq!(config.on_failed, OnFailed::Hold);
    assert_eq!(config.settings.relay.on_outage, OnOutage::Count);
}
