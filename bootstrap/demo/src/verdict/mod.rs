//! The verdict: what was promised beside what is in the database.
//!
//! **Invariant:** effects are counted where they are, never in the consume log; and nothing the service says about
//! itself is believed.

mod effects;
mod events;
mod holds;
mod ledger;
mod orders;
mod refunds;
#[cfg(test)]
mod tests;
mod ways;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use super::books::Books;
use super::journal::Account;
use super::mishaps::Happened;

/// A promise and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Promise {
    /// Its name.
    pub(super) name: &'static str,
    /// What was promised.
    pub(super) promised: String,
    /// What was found.
    pub(super) found: String,
    /// Whether that is the same.
    pub(super) kept: bool,
}

/// A consumer and the types of events it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Taker {
    /// Its name.
    pub(super) consumer: String,
    /// What it takes.
    pub(super) takes: BTreeSet<String>,
}

/// What was agreed on for the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Terms {
    /// How many orders were to be placed.
    pub(super) orders: usize,
    /// How many wanted the lamp.
    pub(super) crowd: usize,
    /// How long an order may stay unpaid.
    pub(super) pending: Duration,
    /// How much later than that it is closed at the latest.
    pub(super) bound: Duration,
    /// How long the broker was to be away.
    pub(super) outage: Duration,
}

/// Everything that the promises are judged by.
pub(super) struct Evidence<'a> {
    /// What was agreed on.
    pub(super) terms: Terms,
    /// What the clients were told.
    pub(super) told: &'a Account,
    /// What is in the database.
    pub(super) books: &'a Books,
    /// What befell messages on their way.
    pub(super) happened: &'a Happened,
    /// Who takes which events.
    pub(super) takers: &'a [Taker],
    /// How many messages are in the queues.
    pub(super) queued: u64,
}

/// Judges every promise.
pub(super) fn judge(evidence: &Evidence<'_>) -> Vec<Promise> {
    vec![
        orders::answers(evidence),
        orders::kept(evidence),
        orders::states(evidence),
        orders::closed_in_time(evidence),
        orders::one_lamp(evidence),
        orders::sold_once(evidence),
        events::announced(evidence),
        ways::without_gaps(evidence),
        events::confirmed(evidence),
        events::settled(evidence),
        effects::once(evidence),
        effects::in_order(evidence),
        effects::credit(evidence),
        ledger::sums_to_zero(evidence),
        ledger::balances(evidence),
        holds::resolved(evidence),
        holds::as_orders_ended(evidence),
        holds::coupons(evidence),
        ledger::earned(evidence),
        refunds::refunded(evidence),
        refunds::late(evidence),
        events::repeats(evidence),
        events::outage(evidence),
        events::dead_letters(evidence),
        events::pending(evidence),
    ]
}

/// Findings against a promise: how many, and the first as an example.
#[derive(Default)]
struct Against {
    count: usize,
    first: Option<String>,
}

impl Against {
    fn add(&mut self, finding: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(finding());
        }
    }

    fn is_none(&self) -> bool {
        self.count == 0
    }

    /// What was found, with what speaks against it.
    fn beside(&self, found: String) -> String {
        match &self.first {
            None => found,
            Some(first) => format!("{found}; {} wrong, such as {first}", self.count),
        }
    }
}

/// A promise that is kept unless something speaks against it.
fn promise(name: &'static str, promised: String, found: String, against: &Against) -> Promise {
    Promise { name, promised, found: against.beside(found), kept: against.is_none() }
}

/// Seconds with one decimal.
fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
