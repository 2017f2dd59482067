use tracing::Level;

use super::{error_text, load};

fn level(directives: &str) -> Result<crate::settings::Config, handover_runtime::config::ConfigErrors> {
    load(&[("HANDOVER_LOG__LEVEL", directives)])
}

#[test]
fn log_level_accepts_a_level_or_levels_per_target() {
    for (directives, target, most) in [
        ("info", "handover", Some(Level::INFO)),
        ("WARN", "handover", Some(Level::WARN)),
        ("off", "handover", None),
        ("info,handover_outbox=debug", "handover_outbox::relay", Some(Level::DEBUG)),
        ("info,handover_outbox=debug", "handover", Some(Level::INFO)),
        ("info, handover_outbox::relay=trace,", "handover_outbox::relay", Some(Level::TRACE)),
        ("info,handover_outbox=warn,handover_outbox::relay=debug", "handover_outbox", Some(Level::WARN)),
        ("handover_outbox=", "handover_outbox", Some(Level::TRACE)),
        ("handover_outbox=debug", "handover", None),
        ("info,handover_sql=off", "handover_sql", None),
        ("trace", "lapin::channel", None),
        ("info,lapin=warn", "lapin::channel", Some(Level::WARN)),
    ] {
        let filter = level(directives).unwrap().log.filter;
        for one in [Level::ERROR, Level::WARN, Level::INFO, Level::DEBUG, Level::TRACE] {
            let enabled = most.is_some_and(|most| one <= most);
            assert_eq!(filter.would_enable(target, &one), enabled, "{directives}: {target} at {one}");
        }
    }
}

#[test]
fn log_level_with_spans_is_refused_with_supported_syntax() {
    for directives in [
        "[request]=debug",
        "info,marketplace_http[request]=debug",
        "handover[request{id=7}]=trace",
        "info,[{id}]",
    ] {
        let text = error_text(level(directives));
        assert!(text.starts_with("log.level in the environment variable HANDOVER_LOG__LEVEL is "), "{text}");
        assert!(text.contains("filters by span or field ([...]) are not supported"), "{text}");
        assert!(text.contains("info,handover_outbox=debug"), "{text}");
    }
    for directives in
        ["", " ", "a=b=c", "info,handover=loud", "=debug", "info,%", "inof", "info,handover_sql"]
    {
        let text = error_text(level(directives));
        assert!(text.contains("it is neither a level nor a list of directives"), "{text}");
    }
}
