//! The configuration of the demo's own service: a file in its folder, as anybody would write it.
//!
//! Nothing else is read, so the day does not depend on who plays it; and every other command works on what is left with
//! `--config` and this file.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use marketplace_wiring::Failure;
use marketplace_wiring::config::{Config, Sources};

/// How often overdue orders are looked for beside their messages: so seldom that on the day only messages close them.
const SWEEP: Duration = Duration::from_secs(10 * 60);

/// When an event counts as lost on its way: later than the broker is back, and than a backlog of that many orders is done.
const LOST_AFTER: Duration = Duration::from_secs(4);
/// A backlog of one order more.
const BACKLOG: Duration = Duration::from_millis(2);

/// Where it is in the folder.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join("handover.toml")
}

/// Writes the file for a day of so many orders, and reads it as any other.
pub(super) fn write(folder: &Path, orders: u32) -> Result<Config, Failure> {
    let path = path(folder);
    let text = format!(
        r#"# A market day in a minute: what takes minutes in earnest takes seconds here.
[http]
listen = "127.0.0.1:0"

[rate-limit]                      # everybody comes from one address, and in a hurry
capacity = 10000
per-second = 10000

[database]
url = "sqlite://{database}"

[gateway]
url = "sandbox:"
sandbox-delay = "1ms"             # once the day is over: by day its people say what became of refunds

[order.timeout]
pending-minutes = 0.05            # 3 s
sweep-interval = "{sweep}"

[outbox]
scan-interval = "1s"
retry = {{ policy = "schedule", delays = ["1s", "2s", "4s"] }}

[consumer]
backoff = {{ base = "100ms", cap = "1s" }}
sweep-interval = "500ms"
lost-after = "{lost_after}"       # longer than the broker is away
"#,
        database = folder.join("handover.db").display(),
        sweep = humantime::format_duration(SWEEP),
        lost_after = humantime::format_duration(LOST_AFTER + BACKLOG * orders),
    );
    fs::write(&path, text)
        .map_err(|cause| Failure::System { what: "the demo's folder cannot be written", cause })?;
    Ok(Config::load(&Sources { file: Some(path), ..Sources::default() })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_a_configuration_and_shortens_what_it_says() {
        let folder = tempfile::tempdir().unwrap();
        let config = write(folder.path(), 200).unwrap();
        assert_eq!(config.database.file(), Some(folder.path().join("handover.db").as_path()));
        assert_eq!(config.rules.pending_timeout, Duration::from_secs(3));
        let bound = super::super::SLACK + super::super::SLACK_PER_ORDER * 20_000;
        assert!(config.settings.timeout.sweep_interval > bound * 10, "what the messages leave is left");
        assert!(config.settings.consumer.lost_after > super::super::OUTAGE, "an outage loses nothing");
        assert!(config.listen.ip().is_loopback());
    }
}
