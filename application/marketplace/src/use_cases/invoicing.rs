//! Use cases of invoices, and the queries of operators about them.

use std::sync::Arc;

use handover_outbox::Page;
use handover_outbox::operations::{Action, Operator, count};
use marketplace_domain::{FeeRate, Invoice, InvoiceId, InvoiceLine, InvoiceStatus, OrderId, Payment, Refund};

use super::UseCaseError;
use crate::context::CommandContext;
use crate::events::EventSource;
use crate::ids::Ids;
use crate::ports::{InvoiceFilter, InvoicePayments, MarketTransactor};

/// Generates and reads invoices.
#[derive(Clone)]
pub struct Invoicing {
    pub(crate) tx: MarketTransactor,
    pub(crate) ids: Arc<Ids>,
    pub(crate) events: EventSource,
    /// Fee of the orders of new invoices.
    pub(crate) fee_rate: FeeRate,
}

/// Selects invoices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListInvoices {
    pub status: Option<InvoiceStatus>,
    /// Only invoices with an id below this one.
    pub before: Option<InvoiceId>,
    pub limit: u32,
}

/// An invoice with its payments and refunds, and a page of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvoiceDetails {
    pub invoice: Invoice,
    pub payments: Vec<Payment>,
    pub refunds: Vec<Refund>,
    pub lines: Page<InvoiceLine>,
}

impl Invoicing {
    /// Returns invoices, newest first: those of the operator's tenant, or of all tenants for `platform`. The call is
    /// recorded in the audit log.
    pub async fn list(
        &self,
        context: &CommandContext,
        query: ListInvoices,
    ) -> Result<Page<Invoice>, UseCaseError> {
        let operator = context.operator()?;
        let tenant = operator.only_tenant();
        let ListInvoices { status, before, limit } = query;
        let filter = InvoiceFilter { tenant, status };
        let found = self.tx.view().await?.invoices_page(filter, before, limit.saturating_add(1)).await?;
        let page = Page::cut(found, limit, |invoice| invoice.id.get());
        let state = status.map(|status| status.as_str().into());
        let action = Action::read("invoices.list", [("status", state)]);
        action.record(&self.tx, &operator, tenant, count(page.items.len())).await?;
        Ok(page)
    }

    /// Returns an invoice with its payments and refunds, and the lines of the orders above `after`, smallest order id first; an invoice of another tenant
    /// is not found. The call is recorded in the audit log.
    pub async fn find(
        &self,
        context: &CommandContext,
        id: InvoiceId,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<InvoiceDetails, UseCaseError> {
        let operator = context.operator()?;
        let mut view = self.tx.view().await?;
        let found = view.invoice_by_id(id).await?.filter(|invoice| is_visible(&operator, invoice));
        let details = match found {
            Some(invoice) => {
                let lines = view.invoice_lines(invoice.id, after, limit.saturating_add(1)).await?;
                let lines = Page::cut(lines, limit, |line| line.order.get());
                let InvoicePayments { payments, refunds, .. } =
                    view.payments_of_invoice(invoice.tenant, invoice.id).await?;
                Some(InvoiceDetails { invoice, payments, refunds, lines })
            }
            None => None,
        };
        drop(view);
        let tenant = details.as_ref().map(|details| details.invoice.tenant);
        let action = Action::read("invoices.show", [("invoiceId", Some(id.get().into()))]);
        action.record(&self.tx, &operator, tenant, u64::from(details.is_some())).await?;
        details.ok_or(UseCaseError::NotFound { what: "invoice" })
    }
}

pub(super) fn is_visible(operator: &Operator, invoice: &Invoice) -> bool {
    operator.sees_all_tenants || invoice.tenant == operator.tenant
}
