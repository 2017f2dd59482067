//! Refunds, as operators see them.

use handover_events::TenantId;
use handover_http::views;
use handover_http::views::{Listed, Time};
use marketplace_domain::{
    Currency, InvoiceId, Money, OrderId, PaymentId, Reference, Refund, RefundId, RefundStatus,
};

use crate::openapi::kinds;

views! {
    /// A refund with the state of its requests to the gateway.
    pub RefundDetailsView as RefundDetails {
        refund_id: RefundId,
        tenant_id: TenantId,
        /// Null for the refund of an invoice.
        order_id: Option<OrderId>,
        /// Null for the refund of an order.
        invoice_id: Option<InvoiceId>,
        payment_id: PaymentId,
        /// Number of the refunded capture within the payment.
        capture: u32,
        amount: Money,
        currency: Currency,
        cause: &'static str = kinds::RefundCause,
        /// Reason given by the requester; that of a buyer is masked for callers without the role `pii`.
        reason: String,
        status: RefundStatus,
        /// Number of the current attempt; a retry of a failed refund begins a new one.
        attempt: u32,
        /// Name of the current attempt towards the gateway; null for a refund of an earlier version.
        reference: Option<Reference>,
        /// Number of requests of the current attempt that were sent to the gateway.
        requests: u32,
        /// Time of the next request; null if none is due.
        next_attempt_time: Option<Time>,
        /// Error of the last request: the gateway's reason.
        last_error: Option<String>,
        /// The gateway's transaction id of the refund.
        transaction_id: Option<String>,
        /// The attempt that succeeded.
        settled_attempt: Option<u32>,
        /// The operator who settled the refund by hand.
        settled_by: Option<String>,
        /// Number of times that the refund succeeded.
        payouts: u32,
        /// Whether another refund has already returned the same money.
        excess: bool,
        /// Trace id of the request that created the refund; for an automatic refund, that of the payment.
        trace_id: Option<String>,
        create_time: Time,
        update_time: Time,
    }
}

impl Listed for RefundDetailsView {
    const COLUMNS: &'static [&'static str] = &[
        "refundId",
        "createTime",
        "orderId",
        "invoiceId",
        "amount",
        "cause",
        "status",
        "attempt",
        "requests",
        "nextAttemptTime",
        "lastError",
    ];
}

impl From<Refund> for RefundDetailsView {
    fn from(refund: Refund) -> RefundDetailsView {
        RefundDetailsView {
            refund_id: refund.id,
            tenant_id: refund.tenant,
            order_id: refund.of.order(),
            invoice_id: refund.of.invoice(),
            payment_id: refund.payment,
            capture: refund.capture,
            amount: refund.amount,
            currency: refund.currency,
            cause: refund.cause.as_str(),
            reason: refund.reason,
            status: refund.status,
            attempt: refund.attempt,
            reference: refund.reference,
            requests: refund.attempts,
            next_attempt_time: refund.next_attempt_time.map(Time),
            last_error: refund.last_error,
            transaction_id: refund.transaction_id,
            settled_attempt: refund.settled_attempt,
            settled_by: refund.settled_by,
            payouts: refund.payouts,
            excess: refund.is_excess,
            trace_id: refund.trace.map(|trace| trace.trace_id),
            create_time: Time(refund.create_time),
            update_time: Time(refund.update_time),
        }
    }
}
