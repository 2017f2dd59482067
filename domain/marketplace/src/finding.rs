//! A finding of a reconciliation, kept until it is repaired, resolved or acknowledged.

use chrono::{DateTime, Utc};
use handover_events::{TenantId, named};

use crate::OrderId;

/// Kind of a finding: the comparison that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// The event of a committed change is missing in the outbox.
    MissingEvent,
    /// An event is FAILED: the broker did not confirm it.
    NotConfirmed,
    /// An event was confirmed, but a consumer has no consume-log record of it.
    NotConsumed,
    /// A consumer recorded an event as applied, but its effect is missing.
    MissingEffect,
    /// A dead letter whose event has no outbox row.
    UnknownEvent,
    /// A row has a value that cannot be read. Until an operator corrects the value, the event of an outbox row is neither
    /// published nor applied, and the order of another row is not compared.
    UnreadableRow,
    /// A business fact of an order has the same effect more than once.
    DoubledEffect,
    /// The order of an effect does not exist or contradicts the effect.
    EffectWithoutFact,
    /// A hold is missing although asset operations or an applied cancellation require it.
    MissingHold,
    /// A captured or refunded amount is not in the ledger.
    NotBooked,
    /// The entries of a ledger operation do not sum to zero, or the operation is missing.
    Unbalanced,
    /// A balance differs from the sum of its entries.
    Drifted,
    /// An order occupies a product that is not `sold`: it may be sold twice.
    ProductNotSold,
    /// More than one order occupies a product.
    SoldTwice,
    /// A product is `sold`, but no order occupies it.
    SoldWithoutOrder,
    /// An order is paid, but no payment of its amount succeeded.
    PaidWithoutPayment,
    /// An order is paid, but its payment is FAILED.
    PaymentFailed,
    /// A payment is SUCCESS, but its order is pending.
    PaymentNotApplied,
    /// A refund is settled or lost, but its order is still paid or waits for it.
    RefundNotApplied,
    /// Captured money that buys nothing has no refund in PROCESSING or SUCCESS.
    NotRefunded,
    /// A report of the gateway is open: an operator must decide and close it.
    GatewayReport,
    /// Money moved, or should have moved, without a report of the gateway.
    NotReported,
    /// An event was applied by the consumer of webhooks, but an endpoint has no delivery of it.
    MissingDelivery,
    /// An invoice contradicts its lines or the orders that were completed in its month.
    InvoiceDiffers,
}

named!(FindingKind {
    MissingEvent => "missingEvent",
    NotConfirmed => "notConfirmed",
    NotConsumed => "notConsumed",
    MissingEffect => "missingEffect",
    UnknownEvent => "unknownEvent",
    UnreadableRow => "unreadableRow",
    DoubledEffect => "doubledEffect",
    EffectWithoutFact => "effectWithoutFact",
    MissingHold => "missingHold",
    NotBooked => "notBooked",
    Unbalanced => "unbalanced",
    Drifted => "drifted",
    ProductNotSold => "productNotSold",
    SoldTwice => "soldTwice",
    SoldWithoutOrder => "soldWithoutOrder",
    PaidWithoutPayment => "paidWithoutPayment",
    PaymentFailed => "paymentFailed",
    PaymentNotApplied => "paymentNotApplied",
    RefundNotApplied => "refundNotApplied",
    NotRefunded => "notRefunded",
    GatewayReport => "gatewayReport",
    NotReported => "notReported",
    MissingDelivery => "missingDelivery",
    InvoiceDiffers => "invoiceDiffers",
});

/// State of a recorded finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingState {
    /// Found, and nobody has decided about it.
    Open,
    /// An operator knows about it; it is not counted any more.
    Acknowledged,
    /// A reconciliation repaired it.
    Repaired,
    /// A later reconciliation compared the same rows and did not find it.
    Resolved,
}

named!(FindingState {
    Open => "OPEN", Acknowledged => "ACKNOWLEDGED", Repaired => "REPAIRED", Resolved => "RESOLVED"
});

impl FindingState {
    /// Whether the discrepancy existed when it was last compared.
    pub const fn is_unresolved(self) -> bool {
        match self {
            FindingState::Open | FindingState::Acknowledged => true,
            FindingState::Repaired | FindingState::Resolved => false,
        }
    }
}

/// The operator who acknowledged a finding, with reason and time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcknowledgedBy {
    pub operator: String,
    pub reason: String,
    pub at: DateTime<Utc>,
}

/// A finding as one run of the reconciliation saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedFinding {
    /// `None` if the compared row names no tenant; then only operators of all tenants see the finding.
    pub tenant: Option<TenantId>,
    pub kind: FindingKind,
    /// Identifies the finding within its tenant and kind: every run that sees it derives the same text.
    pub subject: String,
    pub order: Option<OrderId>,
    /// Id of the row that a kind without an order is about: the product, gateway report, dead letter or outbox row.
    pub row_id: Option<i64>,
    /// Description for operators.
    pub detail: String,
    /// Time at which the run repaired it; `None` if it did not.
    pub repaired_at: Option<DateTime<Utc>>,
    /// Start of the run.
    pub at: DateTime<Utc>,
}

/// A recorded finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedFinding {
    pub tenant: Option<TenantId>,
    pub kind: FindingKind,
    /// At most [`RecordedFinding::MAX_SUBJECT_CHARS`] characters.
    pub subject: String,
    pub order: Option<OrderId>,
    pub row_id: Option<i64>,
    pub detail: String,
    pub state: FindingState,
    pub first_seen: DateTime<Utc>,
    /// Start of the latest run that saw it.
    pub last_seen: DateTime<Utc>,
    /// Also kept after an acknowledged finding is repaired or resolved.
    pub acknowledged: Option<AcknowledgedBy>,
    /// Time of the repair, or start of the run that no longer saw it.
    pub closed_time: Option<DateTime<Utc>>,
    /// Version of the row, incremented by each change; starts at 1.
    pub version: i64,
}

impl RecordedFinding {
    /// Maximum number of characters of a subject.
    pub const MAX_SUBJECT_CHARS: usize = 512;

    /// A finding that was not recorded before.
    pub fn new(seen: ObservedFinding) -> RecordedFinding {
        RecordedFinding {
            tenant: seen.tenant,
            kind: seen.kind,
            subject: seen.subject,
            order: seen.order,
            row_id: seen.row_id,
            detail: seen.detail,
            state: if seen.repaired_at.is_some() { FindingState::Repaired } else { FindingState::Open },
            first_seen: seen.at,
            last_seen: seen.at,
            acknowledged: None,
            closed_time: seen.repaired_at,
            version: 1,
        }
    }

    /// The finding after another run saw it. A finding that was repaired or resolved is open again, without its earlier
    /// acknowledgement; an acknowledged one stays acknowledged. `None` if a later run has already decided about it, or if another
    /// run has repaired it since this one began.
    #[must_use]
    pub fn seen_again(&self, seen: &ObservedFinding) -> Option<RecordedFinding> {
        if seen.at < self.last_seen || self.closed_time.is_some_and(|closed| seen.at < closed) {
            return None;
        }
        let state = match (seen.repaired_at.is_some(), self.state) {
            (true, _) => FindingState::Repaired,
            (false, FindingState::Acknowledged) => FindingState::Acknowledged,
            (false, _) => FindingState::Open,
        };
        Some(RecordedFinding {
            order: seen.order,
            row_id: seen.row_id,
            detail: seen.detail.clone(),
            state,
            last_seen: seen.at,
            acknowledged: self.acknowledged.clone().filter(|_| self.state.is_unresolved()),
            closed_time: seen.repaired_at,
            version: self.version + 1,
            ..self.clone()
        })
    }

    /// The finding after a run that began at `at` compared the same rows and did not see it. `None` if it is neither open
    /// nor acknowledged, or if that run did not begin after the last one that saw it.
    #[must_use]
    pub fn resolved(&self, at: DateTime<Utc>) -> Option<RecordedFinding> {
        (self.state.is_unresolved() && self.last_seen < at).then(|| RecordedFinding {
            state: FindingState::Resolved,
            closed_time: Some(at),
            version: self.version + 1,
            ..self.clone()
        })
    }

    /// The finding after an operator acknowledged it; `None` if it is not open.
    #[must_use]
    pub fn acknowledged(&self, by: AcknowledgedBy) -> Option<RecordedFinding> {
        (self.state == FindingState::Open).then(|| RecordedFinding {
            state: FindingState::Acknowledged,
            acknowledged: Some(by),
            version: self.version + 1,
            ..self.clone()
        })
    }
}
