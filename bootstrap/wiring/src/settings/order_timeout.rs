//! The deadlines of orders: `[order]` and `[order.timeout]`.

use std::time::Duration;

use handover_runtime::config::{Checked, HOUR, Kind, MILLISECOND, MINUTES, Reader};
use handover_runtime::settings::MAX_BATCH;
use marketplace::{AutoCompletionSettings, TimeoutSettings};

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

/// Maximum of `order.auto-complete-days`.
const MAX_AUTO_COMPLETE_DAYS: f64 = 365.0;

/// Reads `order.auto-complete-days`.
pub(super) fn auto_completion(reader: &Reader<'_>) -> Checked<AutoCompletionSettings> {
    let remedy = format!(
        "set days from 0.00000002 (a millisecond) to {MAX_AUTO_COMPLETE_DAYS}, or 0 for never; 0.5 is 12 hours"
    );
    reader.key(Kind::Value, "order.auto-complete-days", "10", |item| {
        let days: f64 = item.parse("it is not a number", &remedy)?;
        let after = Duration::try_from_secs_f64(days * 86_400.0).ok();
        let after = after.filter(|_| days <= MAX_AUTO_COMPLETE_DAYS);
        let is_too_short = |after: &Duration| *after < MILLISECOND && days > 0.0;
        match after {
            Some(after) if !is_too_short(&after) => {
                Ok(AutoCompletionSettings::new((!after.is_zero()).then_some(after)))
            }
            Some(_) | None => {
                let why = "a shorter time completes orders that were not received yet, and after a longer one hardly any buyer would still confirm the receipt";
                Err(item.refused(why, &remedy))
            }
        }
    })
}
