//! Throughput and latency figures of the day, computed from the timestamps of its rows.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::EventId;
use marketplace_domain::RefundStatus;
use serde::Serialize;

use super::broker_faults::InjectedFaults;
use super::database_snapshot::DatabaseSnapshot;
use super::journal::ClientRecord;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    /// Orders per second, outside the broker outage; an order is counted when all its requests are done.
    pub(super) orders_per_second: f64,
    /// Median time from the creation of an event to its effect, in milliseconds. Effects that the outage may have
    /// delayed, effects of the event whose message was corrupted, and those of past months are excluded.
    pub(super) commit_to_effect_p50_ms: i64,
    /// 99th percentile of the time from the creation of an event to its effect, with the same exclusions.
    pub(super) commit_to_effect_p99_ms: i64,
    pub(super) events: usize,
    pub(super) effects: usize,
    /// Orders that use assets, paid or not.
    pub(super) orders_with_assets: usize,
    /// Operations on coupons, wallets and points that orders caused; operator grants are excluded.
    pub(super) asset_operations: usize,
    /// Number of repetitions of requests. A request is repeated after the response `C0001` or `C0002`, for example
    /// because assets are not locked yet.
    #[serde(rename = "askedAgain")]
    pub(super) retried_requests: usize,
    /// Refunds that succeeded.
    pub(super) refunds: usize,
    pub(super) failed_refunds: usize,
    /// Duration of trading and verification, in seconds.
    pub(super) seconds: f64,
}

impl Figures {
    pub(super) fn of(
        clients: &ClientRecord,
        database: &DatabaseSnapshot,
        injected: &InjectedFaults,
        begun: DateTime<Utc>,
        duration: Duration,
    ) -> Figures {
        let created: BTreeMap<&EventId, DateTime<Utc>> =
            database.events.iter().map(|event| (&event.event_id, event.create_time)).collect();
        let effects = effects(database);
        let is_delayed = |event: &EventId, from: DateTime<Utc>, until: DateTime<Utc>| {
            from < begun
                || injected.outage.is_some_and(|(lost, restored)| from < restored && lost < until)
                || injected.corrupted.as_ref().is_some_and(|corrupted| corrupted.event == *event)
        };
        let mut latencies_ms: Vec<i64> = effects
            .iter()
            .filter_map(|(event, at)| Some((*event, *created.get(event)?, *at)))
            .filter(|(event, from, until)| !is_delayed(event, *from, *until))
            .map(|(_, from, until)| (until - from).num_milliseconds())
            .collect();
        latencies_ms.sort_unstable();
        let (orders, trading) = clients.trading;
        let per_second = match trading.is_zero() {
            true => 0.0,
            false => orders as f64 / trading.as_secs_f64(),
        };
        Figures {
            orders_per_second: rounded(per_second),
            commit_to_effect_p50_ms: percentile(&latencies_ms, 50),
            commit_to_effect_p99_ms: percentile(&latencies_ms, 99),
            events: database.events.len(),
            effects: effects.len(),
            orders_with_assets: database.orders.values().filter(|order| !order.assets.is_empty()).count(),
            asset_operations: database.assets.on_assets().count(),
            retried_requests: clients.retried_requests,
            refunds: refunds(database, RefundStatus::Success),
            failed_refunds: refunds(database, RefundStatus::Failed),
            seconds: rounded(duration.as_secs_f64()),
        }
    }

    /// The figures as one line of text.
    pub(super) fn line(&self) -> String {
        format!(
            "{:.0} orders/s; commit to effect p50 {} ms, p99 {} ms; {} events, {} effects; {} orders with assets, \
             {} operations on them; {} refunds, {} failed; {:.1} s in all",
            self.orders_per_second,
            self.commit_to_effect_p50_ms,
            self.commit_to_effect_p99_ms,
            self.events,
            self.effects,
            self.orders_with_assets,
            self.asset_operations,
            self.refunds,
            self.failed_refunds,
            self.seconds,
        )
    }
}

/// Returns the event id and the time of application of every effect.
fn effects(database: &DatabaseSnapshot) -> Vec<(&EventId, DateTime<Utc>)> {
    let listings = database.listing_changes.iter().map(|row| (&row.event_id, row.at));
    let shipments = database.shipments.iter().map(|row| (&row.event_id, row.at));
    let notifications = database.notifications.iter().map(|row| (&row.event_id, row.at));
    let credit = database.credit_changes.iter().map(|row| (&row.event_id, row.at));
    let assets = database.assets.on_assets().filter_map(|row| Some((row.event_id.as_ref()?, row.at)));
    listings.chain(shipments).chain(notifications).chain(credit).chain(assets).collect()
}

fn refunds(database: &DatabaseSnapshot, status: RefundStatus) -> usize {
    database.assets.refunds.values().flatten().filter(|refund| refund.status == status).count()
}

/// Nearest-rank percentile of a sorted slice; 0 if it is empty.
fn percentile(sorted: &[i64], percent: usize) -> i64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// Rounds to one decimal.
fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentile_uses_nearest_rank() {
        let hundred: Vec<i64> = (1..=100).collect();
        assert_eq!([percentile(&hundred, 50), percentile(&hundred, 99)], [50, 99]);
        assert_eq!([percentile(&[7], 50), percentile(&[7], 99), percentile(&[], 99)], [7, 7, 0]);
        assert_eq!(percentile(&[1, 2, 3], 50), 2);
    }
}
