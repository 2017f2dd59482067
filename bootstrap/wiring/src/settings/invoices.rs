//! The fee and the time of invoices: `[invoice]`.

use std::time::Duration;

use handover_runtime::config::{Checked, HOUR, Kind, MILLISECOND, Reader};
use marketplace::InvoiceSettings;
use marketplace_domain::{BillingPeriod, FeeRate, NotAPeriod};

/// Maximum of `invoice.generate-after`.
const MAX_GENERATE_AFTER: Duration = HOUR.saturating_mul(24 * 28);

/// Reads `invoice.fee-bps`.
pub(super) fn fee_rate(reader: &Reader<'_>) -> Checked<FeeRate> {
    let why = "the fee is a share of an order's total in basis points: 250 are 2.5 %, and 10000 are the whole total";
    reader.count("invoice.fee-bps", "250", 0..=10_000_i64, why)
}

/// Reads the other keys of `invoice.*`.
pub(super) fn invoices(reader: &Reader<'_>) -> Checked<InvoiceSettings> {
    let why = "the invoices of a month must exist before those of the next month are due";
    let limits = MILLISECOND..=MAX_GENERATE_AFTER;
    let generate_after = reader.duration("invoice.generate-after", "3d", limits, why);
    let from = reader.optional(Kind::Text, "invoice.from", |item| {
        let parsed: Result<BillingPeriod, NotAPeriod> = item.as_text()?.parse();
        parsed.map_err(|error| item.refused("it is not a month", &format!("it {error}")))
    });
    Ok(InvoiceSettings::new(from?, generate_after?))
}
