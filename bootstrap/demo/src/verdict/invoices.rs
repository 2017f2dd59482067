//! The promise about invoices.

use marketplace_domain::{InvoiceStatus, PaymentStatus, RefundStatus};

use super::super::database_snapshot::InvoiceRows;
use super::promise::{Evidence, Promise, Violations, promise};

/// Promise: each invoice was paid once, in full, and the last one was refunded once; the ledger has each of these operations
/// once.
pub(super) fn settled(evidence: &Evidence<'_>) -> Promise {
    let invoices = &evidence.database.invoices;
    let mut violations = Violations::default();
    for rows in invoices {
        let InvoiceRows { invoice, money, operations } = rows;
        let is_refunded = invoice.status == InvoiceStatus::Refunded;
        let paid: Vec<_> =
            money.payments.iter().filter(|payment| payment.status == PaymentStatus::Success).collect();
        let refunded: Vec<_> =
            money.refunds.iter().filter(|refund| refund.status == RefundStatus::Success).collect();
        let is_paid_once = matches!(paid.as_slice(), [payment] if payment.amount == invoice.total);
        let is_refunded_once = matches!(refunded.as_slice(), [refund] if refund.amount == invoice.total);
        let booked = operations.iter().filter(|operation| operation.amount == invoice.total.minor()).count();
        let expected = 1 + usize::from(is_refunded);
        if !is_paid_once || is_refunded_once != is_refunded || booked != expected {
            violations.add(|| {
                format!(
                    "invoice {} over {} is {}: {} payments, {} refunds, {booked} operations in the ledger",
                    invoice.id,
                    invoice.total,
                    invoice.status,
                    paid.len(),
                    refunded.len()
                )
            });
        }
    }
    let with = |status| invoices.iter().filter(|rows| rows.invoice.status == status).count();
    let found = (with(InvoiceStatus::Paid), with(InvoiceStatus::Refunded));
    let promised = (evidence.expected.invoices.saturating_sub(1), 1);
    let show = |(paid, refunded)| format!("{paid} paid, {refunded} refunded");
    if found != promised {
        violations.add(|| format!("{} invoices", invoices.len()));
    }
    promise("invoices are paid and refunded once", show(promised), show(found), &violations)
}
