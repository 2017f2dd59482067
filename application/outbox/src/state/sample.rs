//! Values of state metrics, and the sources from which they are read.

use std::fmt::Write as _;

use async_trait::async_trait;
use chrono::{DateTime, Utc};

use crate::metrics::Metric;
use crate::ports::StoreError;

/// Time at which the exported state was read.
pub const STATE_TIME: Metric = Metric::state(
    "handover.state.timestamp.seconds",
    "Time at which the leader read the state metrics, in seconds since 1970",
);

/// A value of a state metric.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// The metric.
    pub metric: Metric,
    /// Values of its labels, in their order.
    pub labels: Vec<String>,
    /// The value.
    pub value: f64,
}

impl Sample {
    /// The labels as text: `queue=loans,state=NEW`.
    pub(crate) fn labels_text(&self) -> String {
        let labels = self.metric.labels.iter().zip(&self.labels);
        labels.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
    }
}

impl Metric {
    /// A value of this metric, with the values of its labels.
    pub fn sample<const N: usize>(self, labels: [&str; N], value: f64) -> Sample {
        Sample { metric: self, labels: labels.map(str::to_owned).to_vec(), value }
    }
}

/// Reads a part of the state. An application adds its own.
#[async_trait]
pub trait StateSource: Send + Sync + 'static {
    /// Reads the current values. They replace all earlier ones of this source.
    async fn read(&self) -> Result<Vec<Sample>, StoreError>;
}

#[allow(clippy::cast_precision_loss, reason = "exact up to 2^53")]
pub(super) fn unix_seconds(at: DateTime<Utc>) -> f64 {
    at.timestamp_millis() as f64 / 1_000.0
}

/// These values in the text format of Prometheus.
pub(super) fn exposition(samples: &[Sample]) -> String {
    let mut sorted: Vec<&Sample> = samples.iter().collect();
    // The samples of a metric must follow each other.
    sorted.sort_by_key(|sample| sample.metric.name);
    let mut text = String::new();
    let mut described = "";
    for Sample { metric, labels, value } in sorted {
        let name = metric.exported_name();
        if described != metric.name {
            described = metric.name;
            // Writing to a string cannot fail.
            let _ = write!(text, "# HELP {name} {}\n# TYPE {name} gauge\n", metric.help);
        }
        let labels: Vec<String> = metric
            .labels
            .iter()
            .zip(labels)
            .map(|(name, value)| format!("{name}=\"{}\"", escaped(value)))
            .collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(text, "{name}{labels} {value}");
    }
    text
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: Metric = Metric::state("test.rows", "Rows by table.").by(&["table", "state"]);
    const AGE: Metric = Metric::state("test.age.seconds", "Age.");

    #[test]
    fn samples_of_a_metric_follow_each_other_with_their_labels_escaped() {
        let samples = [ROWS.sample(["a", "x"], 1.0), AGE.sample([], 2.5), ROWS.sample(["\"b\\\n", "y"], 3.0)];
        let expected = "# HELP test_age_seconds Age.\n# TYPE test_age_seconds gauge\ntest_age_seconds 2.5\n\
                        # HELP test_rows Rows by table.\n# TYPE test_rows gauge\n\
                        test_rows{table=\"a\",state=\"x\"} 1\ntest_rows{table=\"\\\"b\\\\\\n\",state=\"y\"} 3\n";
        assert_eq!(exposition(&samples), expected);
    }
}
