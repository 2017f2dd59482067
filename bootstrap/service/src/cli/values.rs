//! Parsers of command-line values of the marketplace. Unlike errors of the standard library, their errors name the accepted
//! values.

use handover_cli::values::{OneOf, one_of};
use handover_events::IdError;
use marketplace_domain::{
    BillingPeriod, FindingState, InvoiceId, InvoiceStatus, NotAPeriod, NotAReference, NotAnOrderNo, OrderNo,
    PaymentId, PaymentMethod, PaymentStatus, Reference, RefundId, RefundStatus, ReportState, UserId,
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

pub(super) fn invoice_status() -> OneOf<InvoiceStatus> {
    one_of(["pending", "paid", "refunded"], |name| name.parse().ok())
}

pub(super) fn payment_method() -> OneOf<PaymentMethod> {
    one_of(PaymentMethod::ACCEPTED.iter().copied(), |name| name.parse().ok())
}

pub(super) fn period(text: &str) -> Result<BillingPeriod, String> {
    text.parse().map_err(|error: NotAPeriod| error.to_string())
}

pub(super) fn refund_status() -> OneOf<RefundStatus> {
    one_of(["processing", "success", "failed"], |name| name.to_ascii_uppercase().parse().ok())
}

pub(super) fn payment_status() -> OneOf<PaymentStatus> {
    one_of(["processing", "success", "failed"], |name| name.to_ascii_uppercase().parse().ok())
}

pub(super) fn report_state() -> OneOf<ReportState> {
    one_of(["open", "done", "closed"], |name| name.to_ascii_uppercase().parse().ok())
}

pub(super) fn finding_state() -> OneOf<FindingState> {
    let names = ["open", "acknowledged", "repaired", "resolved"];
    one_of(names, |name| name.to_ascii_uppercase().parse().ok())
}
