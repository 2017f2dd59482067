//! Result of a reconciliation.

use chrono::{DateTime, Utc};

use marketplace_domain::FindingKind;

use super::findings::Finding;

/// Maximum number of findings that one call returns; see [`Reconciliation::more`].
pub const MAX_FINDINGS: usize = 1_000;

/// Result of a reconciliation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconciliation {
    /// Start of the window.
    pub since: DateTime<Utc>,
    /// End of the window, exclusive.
    pub until: DateTime<Utc>,
    /// Number of compared orders.
    pub orders: u64,
    /// Number of outbox rows of the compared orders, their payments and their refunds.
    pub events: u64,
    /// Number of the rows counted in `events` that the broker has confirmed.
    pub confirmed: u64,
    /// Number of `SUCCESS` consume-log records of the compared orders.
    pub consumed: u64,
    /// Number of the records counted in `consumed` whose effect exists.
    pub effects: u64,
    /// Number of pairs of event and consumer in progress: the event is not published, not delivered, or not yet settled
    /// by the consumer.
    pub pending: u64,
    /// Number of pairs of event and consumer that ended in a dead letter.
    pub parked: u64,
    /// Discrepancies, at most [`MAX_FINDINGS`].
    pub findings: Vec<Finding>,
    /// Whether there are more findings than returned.
    pub more: bool,
}

impl Reconciliation {
    /// Whether there are no findings, or all of them were repaired.
    pub fn is_sound(&self) -> bool {
        !self.more && self.findings.iter().all(|finding| finding.repair.is_some())
    }

    /// Number of findings of a kind.
    pub fn count(&self, kind: FindingKind) -> usize {
        self.findings.iter().filter(|finding| finding.kind == kind).count()
    }
}
