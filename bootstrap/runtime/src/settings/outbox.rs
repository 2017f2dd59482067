//! Outbox and relay: `[outbox]`.

use handover_outbox::ports::OnFailed;
use handover_outbox::{OnOutage, RelaySettings};

use super::retry;
use crate::config::{Checked, MILLISECOND, MINUTE, Reader, SECOND};

/// Maximum of `outbox.batch` and of other batches of rows.
pub const MAX_BATCH: u32 = 10_000;

/// `outbox.*`.
#[derive(Debug, Clone)]
pub struct OutboxConfig {
    /// Settings of the relay.
    pub relay: RelaySettings,
    /// Effect of a `FAILED` event on later events of its aggregate (`outbox.on-failed`).
    pub on_failed: OnFailed,
}

/// Reads `outbox.*`.
pub fn outbox(reader: &Reader<'_>) -> Checked<OutboxConfig> {
    let why = "an empty batch publishes nothing, and a very large one fills the memory";
    let batch = reader.count("outbox.batch", "200", 1..=MAX_BATCH, why);
    let why = "short intervals put load on the database; with long ones, an event waits if its wake-up notification is lost";
    let scan_interval = reader.duration("outbox.scan-interval", "5s", MILLISECOND * 10..=MINUTE, why);
    let why = "with long queues, the events of other tenants wait in them behind a backlog";
    let max_queued = reader.count("outbox.max-queued", "1000", 0..=1_000_000, why);
    let retry = retry::outbox(reader);
    let on_failed = [("continue", OnFailed::Continue), ("hold", OnFailed::Hold)];
    let on_failed = reader.one_of("outbox.on-failed", &on_failed);
    let on_outage = [("wait", OnOutage::Wait), ("count", OnOutage::Count)];
    let on_outage = reader.one_of("outbox.outage", &on_outage);
    let why = "a relay that pauses briefly loses a short lease, and after a crash a long lease delays the takeover of its partitions";
    let lease = reader.duration("outbox.lease", "5s", SECOND..=MINUTE, why);
    let why = "with a short timeout, messages are published to a slow broker again; with a long one, the relay waits for a broker that never confirms";
    let limits = MILLISECOND * 100..=MINUTE * 10;
    let confirm_timeout = reader.duration("outbox.confirm-timeout", "10s", limits, why);
    let relay = RelaySettings {
        batch: batch?,
        scan_interval: scan_interval?,
        max_queued: max_queued?,
        retry: retry?,
        on_outage: on_outage?,
        lease_ms: u32::try_from(lease?.as_millis()).unwrap_or(u32::MAX),
        confirm_timeout: confirm_timeout?,
        ..RelaySettings::default()
    };
    Ok(OutboxConfig { relay, on_failed: on_failed? })
}
