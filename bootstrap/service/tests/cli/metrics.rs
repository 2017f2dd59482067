//! `/metrics` in the format of Prometheus.

use crate::inspect::market;
use crate::program::{World, eventually};

/// The metrics of document 004 with their Prometheus names and kinds, then those of this service.
const NAMES: [(&str, &str); 18] = [
    ("outbox_event_created_total", "counter"),
    ("outbox_event_sent_total", "counter"),
    ("outbox_event_failed_total", "counter"),
    ("outbox_event_dead_total", "counter"),
    ("outbox_event_pending", "gauge"),
    ("consumer_event_consumed_total", "counter"),
    ("consumer_event_idempotent_total", "counter"),
    ("consumer_event_failed_total", "counter"),
    ("reaper_lock_released_total", "counter"),
    ("consistency_event_missing_total", "counter"),
    ("consistency_event_repaired_total", "counter"),
    ("handover_outbox_oldest_due_seconds", "gauge"),
    ("handover_log_lines_dropped_total", "counter"),
    ("handover_overload_refused_total", "counter"),
    ("handover_ratelimit_refused_total", "counter"),
    ("handover_ratelimit_fallback_total", "counter"),
    ("handover_ratelimit_redis_unavailable", "gauge"),
    ("handover_idempotency_redis_unavailable", "gauge"),
];

#[test]
fn every_metric_is_exported_with_help_and_counts_events() {
    let world = World::new();
    let server = market(&world);
    let exported = || server.text("GET /metrics");
    for (name, kind) in NAMES {
        let text = exported();
        let has = |start: &str| text.lines().any(|line| line.starts_with(start));
        assert!(has(&format!("# TYPE {name} {kind}")), "no {name}: {text}");
        assert!(has(&format!("# HELP {name} ")), "no help of {name}: {text}");
        assert!(has(&format!("{name} ")) || has(&format!("{name}{{consumer=")), "no value of {name}: {text}");
    }
    let value = |line: &str| {
        let text = exported();
        let found = text.lines().find_map(|each| each.strip_prefix(line)?.trim().parse::<u64>().ok());
        found.unwrap_or_else(|| panic!("no {line}: {text}"))
    };
    assert_eq!(value("outbox_event_created_total"), 4);
    eventually(|| value("outbox_event_sent_total") == 4);
    eventually(|| value("consumer_event_consumed_total{consumer=\"inventory\"}") == 2);
    assert_eq!(value("outbox_event_failed_total"), 0);
    let labels: Vec<String> =
        exported().lines().filter_map(|line| Some(line.split_once('{')?.1.to_owned())).collect();
    assert!(labels.iter().all(|label| label.starts_with("consumer=\"")), "no other label: {labels:?}");
}
