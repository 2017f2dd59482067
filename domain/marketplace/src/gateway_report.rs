//! The record of a report of the gateway: what it said, and what was done.

use chrono::{DateTime, Utc};

use crate::{Money, PayableId, PaymentId, RefundId};
use handover_events::{TenantId, named};

/// The subject of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportKind {
    Payment,
    Refund,
}

named!(ReportKind { Payment => "payment", Refund => "refund" });

/// Whether an operator must look at a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportState {
    /// Nothing is left to do.
    Done,
    /// An operator must decide.
    Open,
    /// An operator closed it, or a repetition of the report found its payment or refund.
    Closed,
}

named!(ReportState { Done => "DONE", Open => "OPEN", Closed => "CLOSED" });

/// What was done because of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportOutcome {
    /// The report changed nothing.
    Recorded,
    OrderPaid,
    InvoicePaid,
    PaymentFailed,
    /// The payment succeeded after its order or invoice could no longer be paid; its refund was started.
    LatePayment,
    /// The payment was captured once more; the refund of that capture was started.
    SecondCapture,
    /// Another amount than that of the payment was captured; its refund was started.
    WrongAmount,
    /// The transaction id is already booked for another payment or over another amount.
    TransactionConflict,
    /// A payment that had succeeded was reported as failed.
    PaymentFailedAfterSuccess,
    Refunded,
    /// The refund succeeded after the order was shipped.
    RefundedAfterShipping,
    /// The same money was returned more than once, or may be.
    RefundedTwice,
    RefundFailed,
    /// A refund that had succeeded was reported as failed.
    RefundFailedAfterSuccess,
    /// An operator had already settled the refund.
    SettledByOperator,
    /// No payment or refund has this reference or id.
    NotFound,
    /// The reference and the id belong to different payments or refunds.
    Mismatch,
    /// The body is not a valid report.
    Unreadable,
}

named!(ReportOutcome {
    Recorded => "recorded", OrderPaid => "order_paid", InvoicePaid => "invoice_paid", PaymentFailed => "payment_failed",
    LatePayment => "late_payment", SecondCapture => "second_capture", WrongAmount => "wrong_amount",
    TransactionConflict => "transaction_conflict", PaymentFailedAfterSuccess => "payment_failed_after_success",
    Refunded => "refunded", RefundedAfterShipping => "refunded_after_shipping", RefundedTwice => "refunded_twice",
    RefundFailed => "refund_failed", RefundFailedAfterSuccess => "refund_failed_after_success",
    SettledByOperator => "settled_by_operator", NotFound => "not_found", Mismatch => "mismatch",
    Unreadable => "unreadable"
});

impl ReportOutcome {
    /// Whether the case is uncertain, so that an operator must decide.
    pub const fn needs_operator(self) -> bool {
        match self {
            ReportOutcome::Recorded
            | ReportOutcome::OrderPaid
            | ReportOutcome::InvoicePaid
            | ReportOutcome::PaymentFailed
            | ReportOutcome::LatePayment
            | ReportOutcome::SecondCapture
            | ReportOutcome::Refunded
            | ReportOutcome::RefundFailed => false,
            ReportOutcome::WrongAmount
            | ReportOutcome::TransactionConflict
            | ReportOutcome::PaymentFailedAfterSuccess
            | ReportOutcome::RefundedAfterShipping
            | ReportOutcome::RefundedTwice
            | ReportOutcome::RefundFailedAfterSuccess
            | ReportOutcome::SettledByOperator
            | ReportOutcome::NotFound
            | ReportOutcome::Mismatch
            | ReportOutcome::Unreadable => true,
        }
    }

    /// The state of a new report with this outcome.
    pub const fn state(self) -> ReportState {
        if self.needs_operator() { ReportState::Open } else { ReportState::Done }
    }
}

/// Who closed a report, why and when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClosedBy {
    pub operator: String,
    pub reason: String,
    pub at: DateTime<Utc>,
}

/// A report with a valid signature of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayReport {
    /// Identifies the report: a repetition has the same key.
    pub key: String,
    pub kind: ReportKind,
    /// `None` if the payment or refund is unknown; then only operators of all tenants see the report.
    pub tenant: Option<TenantId>,
    /// The order or invoice of the payment or refund.
    pub of: Option<PayableId>,
    pub payment: Option<PaymentId>,
    pub refund: Option<RefundId>,
    /// Number of the attempt at the refund.
    pub attempt: Option<u32>,
    /// The reference as reported.
    pub reference: Option<String>,
    pub transaction_id: Option<String>,
    /// `SUCCESS` or `FAILED`; `None` if the body is unreadable.
    pub result: Option<String>,
    pub amount: Option<Money>,
    /// SHA-256 of the body, in hexadecimal.
    pub body_hash: String,
    /// Why the body is unreadable.
    pub error: Option<String>,
    pub outcome: ReportOutcome,
    /// Status of the payment or refund in the response.
    pub answer: Option<String>,
    pub state: ReportState,
    /// Trace id of the request that delivered the report.
    pub trace_id: String,
    pub create_time: DateTime<Utc>,
    /// Set if the state is `CLOSED`.
    pub closed: Option<ClosedBy>,
}
