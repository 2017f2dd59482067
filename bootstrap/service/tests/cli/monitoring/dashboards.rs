//! Two dashboards of Grafana. The descriptions of their panels are the help texts of the list of metrics.

use serde_json::{Value, json};

use super::names::{metric_of, metrics, names};
use super::service_levels::{EFFECTS, Objective, REQUESTS};

/// A dashboard with panels in rows of three.
pub(crate) struct Dashboard {
    /// File name without extension, and unique id in Grafana.
    pub(crate) name: &'static str,
    title: &'static str,
    pub(crate) panels: Vec<Panel>,
}

pub(crate) struct Panel {
    title: &'static str,
    /// Unit of Grafana.
    unit: &'static str,
    kind: Kind,
    pub(crate) queries: Vec<Query>,
}

pub(crate) struct Query {
    pub(crate) expression: String,
    /// Name of the series, with `{{label}}` for its labels.
    legend: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Lines over time.
    Lines,
    /// The last value of each series.
    Last,
}

const WIDTH: usize = 8;
const HEIGHT: usize = 8;
const COLUMNS: usize = 3;

const PER_SECOND: &str = "cps";
const SECONDS: &str = "s";
const NUMBER: &str = "short";
const SHARE: &str = "percentunit";

fn panel(title: &'static str, unit: &'static str, queries: impl IntoIterator<Item = Query>) -> Panel {
    Panel { title, unit, kind: Kind::Lines, queries: queries.into_iter().collect() }
}

/// Shows only the last value of each series.
fn last(title: &'static str, unit: &'static str, queries: impl IntoIterator<Item = Query>) -> Panel {
    Panel { kind: Kind::Last, ..panel(title, unit, queries) }
}

fn query(expression: impl Into<String>, legend: impl Into<String>) -> Query {
    Query { expression: expression.into(), legend: legend.into() }
}

/// The labels of a sum or maximum, in PromQL.
fn by(labels: &[&str]) -> String {
    if labels.is_empty() { String::new() } else { format!(" by ({})", labels.join(", ")) }
}

/// The labels of a series, as Grafana shows them; otherwise this name.
fn legend(name: &str, labels: &[&str]) -> String {
    let labels = labels.iter().map(|label| format!("{{{{{label}}}}}"));
    let words: Vec<String> =
        [name.to_owned()].into_iter().chain(labels).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// Increase per second of a counter, over all processes.
fn rate(counter: &str, labels: &[&str], name: &str) -> Query {
    query(format!("sum{} (rate({counter}[$__rate_interval]))", by(labels)), legend(name, labels))
}

/// A metric of the state, which one process exports, or the highest value of the processes.
fn highest(gauge: &str, labels: &[&str], name: &str) -> Query {
    query(format!("max{} ({gauge})", by(labels)), legend(name, labels))
}

/// A quantile of the times that all processes measured.
fn quantile(name: &str, part: &str, histogram: &str, labels: &[&str]) -> Query {
    let buckets =
        format!("sum{} (rate({histogram}_bucket[$__rate_interval]))", by(&[&["le"], labels].concat()));
    query(format!("histogram_quantile({part}, {buckets})"), legend(name, labels))
}

fn median_and_p99(histogram: &str, labels: &[&str]) -> [Query; 2] {
    [("p50", "0.5"), ("p99", "0.99")].map(|(name, part)| quantile(name, part, histogram, labels))
}

/// The rate at which an objective uses its error budget; 1 uses all of it in 30 days.
fn burn(objective: &Objective, name: &str) -> [Query; 3] {
    ["1h", "6h", "3d"].map(|window| {
        let Objective { budget, .. } = objective;
        query(format!("{} / {budget}", objective.ratio(window)), format!("{name} {window}"))
    })
}

fn service() -> Dashboard {
    let requests = "handover_http_requests_total";
    let panels = vec![
        panel("Requests per second", PER_SECOND, [rate(requests, &["status"], "")]),
        panel("Share of requests answered with 5xx", SHARE, [query(REQUESTS.ratio("5m"), "5xx")]),
        panel("Duration of requests", SECONDS, median_and_p99("handover_http_request_seconds", &[])),
        panel(
            "Duration by route, p99",
            SECONDS,
            [quantile("", "0.99", "handover_http_request_seconds", &["method", "route"])],
        ),
        panel(
            "Server errors by route",
            PER_SECOND,
            [rate("handover_http_requests_total{status=~\"5..\"}", &["method", "route"], "")],
        ),
        panel(
            "Rejected requests",
            PER_SECOND,
            [
                rate("handover_overload_refused_total", &[], "concurrency limit"),
                rate("handover_ratelimit_refused_total", &[], "rate limit"),
            ],
        ),
        panel(
            "Use of the error budgets (1: all of it in 30 days)",
            NUMBER,
            burn(&REQUESTS, "requests").into_iter().chain(burn(&EFFECTS, "effects")),
        ),
        last(
            "Processes",
            NUMBER,
            [
                query("sum(up{job=\"handover\"})", "up"),
                query("count(up{job=\"handover\"} == 0) or vector(0)", "down"),
                query("count by (version) (handover_build_info)", "{{version}}"),
            ],
        ),
        panel("Age of the state", SECONDS, [query("time() - max(handover_state_timestamp_seconds)", "age")]),
        panel("Overdue orders", NUMBER, [highest("handover_orders_overdue", &[], "orders")]),
        panel("Refunds", NUMBER, [highest("handover_refunds", &["state"], "")]),
        panel(
            "Oldest refund in PROCESSING",
            SECONDS,
            [highest("handover_refund_oldest_seconds", &[], "age")],
        ),
        last(
            "Open reports of the gateway",
            NUMBER,
            [highest("handover_gateway_reports_open", &[], "reports")],
        ),
        panel(
            "Consistency of orders and events",
            PER_SECOND,
            [
                rate("consistency_event_missing_total", &[], "missing"),
                rate("consistency_event_repaired_total", &[], "repaired"),
                rate("reaper_lock_released_total", &[], "asset locks released"),
            ],
        ),
        panel(
            "Redis unavailable",
            NUMBER,
            [
                highest("handover_ratelimit_redis_unavailable", &[], "rate limit"),
                highest("handover_idempotency_redis_unavailable", &[], "idempotency"),
            ],
        ),
        panel("Dropped log lines", PER_SECOND, [rate("handover_log_lines_dropped_total", &[], "lines")]),
    ];
    Dashboard { name: "service", title: "handover: service", panels }
}

fn outbox() -> Dashboard {
    let mut panels = vec![
        last("Active alerts", NUMBER, [query("max by (alert) (handover_alert_active) == 1", "{{alert}}")]),
        panel(
            "Alerts over time",
            NUMBER,
            [query("max by (alert) (handover_alert_active) == 1", "{{alert}}")],
        ),
        panel("Outbox rows by status", NUMBER, [highest("handover_outbox_rows", &["status"], "")]),
        panel(
            "Oldest event that is due",
            SECONDS,
            [highest("handover_outbox_oldest_due_seconds", &[], "age")],
        ),
        panel(
            "Events",
            PER_SECOND,
            [
                rate("outbox_event_created_total", &[], "created"),
                rate("outbox_event_sent_total", &[], "published"),
            ],
        ),
        panel("Publishes by result", PER_SECOND, [rate("handover_publishes_total", &["result"], "")]),
        panel(
            "Failed publishes",
            PER_SECOND,
            [
                rate("outbox_event_failed_total", &[], "failed"),
                rate("outbox_event_dead_total", &[], "last attempt failed"),
            ],
        ),
        panel(
            "Retries and share of failed publishes",
            NUMBER,
            [
                highest("handover_event_retries_max", &[], "most retries of an event"),
                highest("handover_publish_failures_ratio", &[], "share of failed publishes, 5 minutes"),
            ],
        ),
        panel("Time of a publish", SECONDS, median_and_p99("handover_publish_seconds", &[])),
        panel("Commit to confirm", SECONDS, median_and_p99("handover_commit_to_confirm_seconds", &[])),
        panel(
            "Commit to effect, p50",
            SECONDS,
            [quantile("", "0.5", "handover_commit_to_effect_seconds", &["consumer"])],
        ),
        panel(
            "Commit to effect, p99",
            SECONDS,
            [quantile("", "0.99", "handover_commit_to_effect_seconds", &["consumer"])],
        ),
        panel("Events applied", PER_SECOND, [rate("consumer_event_consumed_total", &["consumer"], "")]),
        panel(
            "Failed attempts and ignored duplicates",
            PER_SECOND,
            [
                rate("consumer_event_failed_total", &["consumer"], "failed"),
                rate("consumer_event_idempotent_total", &["consumer"], "ignored"),
            ],
        ),
        panel(
            "Time of handlers, p99",
            SECONDS,
            [quantile("", "0.99", "handover_handler_seconds", &["consumer"])],
        ),
        panel("Messages that wait", NUMBER, [highest("handover_queue_messages_ready", &["queue"], "")]),
        panel(
            "Messages that are not acknowledged",
            NUMBER,
            [highest("handover_queue_messages_unacked", &["queue"], "")],
        ),
        panel("Subscriptions by queue", NUMBER, [highest("handover_queue_consumers", &["queue"], "")]),
        panel("Open dead letters", NUMBER, [highest("handover_dead_letters_open", &["queue"], "")]),
        panel("Paused consumers", NUMBER, [highest("handover_consumer_paused_processes", &["consumer"], "")]),
        panel(
            "Events left to other processes",
            SECONDS,
            [highest("handover_consumer_left_age_seconds", &["consumer"], "")],
        ),
        panel(
            "Blocked aggregates, partitions without owner",
            NUMBER,
            [
                highest("handover_outbox_blocked_aggregates", &[], "aggregates"),
                highest("handover_outbox_partitions_without_owner", &[], "partitions"),
            ],
        ),
        panel(
            "Broker",
            NUMBER,
            [
                highest("handover_broker_reachable", &[], "reachable"),
                highest("handover_broker_blocked", &[], "blocks publishers"),
            ],
        ),
        panel("Missed runs of jobs", NUMBER, [highest("handover_job_missed_runs", &["job"], "")]),
        panel(
            "Webhook deliveries",
            NUMBER,
            [
                highest("handover_webhook_deliveries_pending", &[], "pending"),
                highest("handover_webhook_deliveries_dead", &[], "dead"),
            ],
        ),
        panel(
            "Attempts at webhooks",
            PER_SECOND,
            [
                rate("handover_webhook_delivered_total", &[], "delivered"),
                rate("handover_webhook_failed_total", &[], "failed"),
            ],
        ),
        panel(
            "Oldest webhook delivery that is due",
            SECONDS,
            [highest("handover_webhook_oldest_due_seconds", &[], "age")],
        ),
        panel(
            "Disabled webhook endpoints",
            NUMBER,
            [
                highest("handover_webhook_endpoints_disabled", &[], "all"),
                highest("handover_webhook_endpoints_disabled_failing", &[], "failing"),
            ],
        ),
    ];
    panels.extend(database());
    Dashboard { name: "outbox", title: "handover: outbox", panels }
}

/// A panel for the metrics of the database with each unit.
fn database() -> impl Iterator<Item = Panel> {
    let of_database = |is_time: bool| {
        let metrics = metrics().filter(move |metric| {
            let has_time = metric.name.ends_with(".seconds");
            metric.name.starts_with("handover.database.") && has_time == is_time
        });
        metrics.map(|metric| {
            let name = metric.exported_name();
            let short = metric.name.trim_start_matches("handover.database.").replace('.', " ");
            highest(&name, metric.labels, &short)
        })
    };
    let panels =
        [panel("Database", NUMBER, of_database(false)), panel("Database, times", SECONDS, of_database(true))];
    panels.into_iter().filter(|panel| !panel.queries.is_empty())
}

pub(crate) fn dashboards() -> [Dashboard; 2] {
    [service(), outbox()]
}

impl Panel {
    /// The help texts of its metrics.
    fn description(&self) -> String {
        let mut texts: Vec<String> = Vec::new();
        for name in self.queries.iter().flat_map(|query| names(&query.expression)) {
            let text = metric_of(name).map(|metric| format!("{}: {}", metric.exported_name(), metric.help));
            texts.extend(text.filter(|text| !texts.contains(text)));
        }
        texts.join("\n\n")
    }

    fn json(&self, position: usize) -> Value {
        let datasource = json!({"type": "prometheus", "uid": "${datasource}"});
        let target = |(index, query): (usize, &Query)| {
            let id = char::from(b'A' + u8::try_from(index).unwrap());
            json!({
                "datasource": datasource,
                "editorMode": "code",
                "expr": query.expression,
                "legendFormat": query.legend,
                "range": true,
                "refId": id.to_string(),
            })
        };
        let targets: Vec<Value> = self.queries.iter().enumerate().map(target).collect();
        let (kind, options) = match self.kind {
            Kind::Lines => (
                "timeseries",
                json!({
                    "legend": {"displayMode": "list", "placement": "bottom", "showLegend": true},
                    "tooltip": {"mode": "multi", "sort": "desc"},
                }),
            ),
            Kind::Last => (
                "stat",
                json!({
                    "colorMode": "value",
                    "graphMode": "none",
                    "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": false},
                    "textMode": "value_and_name",
                }),
            ),
        };
        json!({
            "id": position + 1,
            "title": self.title,
            "description": self.description(),
            "type": kind,
            "datasource": datasource,
            "gridPos": {
                "h": HEIGHT,
                "w": WIDTH,
                "x": position % COLUMNS * WIDTH,
                "y": position / COLUMNS * HEIGHT,
            },
            "fieldConfig": {"defaults": {"unit": self.unit, "min": 0}, "overrides": []},
            "options": options,
            "targets": targets,
        })
    }
}

impl Dashboard {
    /// The file that Grafana imports.
    pub(crate) fn file(&self) -> String {
        let panels: Vec<Value> =
            self.panels.iter().enumerate().map(|(position, panel)| panel.json(position)).collect();
        let dashboard = json!({
            "title": self.title,
            "uid": format!("handover-{}", self.name),
            "description": "Generated from the list of metrics: UPDATE_PAGES=1 tests/run cli pages",
            "tags": ["handover"],
            "schemaVersion": 39,
            "version": 1,
            "editable": true,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "timezone": "browser",
            "templating": {"list": [{
                "name": "datasource",
                "label": "Data source",
                "type": "datasource",
                "query": "prometheus",
                "refresh": 1,
            }]},
            "annotations": {"list": []},
            "links": [],
            "panels": panels,
        });
        serde_json::to_string_pretty(&dashboard).unwrap() + "\n"
    }
}
