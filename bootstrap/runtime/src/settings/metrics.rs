//! Metrics: `[metrics]`.

use std::net::SocketAddr;
use std::time::Duration;

use super::http::address_of;
use crate::config::{Checked, ConfigError, Item, Kind, MILLISECOND, MINUTE, Reader};

/// `metrics.*`.
#[derive(Debug, Clone, Copy)]
pub struct MetricsConfig {
    /// Address on which a process without an API serves metrics and health checks (`metrics.listen`); `None`: off.
    pub listen: Option<SocketAddr>,
    /// Time between two reads of the state by the leader (`metrics.state-interval`).
    pub state_interval: Duration,
}

/// Reads `metrics.*`.
pub fn metrics(reader: &Reader<'_>) -> Checked<MetricsConfig> {
    let listen = reader.key(Kind::Text, "metrics.listen", "off", listen);
    let why = "short intervals put load on database and broker, and with long ones the exported state is old";
    let state_interval =
        reader.duration("metrics.state-interval", "15s", MILLISECOND * 100..=MINUTE * 10, why);
    Ok(MetricsConfig { listen: listen?, state_interval: state_interval? })
}

fn listen(item: &Item) -> Result<Option<SocketAddr>, ConfigError> {
    if item.as_text()? == "off" {
        return Ok(None);
    }
    address_of(item, "write off, 127.0.0.1:9090, [::1]:9090, or port 0 for any free port").map(Some)
}
