//! The relay: `[outbox]`.

use handover_outbox::ports::OnFailed;
use handover_outbox::{OnOutage, RelaySettings};

use super::error::ConfigError;
use super::read::Reader;
use super::{MAX_BATCH, MILLISECOND, MINUTE, SECOND, retry};

pub(super) fn relay(reader: &Reader<'_>) -> Result<RelaySettings, ConfigError> {
    let why = "an empty batch publishes nothing, and a very large one fills the memory";
    let batch = reader.value("outbox.batch", "200").count(1..=MAX_BATCH, why)?;
    let why = "short intervals put load on the database; with long ones, an event waits if its wake-up notification is lost";
    let scan_interval =
        reader.value("outbox.scan-interval", "5s").duration(MILLISECOND * 10..=MINUTE, why)?;
    let retry = retry::outbox(reader)?;
    let on_failed = [("continue", OnFailed::Continue), ("hold", OnFailed::Hold)];
    let on_failed = reader.one_of("outbox.on-failed", &on_failed)?;
    let on_outage = [("wait", OnOutage::Wait), ("count", OnOutage::Count)];
    let on_outage = reader.one_of("outbox.outage", &on_outage)?;
    let why = "a relay that pauses briefly loses a short lease, and after a crash a long lease delays the takeover of its partitions";
    let lease = reader.value("outbox.lease", "5s").duration(SECOND..=MINUTE, why)?;
    let why = "with a short timeout, messages are published to a slow broker again; with a long one, the relay waits for a broker that never confirms";
    let confirm_timeout =
        reader.value("outbox.confirm-timeout", "10s").duration(MILLISECOND * 100..=MINUTE * 10, why)?;
    Ok(RelaySettings {
        batch,
        scan_interval,
        retry,
        on_failed,
        on_outage,
        lease_ms: u32::try_from(lease.as_millis()).unwrap_or(u32::MAX),
        confirm_timeout,
        ..RelaySettings::default()
    })
}
