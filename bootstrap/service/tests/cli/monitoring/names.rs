//! Metrics by the names in expressions of PromQL.

use handover_outbox::{Metric, MetricKind};

/// Every metric of the service.
pub(crate) fn metrics() -> impl Iterator<Item = &'static Metric> {
    handover_runtime::metrics::of_toolkit().chain(marketplace::METRICS)
}

/// Begins of the names of metrics.
const PREFIXES: [&str; 5] = ["handover_", "outbox_", "consumer_", "reaper_", "consistency_"];

/// The names of metrics and of recordings (`handover:...`) in an expression.
pub(crate) fn names(expression: &str) -> impl Iterator<Item = &str> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != ':');
    words.filter(|word| {
        PREFIXES.iter().any(|prefix| word.starts_with(prefix))
            || word.starts_with("handover:")
            || *word == "up"
    })
}

/// The metric with this series: a histogram has the series `_bucket`, `_sum` and `_count`, every other metric its name.
pub(crate) fn metric_of(series: &str) -> Option<&'static Metric> {
    metrics().find(|metric| {
        let name = metric.exported_name();
        match metric.kind {
            MetricKind::Histogram => {
                ["_bucket", "_sum", "_count"].iter().any(|suffix| name.clone() + suffix == series)
            }
            MetricKind::Counter | MetricKind::Gauge | MetricKind::State => name == series,
        }
    })
}
