//! Comparison of invoices with their lines, with the completed orders of their month, with their payments and refunds, and
//! with their events.
//!
//! **Invariant:** an invoice has a line for exactly the orders that were completed in its month, each with the fee of the
//! order's total, and its total is the sum of the fees. An invoice and its lines are written together, and neither the lines
//! nor the completed orders of a closed month change.
//!
//! **Invariant:** an invoice is paid by one capture and refunded by one refund, and each movement of money is in the ledger.

use std::collections::BTreeMap;

use handover_outbox::ports::StoreError;
use marketplace_domain::{
    BilledOrder, Invoice, InvoiceLine, InvoiceStatus, Money, OperationKey, OrderId, Refund, RefundStatus,
};

use super::{ExpectedEvent, missing_of_invoice};
use crate::cash;
use crate::ports::{InvoicePayments, MarketView};

/// Lines or orders per page.
const PAGE: u32 = 1_000;

/// A contradiction of an invoice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InvoiceMismatch {
    /// An order was completed in the month and has no line.
    NotInvoiced(OrderId),
    /// A line is about an order that was not completed in the month.
    NotCompleted(OrderId),
    /// The line of an order differs from the order.
    LineDiffers(OrderId),
    /// Number or sum of the lines differ from the invoice.
    TotalDiffers { lines: u64, sum: i128 },
    /// The payments and refunds contradict the status.
    MoneyDiffers { is_paid: bool, is_refunded: bool },
    /// A captured or refunded amount is not in the ledger.
    NotBooked(OperationKey),
    /// An event is neither in the outbox nor in the archive.
    MissingEvent(ExpectedEvent),
}

/// The contradictions of an invoice. Its lines are read after it: they were written in the same unit of work.
pub(crate) async fn mismatches_of_invoice(
    view: &mut dyn MarketView,
    invoice: &Invoice,
) -> Result<Vec<InvoiceMismatch>, StoreError> {
    let mut lines: BTreeMap<OrderId, InvoiceLine> = BTreeMap::new();
    loop {
        let after = lines.last_key_value().map(|(order, _)| *order);
        let page = view.invoice_lines(invoice.id, after, PAGE).await?;
        if page.is_empty() {
            break;
        }
        lines.extend(page.into_iter().map(|line| (line.order, line)));
    }
    let count = u64::try_from(lines.len()).unwrap_or(u64::MAX);
    let sum = lines.values().map(|line| i128::from(line.fee.minor())).sum();
    let mut found = Vec::new();
    if (count, sum) != (u64::from(invoice.orders), i128::from(invoice.total.minor())) {
        found.push(InvoiceMismatch::TotalDiffers { lines: count, sum });
    }
    let [since, until] = [invoice.period.start(), invoice.period.end()];
    let mut after = None;
    loop {
        let page = view.completed_orders(invoice.tenant, since, until, after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some((last.complete_time, last.order));
        for billed in page {
            match lines.remove(&billed.order) {
                None => found.push(InvoiceMismatch::NotInvoiced(billed.order)),
                Some(line) if is_line_of(invoice, &line, &billed) => {}
                Some(_) => found.push(InvoiceMismatch::LineDiffers(billed.order)),
            }
        }
    }
    found.extend(lines.into_keys().map(InvoiceMismatch::NotCompleted));
    found.extend(mismatches_of_money(view, invoice).await?);
    Ok(found)
}

/// The contradictions of an invoice with its payments, refunds, events and ledger operations. A change of the status is committed
/// together with its payment or refund, so that nothing is compared if the invoice has changed since it was read. A movement of
/// money is committed together with its operation, so that the operations are read last.
async fn mismatches_of_money(
    view: &mut dyn MarketView,
    invoice: &Invoice,
) -> Result<Vec<InvoiceMismatch>, StoreError> {
    let paid = view.payments_of_invoice(invoice.tenant, invoice.id).await?;
    if view.invoice_by_id(invoice.id).await?.as_ref() != Some(invoice) {
        return Ok(Vec::new());
    }
    // Payments and refunds are committed together with their events, which are therefore visible by now.
    let (missing, _) = missing_of_invoice(view, invoice, &paid).await?;
    let mut found: Vec<InvoiceMismatch> = missing.into_iter().map(InvoiceMismatch::MissingEvent).collect();
    let InvoicePayments { payments, captures, refunds, .. } = paid;
    let captures = cash::captures_of(&payments, captures);
    let capture_key = OperationKey::invoice_capture(invoice.id);
    let mut keys = Vec::new();
    let mut is_paid = false;
    let mut is_refunded = false;
    for capture in &captures {
        let payment = payments.iter().find(|payment| payment.id == capture.payment);
        let key = payment.map_or_else(
            || OperationKey::capture(capture.payment, capture.number),
            |payment| capture.operation_key(payment),
        );
        if key == capture_key {
            is_paid = true;
            let is_of_capture = |refund: &&Refund| capture.is_refunded_by(refund) && !refund.is_excess;
            is_refunded = refunds.iter().filter(is_of_capture).any(|refund| match invoice.status {
                InvoiceStatus::Refunded => refund.payouts > 0,
                InvoiceStatus::Pending | InvoiceStatus::Paid => refund.status == RefundStatus::Success,
            });
        }
        if capture.amount > Money::ZERO {
            keys.push(key);
        }
    }
    let refunded = refunds.iter().filter(|refund| refund.amount > Money::ZERO);
    keys.extend(refunded.flat_map(cash::operations_of_refund).map(|(_, key)| key));
    let expected = match invoice.status {
        InvoiceStatus::Pending => (false, false),
        InvoiceStatus::Paid => (true, false),
        InvoiceStatus::Refunded => (true, true),
    };
    if (is_paid, is_refunded) != expected {
        found.push(InvoiceMismatch::MoneyDiffers { is_paid, is_refunded });
    }
    let booked = view.operations_by_key(invoice.tenant, &keys).await?;
    keys.retain(|key| booked.iter().all(|operation| operation.key != *key));
    found.extend(keys.into_iter().map(InvoiceMismatch::NotBooked));
    Ok(found)
}

fn is_line_of(invoice: &Invoice, line: &InvoiceLine, billed: &BilledOrder) -> bool {
    let fee: Money = invoice.fee_rate.fee_of(billed.total);
    (line.tenant, line.order_total, line.fee) == (invoice.tenant, billed.total, fee)
}

impl InvoiceMismatch {
    /// Description for operators.
    pub(crate) fn describe(&self, invoice: &Invoice) -> String {
        let Invoice { id, period, orders, total, .. } = invoice;
        match self {
            InvoiceMismatch::NotInvoiced(order) => {
                format!("order {order} was completed in {period}, but invoice {id} has no line of it")
            }
            InvoiceMismatch::NotCompleted(order) => {
                format!("invoice {id} has a line of order {order}, which was not completed in {period}")
            }
            InvoiceMismatch::LineDiffers(order) => format!(
                "the line of order {order} in invoice {id} differs from the total of the order, or from its fee of {} bps",
                invoice.fee_rate.basis_points()
            ),
            InvoiceMismatch::TotalDiffers { lines, sum } => {
                let sum = i64::try_from(*sum).ok().and_then(|minor| Money::from_minor(minor).ok());
                let sum = sum.map_or_else(|| "more than any amount".to_owned(), |sum| sum.to_string());
                format!(
                    "invoice {id} has {orders} orders and a total of {total}, but {lines} lines over {sum}"
                )
            }
            InvoiceMismatch::MoneyDiffers { is_paid, is_refunded } => {
                let money = match (is_paid, is_refunded) {
                    (false, _) => "no payment has paid it",
                    (true, false) => "a payment has paid it, and no refund of it has succeeded",
                    (true, true) => "a payment has paid it, and a refund of it has succeeded",
                };
                format!("invoice {id} is {}, but {money}", invoice.status)
            }
            InvoiceMismatch::NotBooked(key) => {
                format!("the money of invoice {id} was moved, but {key} is not in the ledger")
            }
            InvoiceMismatch::MissingEvent(event) => event.describe_missing(),
        }
    }

    /// The order that the finding is about.
    pub(crate) const fn order(&self) -> Option<OrderId> {
        match self {
            InvoiceMismatch::NotInvoiced(order)
            | InvoiceMismatch::NotCompleted(order)
            | InvoiceMismatch::LineDiffers(order) => Some(*order),
            InvoiceMismatch::TotalDiffers { .. }
            | InvoiceMismatch::MoneyDiffers { .. }
            | InvoiceMismatch::NotBooked(_)
            | InvoiceMismatch::MissingEvent(_) => None,
        }
    }
}
