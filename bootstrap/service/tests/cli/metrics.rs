//! `/metrics` in the format of Prometheus.

use std::collections::BTreeSet;

use handover_outbox::MetricKind;

use crate::inspect::market;
use crate::monitoring::promtool::promtool;
use crate::program::{Server, World, answer, eventually};

/// The eleven metrics of document 004 with their Prometheus names and kinds. They never change.
const OF_DOCUMENT_004: [(&str, &str); 11] = [
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
];

/// State metrics that only a database server has; a database file has no transactions of other processes.
const OF_SERVERS: [&str; 3] = [
    "handover_database_oldest_transaction_seconds",
    "handover_database_dead_rows",
    "handover_database_history_length",
];

/// Every metric of the list with its kind in the format of Prometheus.
fn listed() -> Vec<(String, &'static str)> {
    let metrics = handover_runtime::metrics::of_toolkit().chain(marketplace::METRICS);
    let listed = metrics.map(|metric| {
        let kind = match metric.kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge | MetricKind::State => "gauge",
            MetricKind::Histogram => "histogram",
        };
        (metric.exported_name(), kind)
    });
    listed.collect()
}

#[test]
fn every_metric_is_exported_with_help_and_counts_events() {
    let world = World::new().set("HANDOVER_METRICS__STATE_INTERVAL", "100ms");
    let server = market(&world);
    let exported = || server.text("GET /metrics");
    let listed = listed();
    for (name, kind) in OF_DOCUMENT_004 {
        assert!(listed.contains(&(name.to_owned(), kind)), "{name}");
    }
    let value = |line: &str| value(&server, line);
    assert_eq!(value("outbox_event_created_total"), 4);
    eventually(|| value("outbox_event_sent_total") == 4);
    eventually(|| value("consumer_event_consumed_total{consumer=\"inventory\"}") == 2);
    assert_eq!(value("outbox_event_failed_total"), 0);
    assert_eq!(value("handover_publishes_total{result=\"confirmed\"}"), 4);
    assert_eq!(value("handover_commit_to_effect_seconds_count{consumer=\"inventory\"}"), 2);
    assert_eq!(value("handover_publish_attempts_bucket{le=\"1\"}"), 4);
    assert_eq!(value("handover_consumer_attempts_bucket{consumer=\"inventory\",le=\"1\"}"), 2);
    assert_eq!(value("handover_relay_partitions "), 64);
    assert_eq!(value("handover_pool_connections_max{pool=\"writer\"}"), 1);
    eventually(|| {
        exported().contains("handover_consumer_deliveries_total{consumer=\"inventory\",result=\"acked\"} 2\n")
    });
    let build = format!("commit=\"unknown\",schema=\"{}\"}} 1\n", handover_sql::outbox_schema());
    assert!(exported().contains(&build), "{}", exported());
    let has = |text: &str, start: &str| text.lines().any(|line| line.starts_with(start));
    // Metrics of the state, and of a job that runs later.
    let has_values = |(name, _): &&(String, &str)| !OF_SERVERS.contains(&name.as_str());
    for (name, kind) in listed.iter().filter(has_values) {
        eventually(|| has(&exported(), &format!("# TYPE {name} {kind}")));
        let text = exported();
        assert!(has(&text, &format!("# HELP {name} ")), "no help of {name}: {text}");
        let values = [" ", "{", "_count"].map(|end| format!("{name}{end}"));
        assert!(values.iter().any(|start| has(&text, start)), "no value of {name}: {text}");
    }
    promtool(&world.path(""), &["check", "metrics"], &exported());
    // The objective of effects reads this bucket by its exact label.
    assert_eq!(value("handover_commit_to_effect_seconds_bucket{consumer=\"inventory\",le=\"60\"}"), 2);
    eventually(|| value("outbox_event_pending ") == 0);
    assert!(OF_SERVERS.iter().all(|name| !exported().contains(name)), "{}", exported());
    assert_eq!(value("handover_broker_unreachable_seconds "), 0);
    assert_eq!(value("handover_holds_overdue "), 0);
    let dead_letters = "handover_dead_letters_open{queue=\"inventory.update.queue\",consumer=\"inventory\"}";
    assert_eq!(value(dead_letters), 0);
    assert_eq!(value("handover_queue_messages_ready{queue=\"order.dlq.queue\"}"), 0);
    assert_eq!(value("handover_outbox_partitions_without_owner "), 0);
    let labels: BTreeSet<String> = exported()
        .lines()
        .filter_map(|line| Some(line.split_once('{')?.1.split_once('}')?.0.to_owned()))
        .flat_map(|labels| {
            labels.split(',').map(|label| label.split('=').next().unwrap().to_owned()).collect::<Vec<_>>()
        })
        .collect();
    let known = [
        "alert",
        "commit",
        "consumer",
        "job",
        "kind",
        "le",
        "method",
        "percentile",
        "pool",
        "queue",
        "result",
        "route",
        "schema",
        "state",
        "status",
        "version",
    ];
    assert!(labels.iter().all(|label| known.contains(&label.as_str())), "{labels:?}");
}

/// The value of the metric with this name and these labels.
#[track_caller]
fn value(server: &Server, line: &str) -> u64 {
    let text = server.text("GET /metrics");
    let found = text.lines().find_map(|each| each.strip_prefix(line)?.trim().parse::<u64>().ok());
    found.unwrap_or_else(|| panic!("no {line}: {text}"))
}

#[test]
fn alert_starts_by_its_cause_is_acknowledged_and_ends_with_it() {
    let world =
        World::new().set("HANDOVER_METRICS__STATE_INTERVAL", "100ms").set("HANDOVER_ALERTS__OUTBOX_NEW", "1");
    world.run("migrate").done();
    let before_evaluation = world.run("alerts").stderr;
    assert!(before_evaluation.contains("no alert is active"), "{before_evaluation}");
    assert!(before_evaluation.contains("no running process evaluates the alerts"), "{before_evaluation}");
    let before_first_sample = world.run("stats --since 5m");
    assert!(before_first_sample.stderr.contains("these are the present figures"));
    assert_eq!(before_first_sample.done(), world.run("stats").done());
    let server = world.serve("--roles api,jobs");
    let [seller, buyer] = [1, 2].map(|user| world.token(&format!("--user {user}")));
    server.ask(&seller, "POST /api/v1/products", r#"{"title":"Desk lamp","price":88.50}"#);
    let active = || world.run("alerts --output json").json()["items"].as_array().unwrap().clone();
    let names =
        || active().iter().map(|alert| alert["alert"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    server.ask(&buyer, "POST /api/v1/orders", r#"{"productId":1}"#);
    // Two events, and no relay.
    eventually(|| names().contains(&"outbox-new".to_owned()));
    let alert = active().into_iter().find(|alert| alert["alert"] == "outbox-new").unwrap();
    assert_eq!((&alert["value"], &alert["limit"]), (&2.0.into(), &"1".into()));
    let gauge = |name: &str| format!("handover_alert_{name}{{alert=\"outbox-new\"}}");
    eventually(|| value(&server, &gauge("active")) == 1);
    assert_eq!(world.run("alerts").stderr, "", "a process evaluates the alerts");
    let acknowledge = "alerts acknowledge outbox-new --for 1h --reason planned --output json";
    assert_eq!(world.run(acknowledge).json()["acknowledged"], true);
    eventually(|| value(&server, &gauge("acknowledged")) == 1);
    assert_eq!(world.run("alerts acknowledge outbox-old --for 1h --reason planned").code, Some(1));
    assert!(world.run("stats").done().contains("outbox-new"));
    drop(server);
    let server = world.serve("");
    eventually(|| value(&server, &gauge("active")) == 0);
    assert!(!names().contains(&"outbox-new".to_owned()));
    // The first minute has not ended yet.
    let history = world.run("stats --since 1h --output json");
    assert!(history.json()["items"].is_array());
}

#[test]
fn webhooks_are_counted_by_state_age_and_outcome() {
    let world = World::new()
        .set("HANDOVER_METRICS__STATE_INTERVAL", "100ms")
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

#[test]
fn process_without_api_serves_metrics_and_health_checks_on_metrics_listen() {
    let world = World::new()
        .set("HANDOVER_METRICS__LISTEN", "127.0.0.1:0")
        .set("HANDOVER_METRICS__STATE_INTERVAL", "100ms");
    let server = world.serve("--roles relay,consumers");
    eventually(|| server.text("GET /metrics").contains("\nhandover_outbox_partitions_without_owner 0\n"));
    assert_eq!(value(&server, "outbox_event_sent_total "), 0);
    let status = |request: &str| answer(&server.address, "", request, "").0;
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(status(&format!("GET {path}")), 200, "{path}");
    }
    for path in ["/api/v1/products", "/api/v1/ops/stats", "/openapi.json", "/docs"] {
        assert_eq!(status(&format!("GET {path}")), 404, "{path}");
    }
    assert_eq!(status("POST /metrics"), 405);
}
