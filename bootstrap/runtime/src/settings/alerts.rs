//! Limits of alerts: `[alerts]`.

use handover_outbox::{Alert, Limit};

use crate::config::{Checked, MILLISECOND, MINUTE, Reader};

/// Reads the limit of each of these alerts.
pub fn alerts<'a>(reader: &Reader<'_>, alerts: impl IntoIterator<Item = &'a Alert>) -> Checked<Vec<Alert>> {
    let read: Vec<_> = alerts.into_iter().map(|alert| (alert, limit(reader, alert))).collect();
    read.into_iter().map(|(alert, limit)| Ok(Alert { limit: limit?, ..*alert })).collect()
}

fn limit(reader: &Reader<'_>, alert: &Alert) -> Checked<Limit> {
    let default = alert.limit.to_string();
    let number = |most| {
        let why = "the limit is a number, and a percentage is at most 100";
        reader.count::<u64, u64>(alert.key, default.clone(), 0..=most, why)
    };
    let time = || {
        let why = "the limit is the time after which someone should act";
        reader.duration(alert.key, default.clone(), MILLISECOND..=MINUTE * 60 * 24 * 30, why)
    };
    Ok(match alert.limit {
        Limit::Above(_) => Limit::Above(number(1_000_000_000)?),
        Limit::AtLeast(_) => Limit::AtLeast(number(1_000_000_000)?),
        Limit::AbovePercent(_) => Limit::AbovePercent(number(100)?),
        Limit::OlderThan(_) => Limit::OlderThan(time()?),
        Limit::For(_) => Limit::For(time()?),
        Limit::NotZero => Limit::NotZero,
    })
}
