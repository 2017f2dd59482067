//! Values of state metrics, and the sources from which they are read.

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
