//! The payment deadline of orders: `[order.timeout]`.

use std::time::Duration;

use handover_runtime::config::{Checked, HOUR, MILLISECOND, MINUTES, Reader};
use handover_runtime::settings::MAX_BATCH;
use marketplace::TimeoutSettings;

/// Maximum of `order.timeout.pending-minutes`, in days.
const MAX_PENDING_DAYS: u32 = 30;

/// Reads `order.timeout.pending-minutes`.
pub(super) fn pending_timeout(reader: &Reader<'_>) -> Checked<Duration> {
    let why = "with no time to pay, every order would be cancelled; with no limit, unpaid orders would keep their products";
    reader.time("order.timeout.pending-minutes", "15", &MINUTES, MAX_PENDING_DAYS, why)
}

/// Reads the other keys of `order.timeout.*`.
pub(super) fn timeout(reader: &Reader<'_>) -> Checked<TimeoutSettings> {
    let why =
        "the sweep closes orders whose timeout message was lost: it must run regularly, but not continuously";
    let sweep_interval = reader.duration("order.timeout.sweep-interval", "30s", MILLISECOND * 10..=HOUR, why);
    let why = "an empty batch closes nothing, and a very large one keeps rows locked for a long time";
    let sweep_batch = reader.count("order.timeout.sweep-batch", "200", 1..=MAX_BATCH, why);
    Ok(TimeoutSettings { sweep_interval: sweep_interval?, sweep_batch: sweep_batch? })
}
