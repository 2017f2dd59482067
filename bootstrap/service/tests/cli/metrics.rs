//! `/metrics` in the format of Prometheus.

use crate::inspect::market;
use crate::program::{Server, World, eventually};

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
    let value = |line: &str| value(&server, line);
    assert_eq!(value("outbox_event_created_total"), 4);
    eventually(|| value("outbox_event_sent_total") == 4);
    eventually(|| value("consumer_event_consumed_total{consumer=\"inventory\"}") == 2);
    assert_eq!(value("outbox_event_failed_total"), 0);
    let labels: Vec<String> =
        exported().lines().filter_map(|line| Some(line.split_once('{')?.1.to_owned())).collect();
    assert!(labels.iter().all(|label| label.starts_with("consumer=\"")), "no other label: {labels:?}");
}

/// The value of the metric with this name and these labels.
#[track_caller]
fn value(server: &Server, line: &str) -> u64 {
    let text = server.text("GET /metrics");
    let found = text.lines().find_map(|each| each.strip_prefix(line)?.trim().parse::<u64>().ok());
    found.unwrap_or_else(|| panic!("no {line}: {text}"))
}

#[test]
fn webhooks_are_counted_by_state_age_and_outcome() {
    let world = World::new()
        .set("HANDOVER_WEBHOOK__ALLOW_NETWORKS", "[127.0.0.0/8]")
        .set("HANDOVER_WEBHOOK__DELAYS", "[10ms]");
    let gauges = ["deliveries_pending", "deliveries_dead", "endpoints_disabled"];
    let all = |server: &Server| gauges.map(|name| value(server, &format!("handover_webhook_{name} ")));
    let server = world.serve("--roles api");
    let create = "webhook create --url http://127.0.0.1:1/ --types order.paid --output json";
    let [enabled, disabled] = [(); 2].map(|()| {
        let endpoint = world.run(create).json();
        endpoint["endpointId"].as_str().unwrap().to_owned()
    });
    world.run(&format!("webhook test {enabled} --type order.paid")).done();
    world.run(&format!("webhook test {disabled} --type order.paid")).done();
    world.run(&format!("webhook disable {disabled}")).done();
    eventually(|| all(&server) == [2, 0, 1] && value(&server, "handover_webhook_oldest_due_seconds ") > 0);
    drop(server);
    // Nothing listens on port 1.
    let server = world.serve("");
    eventually(|| all(&server) == [1, 1, 1]);
    assert_eq!(
        value(&server, "handover_webhook_oldest_due_seconds "),
        0,
        "a disabled endpoint has no due delivery"
    );
    for (outcome, attempts) in [("delivered", 0), ("failed", 2), ("interrupted", 0), ("dead", 1)] {
        assert_eq!(value(&server, &format!("handover_webhook_{outcome}_total ")), attempts, "{outcome}");
    }
}
