//! Configuration of the demo's service: an ordinary configuration file in the demo's folder.
//!
//! No other source is read, so the day does not depend on the environment. After `--keep`, other commands find the
//! database with `--config` and this file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use handover_runtime::Failure;
use handover_runtime::config::{Configuration, Sources};
use marketplace_wiring::settings::Config;

/// Interval of the sweep that cancels overdue orders: so long that during the day only messages cancel them.
const SWEEP_INTERVAL: Duration = Duration::from_secs(10 * 60);

/// Time after which an event counts as lost: longer than the outage, and longer than consumers need for the backlog.
const LOST_AFTER: Duration = Duration::from_secs(4);
/// Addition to [`LOST_AFTER`] for each order.
const LOST_AFTER_PER_ORDER: Duration = Duration::from_millis(2);

/// Path of the configuration file in `folder`.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("handover.toml")
}

/// Writes the configuration file for a day of `orders` orders and loads it.
pub(super) fn write(folder: &Path, orders: u32) -> Result<Config, Failure> {
    let path = path(folder);
    let text = format!(
        r#"# A short market day: timeouts that are minutes in production are seconds here.
[http]
listen = "127.0.0.1:0"

[rate-limit]                      # clients send requests as fast as they can; all gateway callbacks come from one address
capacity = 10000
per-second = 10000

[database]
url = "sqlite://{database}"

[gateway]
url = "sandbox:"
sandbox-delay = "1ms"             # used after the day; during the day the demo reports refund results

[order.timeout]
pending-minutes = 0.05            # 3 s
sweep-interval = "{sweep}"

[outbox]
scan-interval = "1s"
retry = {{ policy = "schedule", delays = ["1s", "2s", "4s"] }}

[webhook]                         # the receiver is on this machine, and fails on purpose
allow-networks = ["127.0.0.0/8"]
timeout = "1s"
delays = ["300ms", "500ms", "1s", "1s", "1s", "1s", "1s", "1s", "1s"]
scan-interval = "100ms"

[consumer]
backoff = {{ base = "100ms", cap = "1s" }}
sweep-interval = "500ms"
lost-after = "{lost_after}"       # longer than the broker outage
"#,
        database = folder.join("handover.db").display(),
        sweep = humantime::format_duration(SWEEP_INTERVAL),
        lost_after = humantime::format_duration(LOST_AFTER + LOST_AFTER_PER_ORDER * orders),
    );
    fs::write(&path, text).map_err(|cause| Failure::System {
        what: "cannot write the configuration file of the demo",
        cause,
    })?;
    Ok(Config::load(&Sources { file: Some(path), ..Sources::default() })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_file_loads_and_sets_short_timeouts() {
        let folder = tempfile::tempdir().unwrap();
        let config = write(folder.path(), 200).unwrap();
        assert_eq!(config.database.file(), Some(folder.path().join("handover.db").as_path()));
        assert_eq!(config.rules.pending_timeout, Duration::from_secs(3));
        let bound = super::super::CANCEL_DELAY_LIMIT + super::super::CANCEL_DELAY_LIMIT_PER_ORDER * 20_000;
        assert!(
            config.settings.timeout.sweep_interval > bound * 10,
            "the sweep for overdue orders must not run during the day"
        );
        assert!(
            config.settings.consumer.lost_after > crate::day::OUTAGE,
            "events must not count as lost during the outage"
        );
        assert!(config.listen.ip().is_loopback());
    }
}
