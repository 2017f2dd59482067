//! All errors are reported at once, without those that only follow from another.

use super::{error_texts, file, load, load_file};
use crate::settings::Config;
use handover_runtime::config::{ConfigErrors, Configuration, Shown};

fn keys(errors: &ConfigErrors) -> Vec<Option<&'static str>> {
    errors.iter().map(|error| error.key()).collect()
}

#[test]
fn all_invalid_keys_and_values_are_reported_at_once() {
    let (_folder, mut sources) = file(
        "x = 1\nlog = 3\n[consumer]\nprefetch = 0\nfoo = 1\n[kafka]\nurl = \"x\"\n[gateway]\nurl = \"ftp://x\"\n",
    );
    sources.variables = [("HANDOVER_OUTBOX__BACTH", "5"), ("HANDOVER_HTTP__LISTEN", "8080")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    sources.flags = vec![("--database", "database.url", "postgres://shop:hush@db/shop".to_owned())];
    let texts = error_texts(Config::load(&sources));
    for part in [
        "unknown key x in",
        "log in the file",
        "consumer.prefetch in the file",
        "unknown key consumer.foo in",
        "unknown section kafka in",
        "gateway.url in the file",
        "unknown key HANDOVER_OUTBOX__BACTH in",
        "http.listen in the environment variable",
        "database.url in the flag",
    ] {
        assert_eq!(texts.iter().filter(|text| text.starts_with(part)).count(), 1, "{part}: {texts:#?}");
    }
    assert_eq!(texts.len(), 9, "{texts:#?}");
}

#[test]
fn conflicting_values_cause_one_error_and_hide_no_other_error() {
    let errors = load(&[
        ("HANDOVER_CONSUMER__ATTEMPT_TIMEOUT", "20s"),
        ("HANDOVER_CONSUMER__SWEEP_INTERVAL", "0s"),
        ("HANDOVER_RATE_LIMIT__STORE", "redis"),
        ("HANDOVER_IDEMPOTENCY__STORE", "redis"),
        ("HANDOVER_RATE_LIMIT__PER_SECOND", "0.002"),
    ]);
    let mut keys = keys(&errors.unwrap_err());
    keys.sort_unstable();
    let expected = [
        "consumer.lease",
        "consumer.sweep-interval",
        "idempotency.store",
        "rate-limit.capacity",
        "rate-limit.store",
    ];
    assert_eq!(keys, expected.map(Some));
}

/// The second value of each pair is valid with the intended first value.
#[test]
fn error_that_only_follows_from_another_is_not_reported() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.json");
    let key = r#"{"kty":"OKP","crv":"Ed25519","kid":"k","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;
    std::fs::write(&keys, format!(r#"{{"keys":[{key}]}}"#)).unwrap();
    for (invalid, dependent) in [
        (("HANDOVER_CONSUMER__ATTEMPT_TIMEOUT", "1 sek"), ("HANDOVER_CONSUMER__LEASE", "5s")),
        (("HANDOVER_IDEMPOTENCY__LEASE", "1 sek"), ("HANDOVER_IDEMPOTENCY__KEEP", "1m")),
        (("HANDOVER_GATEWAY__RETRY_BASE", "1 sek"), ("HANDOVER_GATEWAY__RETRY_CAP", "1s")),
        (("HANDOVER_CONSISTENCY__INTERVAL", "1 std"), ("HANDOVER_CONSISTENCY__SCAN_WINDOW_HOURS", "1")),
        (("HANDOVER_REDIS__URL", "radis://cache"), ("HANDOVER_RATE_LIMIT__STORE", "redis")),
        (("HANDOVER_REDIS__ULR", "redis://cache"), ("HANDOVER_RATE_LIMIT__STORE", "redis")),
        (("HANDOVER_RATE_LIMIT__STORE", "rediss"), ("HANDOVER_REDIS__URL", "redis://cache")),
        (("HANDOVER_RATE_LIMIT__PER_SECOND", "fast"), ("HANDOVER_RATE_LIMIT__CAPACITY", "1000000")),
        (("HANDOVER_HTTP__LISTEN", "all:80"), ("HANDOVER_HTTP__OPS_LISTEN", "127.0.0.1:8080")),
        (("HANDOVER_AUTH__AUDIANCE", "shop"), ("HANDOVER_AUTH__JWKS_FILE", keys.to_str().unwrap())),
    ] {
        let texts = error_texts(load(&[invalid, dependent]));
        assert!(texts.len() == 1 && texts[0].contains(invalid.0), "{texts:#?}");
    }
    for file in ["[redis\nurl = \"redis://cache\"\n", "[reddis]\nurl = \"redis://cache\"\n"] {
        let (_folder, mut sources) = super::file(file);
        sources.variables = vec![("HANDOVER_RATE_LIMIT__STORE".to_owned(), "redis".to_owned())];
        let texts = error_texts(Config::load(&sources));
        assert!(texts.len() == 1 && texts[0].contains("shop.toml"), "{texts:#?}");
    }
}

#[test]
fn invalid_configuration_is_described_with_its_errors() {
    let (_folder, sources) = file("[consumer]\nprefetch = 0\n[gateway]\nsecret = \"hush\"\n[kafka]\n");
    let description = Config::describe(&sources);
    let shown = |key: &str| {
        let setting = description.settings.iter().find(|setting| setting.key == key).unwrap();
        (setting.value.clone(), description.error_of(key).is_some())
    };
    assert_eq!(shown("consumer.prefetch"), (Shown::Value { text: "0".to_owned(), json: 0.into() }, true));
    assert_eq!(shown("gateway.secret"), (Shown::Hidden, true));
    assert!(!shown("consumer.lease").1);
    assert_eq!(keys(description.errors.as_ref().unwrap()).len(), 3);
    assert!(Config::describe(&super::variables(&[])).errors.is_none());
}

#[test]
fn malformed_file_hides_no_error_of_a_variable() {
    let (_folder, mut sources) = file("[outbox\n");
    sources.variables = vec![("HANDOVER_OUTBOX__BATCH".to_owned(), "0".to_owned())];
    assert_eq!(error_texts(Config::load(&sources)).len(), 2);
    assert_eq!(error_texts(load_file("[outbox\n")).len(), 1);
}
