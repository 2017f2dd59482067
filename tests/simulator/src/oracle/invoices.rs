//! Invoices: at most one per tenant, over exactly the completed orders of its month; one payment pays it and one refund
//! returns it.

use handover_outbox::ports::StoreError;
use marketplace::ports::{InvoiceFilter, InvoicePayments, MarketView};
use marketplace_domain::{EventKind, Invoice, InvoiceStatus, PaymentStatus, Refund};

use super::assets::{check_captures, check_refund_results};
use super::history::check_payment;
use super::{ALL, Checker};
use crate::actors::{invoices, tenants};

/// Fee of an order of the closed month: 2.5 % of 88.50 is 2.2125, rounded half up.
const FEE: i64 = 221;

/// All invoices with their payments, captures and refunds.
pub(super) async fn all(view: &mut dyn MarketView) -> Result<Vec<(Invoice, InvoicePayments)>, StoreError> {
    let mut all = Vec::new();
    for invoice in view.invoices_page(InvoiceFilter::default(), None, ALL).await? {
        let paid = view.payments_of_invoice(invoice.tenant, invoice.id).await?;
        all.push((invoice, paid));
    }
    Ok(all)
}

pub(super) async fn check(checker: &mut Checker<'_>) -> Result<(), StoreError> {
    let all = all(checker.view.as_mut()).await?;
    for tenant in tenants() {
        let of_tenant = all.iter().filter(|(invoice, _)| invoice.tenant == tenant).count();
        if of_tenant > 1 {
            checker.violation(format!("tenant {tenant} has {of_tenant} invoices for one month"));
        }
    }
    for (invoice, paid) in &all {
        check_lines(checker, invoice).await?;
        check_money(checker, invoice, paid);
    }
    Ok(())
}

async fn check_lines(checker: &mut Checker<'_>, invoice: &Invoice) -> Result<(), StoreError> {
    let orders = invoices::completed_orders(invoice.tenant);
    let lines = checker.view.invoice_lines(invoice.id, None, ALL).await?;
    let fees: Vec<i64> = lines.iter().map(|line| line.fee.minor()).collect();
    let announced = checker.rows.iter().filter(|row| {
        row.event_type == EventKind::InvoiceGenerated.as_str() && row.aggregate.id == invoice.id.get()
    });
    let announced = announced.count();
    let is_complete = fees.len() == orders as usize && fees.iter().all(|fee| *fee == FEE);
    let total = invoice.total.minor();
    if !is_complete || invoice.orders != orders || total != FEE * i64::from(orders) || announced != 1 {
        checker.violation(format!(
            "invoice {} of tenant {} over {total} for {} orders has the fees {fees:?} and {announced} events; {orders} \
             orders were completed",
            invoice.id, invoice.tenant, invoice.orders
        ));
    }
    Ok(())
}

fn check_money(checker: &mut Checker<'_>, invoice: &Invoice, paid: &InvoicePayments) {
    let InvoicePayments { payments, captures, refunds, .. } = paid;
    for payment in payments {
        check_payment(checker, payment);
    }
    check_refund_results(checker, refunds);
    check_captures(checker, invoice.id.into(), captures, refunds);
    let paying = payments.iter().filter(|it| it.status == PaymentStatus::Success && !it.refund_due).count();
    let returns = |refund: &&Refund| refund.cause.is_requested() && !refund.is_excess && refund.payouts > 0;
    let returned = refunds.iter().filter(returns).count();
    let expected = match invoice.status {
        InvoiceStatus::Pending => (0, false),
        InvoiceStatus::Paid => (1, false),
        InvoiceStatus::Refunded => (1, true),
    };
    if (paying, returned > 0) != expected {
        checker.violation(format!(
            "invoice {} is {}, but {paying} payments paid it, and {returned} refunds returned it",
            invoice.id, invoice.status
        ));
    }
    let situation = match invoice.status {
        InvoiceStatus::Pending => return,
        InvoiceStatus::Paid => "paid invoice",
        InvoiceStatus::Refunded => "refunded invoice",
    };
    checker.evidence.faults.cover(|coverage| coverage.situation(situation));
}
