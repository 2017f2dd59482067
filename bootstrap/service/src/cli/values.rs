//! Parsers of command-line values of the marketplace. Unlike errors of the standard library, their errors name the accepted
//! values.

use handover_events::IdError;
use marketplace_domain::{
    BillingPeriod, FindingState, InvoiceId, InvoiceStatus, NotAPeriod, NotAReference, NotAnOrderNo, OrderNo,
    PaymentId, PaymentMethod, Reference, RefundId, RefundStatus, ReportState, UserId,
};

pub(super) fn order_no(text: &str) -> Result<OrderNo, String> {
    text.parse().map_err(|error: NotAnOrderNo| error.to_string())
}

pub(super) fn user(text: &str) -> Result<UserId, String> {
    text.parse().map_err(|error: IdError| error.to_string())
}

pub(super) fn payment(text: &str) -> Result<PaymentId, String> {
    text.parse().map_err(|error: IdError| error.to_string())
}

pub(super) fn reference(text: &str) -> Result<Reference, String> {
    text.parse().map_err(|error: NotAReference| error.to_string())
}

pub(super) fn refund(text: &str) -> Result<RefundId, String> {
    text.parse().map_err(|error: IdError| error.to_string())
}

pub(super) fn invoice(text: &str) -> Result<InvoiceId, String> {
    text.parse().map_err(|error: IdError| error.to_string())
}

pub(super) fn invoice_status(name: &str) -> Result<InvoiceStatus, String> {
    name.to_ascii_lowercase().parse().map_err(|_| "allowed values: pending, paid, refunded".to_owned())
}

pub(super) fn payment_method(name: &str) -> Result<PaymentMethod, String> {
    let name = name.to_ascii_lowercase();
    name.parse().map_err(|_| format!("allowed values: {}", PaymentMethod::ACCEPTED.join(", ")))
}

pub(super) fn period(text: &str) -> Result<BillingPeriod, String> {
    text.parse().map_err(|error: NotAPeriod| error.to_string())
}

pub(super) fn refund_status(name: &str) -> Result<RefundStatus, String> {
    name.to_ascii_uppercase().parse().map_err(|_| "allowed values: processing, success, failed".to_owned())
}

pub(super) fn report_state(name: &str) -> Result<ReportState, String> {
    name.to_ascii_uppercase().parse().map_err(|_| "allowed values: open, done, closed".to_owned())
}

pub(super) fn finding_state(name: &str) -> Result<FindingState, String> {
    let values = "allowed values: open, acknowledged, repaired, resolved";
    name.to_ascii_uppercase().parse().map_err(|_| values.to_owned())
}
