use std::time::Duration;

use handover_events::{Jitter, RetryPolicy};

use super::{error_text, file, load, load_file, variables};
use crate::settings::Config;
use handover_runtime::config::{Configuration, Sources};

#[test]
fn flag_overrides_variable_overrides_file_overrides_default() {
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
fn later_layer_replaces_whole_inline_table() {
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
        panic!("not an exponential policy");
    };
    assert_eq!((base.as_secs(), cap.as_secs(), max_attempts.get()), (2, 10, 5));
    assert_eq!(jitter, Jitter::percent(20).unwrap());
    assert_eq!(config.rules.max_retry_count, 4);
    assert_eq!(config.settings.consumer.prefetch.get(), 3);
}

#[test]
fn unknown_key_error_names_key_file_and_nearest_key() {
    let text = error_text(load_file("[outbox]\nbacth = 5\n"));
    for part in ["unknown key outbox.bacth", "shop.toml", "did you mean outbox.batch?"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(error_text(load_file("listen = \"127.0.0.1:1\"\n")).contains("did you mean http.listen?"));
}

#[test]
fn unknown_section_error_names_nearest_section() {
    for (written, section, nearest) in [
        ("[databse]\nurl = \"sqlite://shop.db\"\n", "databse", "[database]"),
        ("[oubtox]\nbatch = 5\nfoo = 1\n", "oubtox", "[outbox]"),
        ("[order.timout]\npending-minutes = 1\n", "order.timout", "[order.timeout]"),
    ] {
        let text = error_text(load_file(written));
        assert!(text.starts_with(&format!("unknown section {section} in the file ")), "{text}");
        assert!(text.ends_with(&format!("did you mean {nearest}? otherwise remove it")), "{text}");
    }
}

#[test]
fn unknown_key_without_similar_key_gets_no_suggestion() {
    for file in ["[kafka]\nurl = \"x\"\n", "[outbox]\nfoo = 1\n", "[kafka.consumer]\nid = 1\n", "x = 1\n"] {
        let text = error_text(load_file(file));
        assert!(text.starts_with("unknown ") && !text.contains("did you mean"), "{text}");
        assert!(text.contains("remove it; `handover config show` lists every key"), "{text}");
    }
    for variable in ["HANDOVER_OUTBOX__FOO", "HANDOVER_HTTP__PORT"] {
        let text = error_text(load(&[(variable, "x")]));
        assert!(text.contains(variable) && !text.contains("did you mean"), "{text}");
    }
    for (key, intended) in [
        ("HANDOVER_ORDER__TIMEOUT__MINUTES", "HANDOVER_ORDER__TIMEOUT__PENDING_MINUTES?"),
        ("HANDOVER_CONSUMERS__PREFETCH", "HANDOVER_CONSUMER__PREFETCH?"),
        ("HANDOVER_DATABSE__FOO", "HANDOVER_DATABASE__...?"),
    ] {
        let text = error_text(load(&[(key, "x")]));
        assert!(text.contains(&format!("did you mean {intended}")), "{text}");
    }
}

#[test]
fn variable_that_is_no_key_is_ignored_with_warning_that_names_nearest_key() {
    for (variable, intended) in [
        ("HANDOVER_OUTBOX_BATCH", "HANDOVER_OUTBOX__BATCH"),
        ("HANDOVER_LOG_LEVEL", "HANDOVER_LOG__LEVEL"),
        ("HANDOVER_LISTEN", "HANDOVER_HTTP__LISTEN"),
    ] {
        load(&[(variable, "x")]).unwrap();
        let expected = format!("ignored, not a configuration key: {variable}; did you mean {intended}?");
        assert_eq!(Config::keys().warnings(&variables(&[(variable, "x")])), [expected]);
    }
    let others = variables(&[("HANDOVER_KAFKA__URL", "x"), ("HANDOVER_FOO", "x"), ("HANDOVER_", "x")]);
    let expected = "ignored, not a configuration key: HANDOVER_, HANDOVER_FOO, HANDOVER_KAFKA__URL";
    assert_eq!(Config::keys().warnings(&others), [expected]);
    assert!(Config::keys().warnings(&variables(&[("HANDOVER_OUTBOX__BATCH", "5")])).is_empty());
}

#[test]
fn variables_of_a_kubernetes_service_are_ignored_with_one_warning() {
    let mut set = Vec::new();
    for service in ["HANDOVER", "HANDOVER_DB", "HANDOVER_HTTP", "HANDOVER_ORDER", "HANDOVER__DB"] {
        set.extend(
            ["PORT", "SERVICE_HOST", "SERVICE_PORT", "SERVICE_PORT_HTTP"]
                .map(|end| format!("{service}_{end}")),
        );
        let port = format!("{service}_PORT_8080_TCP");
        set.extend(["", "_PROTO", "_PORT", "_ADDR"].map(|end| format!("{port}{end}")));
    }
    let sources = Sources {
        variables: set.iter().map(|name| (name.clone(), "tcp://10.0.0.1:8080".to_owned())).collect(),
        ..Sources::default()
    };
    Config::load(&sources).unwrap();
    let warnings = Config::keys().warnings(&sources);
    assert_eq!(warnings.len(), 1, "{warnings:#?}");
    assert!(warnings[0].ends_with("for a Service unless enableServiceLinks is false"), "{warnings:#?}");
    for name in &set {
        assert!(warnings[0].contains(name), "{name}");
    }
}

#[test]
fn unknown_variable_error_names_variable_and_nearest_one() {
    let text = error_text(load(&[("HANDOVER_OUTBOX__SCAN_INTERVALL", "5s")]));
    assert!(text.contains("environment variable HANDOVER_OUTBOX__SCAN_INTERVALL"), "{text}");
    assert!(text.contains("did you mean HANDOVER_OUTBOX__SCAN_INTERVAL?"), "{text}");
}

#[test]
fn variables_that_are_not_settings_are_ignored() {
    let set = ["HOME", "HANDOVER_CONFIG"].map(|name| (name, "1"));
    load(&set).unwrap();
    assert!(Config::keys().warnings(&variables(&set)).is_empty());
}

#[test]
fn value_in_place_of_section_is_refused() {
    assert!(error_text(load_file("order = 3\n")).contains("order in the file"));
}

#[test]
fn named_file_must_exist_and_be_toml() {
    let missing = Sources { file: Some("/nowhere/shop.toml".into()), ..Sources::default() };
    assert!(error_text(Config::load(&missing)).contains("/nowhere/shop.toml cannot be read"));
    let error = load_file("[http\n").unwrap_err();
    assert!(error.to_string().contains("is not valid TOML"), "{error}");
}
