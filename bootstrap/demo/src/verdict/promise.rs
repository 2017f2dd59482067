//! The result of a promise, and the evidence that promises are checked against.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Serialize;

use super::super::broker_faults::InjectedFaults;
use super::super::database_snapshot::DatabaseSnapshot;
use super::super::journal::ClientRecord;
use super::super::webhook_receiver::WebhookRecord;

/// A guarantee of the service that the demo verifies, called promise in its output, with the result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(in super::super) struct Promise {
    pub(in super::super) name: &'static str,
    pub(in super::super) promised: String,
    pub(in super::super) found: String,
    pub(in super::super) kept: bool,
}

/// A consumer and the event types that it subscribes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct ConsumerEvents {
    pub(in super::super) name: String,
    pub(in super::super) event_types: BTreeSet<String>,
}

/// Parameters of the day that promises depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Expectations {
    /// Planned number of orders.
    pub(in super::super) orders: usize,
    /// Number of buyers who order the same lamp at the same moment.
    pub(in super::super) lamp_buyers: usize,
    /// Time that a buyer has to pay.
    pub(in super::super) payment_timeout: Duration,
    /// Maximum delay between the payment deadline and the cancellation.
    pub(in super::super) cancel_delay_limit: Duration,
    /// Planned duration of the outage.
    pub(in super::super) outage: Duration,
    /// Planned number of invoices, of which the last one is refunded.
    pub(in super::super) invoices: usize,
}

/// Everything that the promises are checked against.
pub(in super::super) struct Evidence<'a> {
    pub(in super::super) expected: Expectations,
    /// Responses that clients received.
    pub(in super::super) clients: &'a ClientRecord,
    pub(in super::super) database: &'a DatabaseSnapshot,
    pub(in super::super) injected: &'a InjectedFaults,
    pub(in super::super) consumers: &'a [ConsumerEvents],
    /// Number of messages in the queues.
    pub(in super::super) queued: u64,
    /// What the receiver of webhooks saw.
    pub(in super::super) webhooks: &'a WebhookRecord,
}

/// Violations of a promise: their number, and the first one as an example.
#[derive(Default)]
pub(super) struct Violations {
    pub(super) count: usize,
    first: Option<String>,
}

impl Violations {
    pub(super) fn add(&mut self, finding: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(finding());
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Appends the number of violations and the example to the text `found`.
    pub(super) fn append_to(&self, found: String) -> String {
        match &self.first {
            None => found,
            Some(first) => format!("{found}; {} wrong, for example {first}", self.count),
        }
    }
}

/// A promise; it is kept if there are no violations.
pub(super) fn promise(
    name: &'static str,
    promised: String,
    found: String,
    violations: &Violations,
) -> Promise {
    Promise { name, promised, found: violations.append_to(found), kept: violations.is_empty() }
}

/// Formats a duration as seconds with one decimal.
pub(super) fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}
