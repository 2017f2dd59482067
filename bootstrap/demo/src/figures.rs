//! A few figures of the day, from the times in its rows.

use std::collections::BTreeMap;
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_events::EventId;
use marketplace_domain::RefundStatus;
use serde::Serialize;

use super::books::Books;
use super::journal::Account;
use super::mishaps::Happened;

/// What the day came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Figures {
    /// Orders played to their end per second, each with all its requests, while nothing held them up.
    pub(super) orders_per_second: f64,
    /// From the commit of an event to its effect, in milliseconds: the median, while the broker was there.
    pub(super) commit_to_effect_p50_ms: i64,
    /// The same: 99 of 100 were faster.
    pub(super) commit_to_effect_p99_ms: i64,
    /// Events in the outbox.
    pub(super) events: usize,
    /// Effects.
    pub(super) effects: usize,
    /// Orders that named assets.
    pub(super) orders_with_assets: usize,
    /// Operations on coupons, wallets and points, those of operators left out.
    pub(super) asset_operations: usize,
    /// Requests made again because assets were not locked yet.
    pub(super) asked_again: usize,
    /// Refunds that succeeded.
    pub(super) refunds: usize,
    /// And those that failed.
    pub(super) failed_refunds: usize,
    /// How long all of it took, in seconds.
    pub(super) seconds: f64,
}

impl Figures {
    /// Of these rows, after so long.
    pub(super) fn of(told: &Account, books: &Books, happened: &Happened, took: Duration) -> Figures {
        let created: BTreeMap<&EventId, DateTime<Utc>> =
            books.events.iter().map(|event| (&event.event_id, event.create_time)).collect();
        let effects = effects(books);
        let is_held_up = |event: &EventId, from: DateTime<Utc>, until: DateTime<Utc>| {
            happened.away.is_some_and(|(cut, mended)| from < mended && cut < until)
                || happened.spoiled.as_ref().is_some_and(|spoiled| spoiled.event == *event)
        };
        let mut waits: Vec<i64> = effects
            .iter()
            .filter_map(|(event, at)| Some((*event, *created.get(event)?, *at)))
            .filter(|(event, from, until)| !is_held_up(event, *from, *until))
            .map(|(_, from, until)| (until - from).num_milliseconds())
            .collect();
        waits.sort_unstable();
        let (orders, trading) = told.trading;
        let per_second = match trading.is_zero() {
            true => 0.0,
            false => orders as f64 / trading.as_secs_f64(),
        };
        Figures {
            orders_per_second: rounded(per_second),
            commit_to_effect_p50_ms: percentile(&waits, 50),
            commit_to_effect_p99_ms: percentile(&waits, 99),
            events: books.events.len(),
            effects: effects.len(),
            orders_with_assets: books.orders.values().filter(|order| !order.assets.is_empty()).count(),
            asset_operations: books.assets.on_assets().count(),
            asked_again: told.asked_again,
            refunds: refunds(books, RefundStatus::Success),
            failed_refunds: refunds(books, RefundStatus::Failed),
            seconds: rounded(took.as_secs_f64()),
        }
    }

    /// In a line.
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

/// Every effect with its event and when it was applied.
fn effects(books: &Books) -> Vec<(&EventId, DateTime<Utc>)> {
    let listings = books.listing_changes.iter().map(|row| (&row.event_id, row.at));
    let shipments = books.shipments.iter().map(|row| (&row.event_id, row.at));
    let notifications = books.notifications.iter().map(|row| (&row.event_id, row.at));
    let credit = books.credit_changes.iter().map(|row| (&row.event_id, row.at));
    let assets = books.assets.on_assets().filter_map(|row| Some((row.event_id.as_ref()?, row.at)));
    listings.chain(shipments).chain(notifications).chain(credit).chain(assets).collect()
}

fn refunds(books: &Books, status: RefundStatus) -> usize {
    books.assets.refunds.values().flatten().filter(|refund| refund.status == status).count()
}

/// The smallest value that so many of a hundred do not exceed (nearest rank); 0 of none.
fn percentile(sorted: &[i64], percent: usize) -> i64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0)
}

/// One decimal.
fn rounded(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_nearest_rank() {
        let hundred: Vec<i64> = (1..=100).collect();
        assert_eq!([percentile(&hundred, 50), percentile(&hundred, 99)], [50, 99]);
        assert_eq!([percentile(&[7], 50), percentile(&[7], 99), percentile(&[], 99)], [7, 7, 0]);
        assert_eq!(percentile(&[1, 2, 3], 50), 2);
    }
}
