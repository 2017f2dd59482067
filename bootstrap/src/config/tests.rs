mod limits;
mod money;
mod redis;

use std::path::Path;
use std::time::Duration;

use handover_application::idempotency::RequestSettings;
use handover_application::ports::OnFailed;
use handover_application::{
    ConsistencySettings, ConsumerSettings, OnOutage, RefundSettings, RelaySettings, TimeoutSettings,
};
use handover_domain::{Jitter, PointsRules, RetryPolicy};
use handover_http::{Limits, TokenRules};
use handover_rabbitmq::QueueType;

use super::keys::{KEYS, Kind};
use super::{BrokerChoice, Config, ConfigError, LogFormat, Sources};

fn variables(pairs: &[(&str, &str)]) -> Sources {
    let variables = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Sources { variables, ..Sources::default() }
}

fn load(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
    Config::load(&variables(pairs))
}

fn file(content: &str) -> (tempfile::TempDir, Sources) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.toml");
    std::fs::write(&path, content).unwrap();
    (folder, Sources { file: Some(path), ..Sources::default() })
}

fn load_file(content: &str) -> Result<Config, ConfigError> {
    let (_folder, sources) = file(content);
    Config::load(&sources)
}

/// What, why and what to do, as one text.
fn complaint(result: Result<Config, ConfigError>) -> String {
    let error = result.expect_err("it is refused");
    for part in [error.to_string(), error.why(), error.remedy()] {
        assert!(!part.is_empty() && !part.contains('\n'), "{part:?}");
    }
    format!("{error} | {} | {}", error.why(), error.remedy())
}

#[test]
fn the_defaults_are_those_of_the_application() {
    let config = load(&[]).unwrap();
    let debug = |value: &dyn std::fmt::Debug| format!("{value:?}");
    assert_eq!(debug(&config.settings.relay), debug(&RelaySettings::default()));
    assert_eq!(debug(&config.settings.consumer), debug(&ConsumerSettings::default()));
    assert_eq!(debug(&config.settings.timeout), debug(&TimeoutSettings::default()));
    assert_eq!(debug(&config.settings.refund), debug(&RefundSettings::default()));
    assert_eq!(debug(&config.settings.consistency), debug(&ConsistencySettings::default()));
    assert_eq!(debug(&config.requests), debug(&RequestSettings::default()));
    assert_eq!(config.rules.points, PointsRules::default());
    assert_eq!(config.rules.pending_timeout, handover_application::topology::DEFAULT_TIMEOUT);
    assert_eq!(config.rules.max_retry_count, 3);
    assert_eq!(config.listen.to_string(), "127.0.0.1:8080");
    assert_eq!(config.http.ops_listen, None);
    assert_eq!(config.http.concurrent_requests, Limits::default().concurrent_requests);
    assert_eq!(config.http.cors_origins, Limits::default().cors_origins);
    assert_eq!(config.auth.rules, TokenRules::default());
    assert_eq!(config.database.file(), Some(Path::new("handover.db")));
    assert!(matches!(config.broker, BrokerChoice::Database));
    assert_eq!((config.log.format, config.log.traces), (LogFormat::Auto, None));
    assert!(config.jwt_secret.is_none() && config.gateway_secret.is_none());
}

#[test]
fn traces_go_to_a_collector_if_the_program_can_export_them() {
    let loaded = load(&[("HANDOVER_LOG__TRACES", "http://127.0.0.1:4318")]);
    if cfg!(feature = "otel") {
        assert_eq!(loaded.unwrap().log.traces.as_deref(), Some("http://127.0.0.1:4318"));
    } else {
        assert!(complaint(loaded).contains("this program was built without the export of traces"));
    }
}

#[test]
fn every_default_can_be_written_as_a_variable() {
    for key in KEYS {
        if let Some(default) = key.default {
            load(&[(key.variable().as_str(), default)])
                .unwrap_or_else(|error| panic!("{}: {error}", key.path));
        }
    }
}

#[test]
fn the_readme_names_every_key_and_its_default() {
    let readme = include_str!("../../../README.md");
    for key in KEYS {
        let default = match (key.default, key.kind) {
            (Some(text), _) => format!("`{text}` |"),
            (None, Kind::Secret) => "made".to_owned(),
            (None, _) => "not set |".to_owned(),
        };
        let row = format!("| `{}` | {default}", key.path);
        assert!(readme.contains(&row), "no row {row}");
    }
}

#[test]
fn a_flag_beats_a_variable_beats_the_file_beats_the_default() {
    let (_folder, mut sources) = file("[http]\nlisten = \"127.0.0.1:1\"\n[outbox]\nbatch = 1\n");
    let read = |sources: &Sources| {
        let config = Config::load(sources).unwrap();
        (config.listen.port(), config.settings.relay.batch.get())
    };
    assert_eq!(read(&sources), (1, 1));
    sources.variables = vec![("HANDOVER_HTTP__LISTEN".to_owned(), "127.0.0.1:2".to_owned())];
    assert_eq!(read(&sources), (2, 1));
    sources.flags = vec![("--listen", "http.listen", "127.0.0.1:3".to_owned())];
    assert_eq!(read(&sources), (3, 1));
}

#[test]
fn a_later_layer_replaces_an_inline_table_whole() {
    let (_folder, mut sources) =
        file("[outbox]\nretry = { policy = \"schedule\", delays = [\"1s\"] }\n[consumer]\nprefetch = 3\n");
    assert_eq!(
        Config::load(&sources).unwrap().settings.relay.retry,
        RetryPolicy::Schedule { delays: vec![Duration::from_secs(1)] }
    );
    sources.variables = vec![(
        "HANDOVER_OUTBOX__RETRY".to_owned(),
        r#"{policy = "exponential", base = "2s", cap = "10s", max-attempts = 5, jitter = 0.2}"#.to_owned(),
    )];
    let config = Config::load(&sources).unwrap();
    let RetryPolicy::Exponential { base, cap, max_attempts, jitter } = config.settings.relay.retry else {
        panic!("exponential was asked for");
    };
    assert_eq!((base.as_secs(), cap.as_secs(), max_attempts.get()), (2, 10, 5));
    assert_eq!(jitter, Jitter::percent(20).unwrap());
    assert_eq!(config.rules.max_retry_count, 4);
    assert_eq!(config.settings.consumer.prefetch.get(), 3);
}

#[test]
fn an_unknown_key_of_the_file_names_itself_its_file_and_the_nearest() {
    let text = complaint(load_file("[outbox]\nbacth = 5\n"));
    for part in ["unknown key outbox.bacth", "shop.toml", "did you mean outbox.batch?"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(complaint(load_file("[oubtox]\nbatch = 5\n")).contains("unknown key oubtox in"));
    assert!(complaint(load_file("listen = \"127.0.0.1:1\"\n")).contains("did you mean http.listen?"));
}

#[test]
fn a_key_that_looks_like_none_is_not_taken_for_one() {
    for file in ["[kafka]\nurl = \"x\"\n", "[outbox]\nfoo = 1\n", "[kafka.consumer]\nid = 1\n", "x = 1\n"] {
        let text = complaint(load_file(file));
        assert!(text.contains("unknown key") && !text.contains("did you mean"), "{text}");
        assert!(text.contains("remove it; `handover config show` lists every key"), "{text}");
    }
    for variable in ["HANDOVER_KAFKA__URL", "HANDOVER_FOO", "HANDOVER_OUTBOX__FOO", "HANDOVER_"] {
        let text = complaint(load(&[(variable, "x")]));
        assert!(text.contains(variable) && !text.contains("did you mean"), "{text}");
    }
    for (key, meant) in [
        ("HANDOVER_OUTBOX_BATCH", "HANDOVER_OUTBOX__BATCH?"),
        ("HANDOVER_ORDER__TIMEOUT__MINUTES", "HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES?"),
        ("HANDOVER_CONSUMERS__PREFETCH", "HANDOVER_CONSUMER__PREFETCH?"),
        ("HANDOVER_LOG_LEVEL", "HANDOVER_LOG__LEVEL?"),
    ] {
        let text = complaint(load(&[(key, "x")]));
        assert!(text.contains(&format!("did you mean {meant}")), "{text}");
    }
}

#[test]
fn an_unknown_variable_names_itself_and_the_nearest() {
    let text = complaint(load(&[("HANDOVER_OUTBOX__SCAN_INTERVALL", "5s")]));
    assert!(text.contains("environment variable HANDOVER_OUTBOX__SCAN_INTERVALL"), "{text}");
    assert!(text.contains("did you mean HANDOVER_OUTBOX__SCAN_INTERVAL?"), "{text}");
    assert!(complaint(load(&[("HANDOVER_LISTEN", "x")])).contains("did you mean HANDOVER_HTTP__LISTEN?"));
}

#[test]
fn what_is_not_ours_and_no_setting_is_left_alone() {
    load(&[("HOME", "x"), ("HANDOVER_CONFIG", "x"), ("HANDOVER_BIN", "x"), ("HANDOVER_LONG", "1")]).unwrap();
}

#[test]
fn a_value_in_place_of_a_section_is_refused() {
    assert!(complaint(load_file("order = 3\n")).contains("order in the file"));
}

#[test]
fn a_named_file_must_be_there_and_be_toml() {
    let missing = Sources { file: Some("/nowhere/shop.toml".into()), ..Sources::default() };
    assert!(complaint(Config::load(&missing)).contains("/nowhere/shop.toml cannot be read"));
    let error = load_file("[http\n").unwrap_err();
    assert!(error.to_string().contains("is not valid TOML"), "{error}");
}

#[test]
fn a_file_that_is_no_toml_is_told_by_its_line_and_shows_no_secret() {
    for written in ["jwt-secret = \"hush-hush", "jwt-secret = hush-hush", "jwt-secret = \"hush-hush\" x"] {
        let text = complaint(load_file(&format!("[auth]\n{written}\n")));
        assert!(text.contains("is not valid TOML: line ") && !text.contains("hush"), "{text}");
    }
}

#[test]
fn what_the_outside_gives_is_shown_without_its_values() {
    let sources = Sources {
        flags: vec![("--database", "database.url", "postgres://shop:hush@db/shop".to_owned())],
        ..variables(&[("HANDOVER_AUTH__JWT_SECRET", "hush")])
    };
    let shown = format!("{sources:?}");
    assert!(shown.contains("HANDOVER_AUTH__JWT_SECRET") && shown.contains("--database"), "{shown}");
    assert!(!shown.contains("hush"), "{shown}");
}

#[test]
fn a_flag_that_tells_a_password_is_refused_and_not_repeated() {
    let load = |flag: &'static str, key: &'static str, url: &str| {
        Config::load(&Sources { flags: vec![(flag, key, url.to_owned())], ..variables(&[]) })
    };
    for (flag, key, url) in [
        ("--database", "database.url", "postgres://shop:hush@db/shop"),
        ("--database", "database.url", "mysql://shop:hu@sh@db/shop"),
        ("--database", "database.url", "postgres://shop@db/shop?sslmode=require&PassWord=hush"),
        ("--broker", "broker.url", "amqp://shop:hush@rabbit/%2f"),
    ] {
        let text = complaint(load(flag, key, url));
        let variable = format!("HANDOVER_{}__URL", key.split('.').next().unwrap().to_uppercase());
        assert!(text.contains(flag) && text.contains(&variable), "{text}");
        assert!(text.contains("processes are listed with their flags") && !text.contains("hu"), "{text}");
    }
    for url in ["sqlite://a:b@c.db", "sqlite:///srv/handover.db", "mysql://shop@db:3306/shop@eu"] {
        assert!(load("--database", "database.url", url).is_ok(), "{url}");
    }
}

#[test]
fn a_url_that_cannot_be_read_is_refused_without_what_may_be_its_password() {
    for (variable, url) in [
        ("HANDOVER_DATABASE__URL", "mysql://shop:hu?sh@db/shop"),
        ("HANDOVER_DATABASE__URL", "mysql://shop:hu/sh@db/shop"),
        ("HANDOVER_DATABASE__URL", "postgres://shop@db/shop?pass=hu@sh"),
        ("HANDOVER_DATABASE__URL", "shop:hush@db/shop"),
        ("HANDOVER_BROKER__URL", "amqp:shop:hush@rabbit"),
        ("HANDOVER_LOG__TRACES", "http://me:hush@collector:4318"),
        ("HANDOVER_BROKER__URL", "amqp://shop:hu?sh@rabbit:x"),
        ("HANDOVER_BROKER__URL", "rabbit:hush@rabbit"),
    ] {
        let text = complaint(load(&[(variable, url)]));
        assert!(text.contains(variable) && !text.contains("hu") && !text.contains("sh@"), "{url}: {text}");
    }
}

#[test]
fn pending_minutes_may_be_fractions_to_the_millisecond() {
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
    let text = complaint(load(&[("HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES", "0")]));
    assert!(text.contains("order.timeout.pending-minutes in the environment variable"), "{text}");
}

#[test]
fn every_limit_is_checked_and_the_complaint_names_the_key() {
    for (name, key, values) in [
        ("HANDOVER_OUTBOX__BATCH", "outbox.batch", &["0", "10001", "-1", "many", "1.5"][..]),
        ("HANDOVER_CONSUMER__PREFETCH", "consumer.prefetch", &["0", "65536", "-1"]),
        ("HANDOVER_CONSUMER__RETRY_THRESHOLD", "consumer.retry-threshold", &["-1", "101"]),
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
        ("HANDOVER_CONSISTENCY__INTERVAL", "consistency.interval", &["0s", "999ms", "25h"]),
        ("HANDOVER_GATEWAY__SANDBOX_DELAY", "gateway.sandbox-delay", &["0s", "61m"]),
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
        ("HANDOVER_LOG__LEVEL", "log.level", &["", "a=b=c"]),
        ("HANDOVER_LOG__TRACES", "log.traces", &["", "collector:4318", "https://collector", "http://"]),
        ("HANDOVER_HTTP__LISTEN", "http.listen", &["8080", "127.0.0.1", "127.0.0.1:70000", ""]),
        ("HANDOVER_HTTP__OPS_LISTEN", "http.ops-listen", &["8080", "127.0.0.1:8080", ""]),
        ("HANDOVER_HTTP__CONCURRENT_REQUESTS", "http.concurrent-requests", &["0", "100001", "-1", "many"]),
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
    ] {
        for value in values {
            let text = complaint(load(&[(name, value)]));
            let start = format!("{key} in the environment variable {name} is ");
            assert!(text.starts_with(&start), "{text}");
        }
    }
}

#[test]
fn a_consumer_lease_must_outlive_its_attempt() {
    let text = complaint(load(&[("HANDOVER_CONSUMER__ATTEMPT_TIMEOUT", "20s")]));
    assert!(text.contains("consumer.lease in the built-in default is \"15s\""), "{text}");
    assert!(text.contains("above consumer.attempt-timeout, which is \"20s\""), "{text}");
    load(&[("HANDOVER_CONSUMER__ATTEMPT_TIMEOUT", "20s"), ("HANDOVER_CONSUMER__LEASE", "21s")]).unwrap();
}

#[test]
fn retry_policies_that_spin_shrink_or_mean_nothing_are_refused() {
    for (value, why) in [
        (r#"{policy = "schedule", delays = ["0s"]}"#, "spin"),
        (r#"{policy = "schedule", delays = ["5s", "4s"]}"#, "shrink"),
        (r#"{policy = "schedule", delays = []}"#, "1 to 100 delays"),
        (r#"{policy = "schedule", delays = ["2h"]}"#, "an hour"),
        (r#"{policy = "schedule", delays = [5]}"#, "no duration"),
        (r#"{policy = "schedule"}"#, "delays is missing"),
        (r#"{policy = "schedule", delays = ["5s"], base = "5s"}"#, "base means nothing here"),
        (r#"{policy = "exponential", base = "0s", cap = "1s", max-attempts = 2}"#, "spin"),
        (r#"{policy = "exponential", base = "5s", cap = "1s", max-attempts = 2}"#, "cap is below"),
        (r#"{policy = "exponential", base = "5s", cap = "2h", max-attempts = 2}"#, "an hour"),
        (r#"{policy = "exponential", base = "5s", max-attempts = 0}"#, "max-attempts"),
        (r#"{policy = "exponential", base = "5s", max-attempts = 3, jitter = 1.1}"#, "from 0 to 1"),
        (r#"{policy = "exponential", base = "5s"}"#, "max-attempts is missing"),
        (r#"{policy = "linear"}"#, "no policy called"),
        (r#"{delays = ["5s"]}"#, "policy is missing"),
        ("5s", "no inline table"),
    ] {
        let text = complaint(load(&[("HANDOVER_OUTBOX__RETRY", value)]));
        assert!(text.starts_with("outbox.retry in") && text.contains(why), "{value}: {text}");
    }
    for (value, why) in [
        (r#"{base = "0s", cap = "5s"}"#, "spin"),
        (r#"{base = "6s", cap = "5s"}"#, "cap is below"),
        (r#"{base = "6s"}"#, "cap is missing"),
        (r#"{base = "1s", cap = "2s", jitter = 1}"#, "jitter means nothing here"),
    ] {
        let text = complaint(load(&[("HANDOVER_CONSUMER__BACKOFF", value)]));
        assert!(text.starts_with("consumer.backoff in") && text.contains(why), "{value}: {text}");
    }
}

#[test]
fn words_choose_what_happens_after_failures_and_outages() {
    let config =
        load(&[("HANDOVER_OUTBOX__ON_FAILED", "hold"), ("HANDOVER_OUTBOX__OUTAGE", "count")]).unwrap();
    assert_eq!(config.settings.relay.on_failed, OnFailed::Hold);
    assert_eq!(config.settings.relay.on_outage, OnOutage::Count);
}

#[test]
fn a_database_is_a_file_or_on_a_server() {
    let database = |url: &str| load(&[("HANDOVER_DATABASE__URL", url)]).map(|config| config.database);
    let file = |url: &str| database(url).unwrap().file().map(Path::to_owned);
    assert_eq!(file("sqlite://shop.db"), Some("shop.db".into()));
    assert_eq!(file("sqlite:///srv/shop.db"), Some("/srv/shop.db".into()));
    for url in ["sqlite://", "sqlite::memory:", "sqlite:///srv/", "shop.db", "sqlite://a.db?mode=ro", ""] {
        assert!(database(url).is_err(), "{url}");
    }
    for (url, place) in [
        ("mysql://shop:hush@db/shop", "mysql://shop@db:3306/shop"),
        ("mariadb://shop:hush@db:3307/shop?ssl-mode=REQUIRED", "mysql://shop@db:3307/shop"),
        ("postgres://shop:hush@db/shop", "postgres://shop@db:5432/shop"),
        ("postgresql://shop:hush@db:5433/shop", "postgres://shop@db:5433/shop"),
    ] {
        let config = load(&[("HANDOVER_DATABASE__URL", url)]).unwrap();
        assert_eq!(config.database.to_string(), place);
        assert!(!format!("{config:?}").contains("hush"));
    }
    for url in
        ["mysql://shop:hush@db", "postgres://shop:hush@db:port/shop", "postgres://shop:hush@db/shop?ssl=yes"]
    {
        let text = complaint(load(&[("HANDOVER_DATABASE__URL", url)]));
        assert!(
            text.contains("mysql://user:password@host:3306/database") && !text.contains("hush"),
            "{text}"
        );
    }
}

#[test]
fn a_broker_is_in_the_database_or_rabbitmq() {
    let broker = |url: &str| load(&[("HANDOVER_BROKER__URL", url)]);
    assert!(matches!(broker("memory:").unwrap().broker, BrokerChoice::Memory));
    for url in ["kafka:", "amqp:", "http://shop:hush@mq/"] {
        let text = complaint(broker(url));
        assert!(text.contains("amqp://user:password@host:5672/vhost") && !text.contains("hush"), "{text}");
    }
    let server = ("HANDOVER_DATABASE__URL", "postgres://shop@db/shop");
    let text = complaint(load(&[server, ("HANDOVER_BROKER__URL", "memory:")]));
    assert!(text.contains("other processes"), "{text}");
    let rabbit = |more: &[(&str, &str)]| {
        let url = ("HANDOVER_BROKER__URL", "amqps://shop:hush@mq/orders");
        match load(&[&[url], more].concat()).unwrap().broker {
            BrokerChoice::Rabbit(settings) => *settings,
            other @ (BrokerChoice::Database | BrokerChoice::Memory) => panic!("{other:?}"),
        }
    };
    let settings = rabbit(&[("HANDOVER_RABBITMQ__QUEUE_TYPE", "classic")]);
    assert!(!format!("{settings:?}").contains("hush"));
    assert_eq!(settings.queue_type, QueueType::Classic);
    assert_eq!(rabbit(&[]).queue_type, QueueType::Quorum);
    // Below that of the relay, which would know less of a late confirm.
    assert_eq!(rabbit(&[]).confirm_timeout, Duration::from_millis(9_500));
    assert_eq!(
        rabbit(&[("HANDOVER_OUTBOX__CONFIRM_TIMEOUT", "600ms")]).confirm_timeout,
        Duration::from_millis(300)
    );
}

#[test]
fn authorities_are_files_with_certificates_for_servers() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (good, bad) =
        (file("ca.pem", "-----BEGIN CERTIFICATE-----\n"), file("key.pem", "-----BEGIN KEY-----\n"));
    let database = ("HANDOVER_DATABASE__URL", "mysql://shop@db/shop");
    let broker = ("HANDOVER_BROKER__URL", "amqps://mq/");
    for (url, name, key) in [
        (database, "HANDOVER_DATABASE__CA_FILE", "database.ca-file"),
        (broker, "HANDOVER_BROKER__CA_FILE", "broker.ca-file"),
    ] {
        load(&[url, (name, &good)]).unwrap();
        for path in [bad.as_str(), "/nowhere/ca.pem"] {
            assert!(complaint(load(&[url, (name, path)])).starts_with(&format!("{key} in ")));
        }
        // There is no server.
        assert!(complaint(load(&[(name, &good)])).starts_with(&format!("{key} in ")));
    }
    let plain = ("HANDOVER_BROKER__URL", "amqp://mq/");
    assert!(complaint(load(&[plain, ("HANDOVER_BROKER__CA_FILE", &good)])).contains("amqps://"));
}

#[test]
fn a_secret_of_digits_stays_text_and_is_never_shown() {
    let secret = "00000000000000000000000000000001";
    let config = load(&[("HANDOVER_AUTH__JWT_SECRET", secret)]).unwrap();
    assert_eq!(config.jwt_secret.as_ref().unwrap().reveal(), secret);
    assert!(!format!("{config:?}").contains(secret));
    assert!(!complaint(load(&[("HANDOVER_AUTH__JWT_SECRET", "hush")])).contains("hush"));
    assert!(!complaint(load(&[("HANDOVER_GATEWAY__SECRET", "hush")])).contains("hush"));
    let signing = format!("whsec_{}", "ab".repeat(32));
    load(&[("HANDOVER_GATEWAY__SECRET", &signing)]).unwrap();
}
