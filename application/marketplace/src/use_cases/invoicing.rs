//! Use cases of invoices, and the queries of operators about them.

use std::sync::Arc;

use handover_outbox::Page;
use handover_outbox::operations::{Action, Operator, count};
use marketplace_domain::{FeeRate, Invoice, InvoiceId, InvoiceLine, InvoiceStatus, OrderId};

use super::UseCaseError;
use crate::context::CommandContext;
use crate::events::EventSource;
use crate::ids::Ids;
use crate::ports::{InvoiceFilter, MarketTransactor};

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

/// An invoice and a page of its lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvoiceWithLines {
    pub invoice: Invoice,
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

    /// Returns an invoice with the lines of the orders above `after`, smallest order id first; an invoice of another tenant
    /// is not found. The call is recorded in the audit log.
    pub async fn find(
        &self,
        context: &CommandContext,
        id: InvoiceId,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<InvoiceWithLines, UseCaseError> {
        let operator = context.operator()?;
        let mut view = self.tx.view().await?;
        let found = view.invoice_by_id(id).await?.filter(|invoice| is_visible(&operator, invoice));
        let lines = match &found {
            Some(invoice) => view.invoice_lines(invoice.id, after, limit.saturating_add(1)).await?,
            None => Vec::new(),
        };
        drop(view);
        let tenant = found.as_ref().map(|invoice| invoice.tenant);
        let action = Action::read("invoices.show", [("invoiceId", Some(id.get().into()))]);
        action.record(&self.tx, &operator, tenant, u64::from(found.is_some())).await?;
        let invoice = found.ok_or(UseCaseError::NotFound { what: "invoice" })?;
        Ok(InvoiceWithLines { invoice, lines: Page::cut(lines, limit, |line| line.order.get()) })
    }
}

pub(super) fn is_visible(operator: &Operator, invoice: &Invoice) -> bool {
    operator.sees_all_tenants || invoice.tenant == operator.tenant
}
