//! Metrics: `[metrics]`.

use std::time::Duration;

use crate::config::{Checked, MILLISECOND, MINUTE, Reader};

/// `metrics.*`.
#[derive(Debug, Clone, Copy)]
pub struct MetricsConfig {
    /// Time between two reads of the state by the leader (`metrics.state-interval`).
    pub state_interval: Duration,
}

/// Reads `metrics.*`.
pub fn metrics(reader: &Reader<'_>) -> Checked<MetricsConfig> {
    let why = "short intervals put load on database and broker, and with long ones the exported state is old";
    let state_interval =
        reader.duration("metrics.state-interval", "15s", MILLISECOND * 100..=MINUTE * 10, why);
    Ok(MetricsConfig { state_interval: state_interval? })
}
