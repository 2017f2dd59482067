//! The payment deadline of orders: `[order.timeout]`.

use std::time::Duration;

use marketplace::TimeoutSettings;

use super::error::ConfigError;
use super::read::{MINUTES, Reader};
use super::{HOUR, MAX_BATCH, MILLISECOND};

/// Maximum of `order.timeout.pending-minutes`, in days.
const MAX_PENDING_DAYS: u32 = 30;

pub(super) fn pending_timeout(reader: &Reader<'_>) -> Result<Duration, ConfigError> {
    let why = "with no time to pay, every order would be cancelled; with no limit, unpaid orders would keep their products";
    reader.value("order.timeout.pending-minutes", "15").time(&MINUTES, MAX_PENDING_DAYS, why)
}

pub(super) fn timeout(reader: &Reader<'_>) -> Result<TimeoutSettings, ConfigError> {
    let why =
        "the sweep closes orders whose timeout message was lost: it must run regularly, but not continuously";
    let sweep_interval =
        reader.value("order.timeout.sweep-interval", "30s").duration(MILLISECOND * 10..=HOUR, why)?;
    let why = "an empty batch closes nothing, and a very large one keeps rows locked for a long time";
    let sweep_batch = reader.value("order.timeout.sweep-batch", "200").count(1..=MAX_BATCH, why)?;
    Ok(TimeoutSettings { sweep_interval, sweep_batch })
}
