//! Compares the promises with the database.
//!
//! **Invariant:** effects are counted in their own tables, never in the consume log, and no number is taken from the
//! statistics or metrics of the service.

mod effects;
mod event_histories;
mod events;
mod holds;
mod ledger;
mod orders;
mod refunds;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use super::broker_faults::InjectedFaults;
use super::database_snapshot::DatabaseSnapshot;
use super::journal::ClientRecord;

/// A guarantee of the service that the demo verifies, called promise in its output, with the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Promise {
    pub(super) name: &'static str,
    pub(super) promised: String,
    pub(super) found: String,
    pub(super) kept: bool,
}

/// A consumer and the event types that it subscribes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConsumerEvents {
    pub(super) name: String,
    pub(super) event_types: BTreeSet<String>,
}

/// Parameters of the day that promises depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Expectations {
    /// Planned number of orders.
    pub(super) orders: usize,
    /// Number of buyers who order the same lamp at the same moment.
    pub(super) lamp_buyers: usize,
    /// Time that a buyer has to pay.
    pub(super) payment_timeout: Duration,
    /// Maximum delay between the payment deadline and the cancellation.
    pub(super) cancel_delay_limit: Duration,
    /// Planned duration of the outage.
    pub(super) outage: Duration,
}

/// Everything that the promises are checked against.
pub(super) struct Evidence<'a> {
    pub(super) expected: Expectations,
    /// Responses that clients received.
    pub(super) clients: &'a ClientRecord,
    pub(super) database: &'a DatabaseSnapshot,
    pub(super) injected: &'a InjectedFaults,
    pub(super) consumers: &'a [ConsumerEvents],
    /// Number of messages in the queues.
    pub(super) queued: u64,
}

pub(super) fn check_all(evidence: &Evidence<'_>) -> Vec<Promise> {
    vec![
        orders::responses(evidence),
        orders::acknowledged(evidence),
        orders::states(evidence),
        orders::closed_in_time(evidence),
        orders::one_lamp(evidence),
        orders::sold_once(evidence),
        events::created(evidence),
        event_histories::no_gaps(evidence),
        events::confirmed(evidence),
        events::settled(evidence),
        effects::exactly_once(evidence),
        effects::in_order(evidence),
        effects::credit(evidence),
        ledger::sums_to_zero(evidence),
        ledger::balances(evidence),
        holds::resolved(evidence),
        holds::match_orders(evidence),
        holds::coupons(evidence),
        ledger::earned(evidence),
        refunds::equal_captured(evidence),
        refunds::excess_captures(evidence),
        events::duplicates(evidence),
        events::outage(evidence),
        events::dead_letters(evidence),
        events::nothing_pending(evidence),
    ]
}

/// Violations of a promise: their number, and the first one as an example.
#[derive(Default)]
struct Violations {
    count: usize,
    first: Option<String>,
}

impl Violations {
    fn add(&mut self, finding: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(finding());
        }
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends the number of violations and the example to the text `found`.
    fn append_to(&self, found: String) -> String {
        match &self.first {
            None => found,
            Some(first) => format!("{found}; {} wrong, for example {first}", self.count),
        }
    }
}

/// A promise; it is kept if there are no violations.
fn promise(name: &'static str, promised: String, found: String, violations: &Violations) -> Promise {
    Promise { name, promised, found: violations.append_to(found), kept: violations.is_empty() }
}

/// Formats a duration as seconds with one decimal.
fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
