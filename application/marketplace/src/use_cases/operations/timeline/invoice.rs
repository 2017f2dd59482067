//! Timeline of an invoice, for operators.

use handover_outbox::operations::{Action, count};
use marketplace_domain::{AggregateType, InvoiceId, OperationKey};

use super::item::{TimelineItem, Visibility};
use super::items::Items;
use super::{add_events, add_refund_requests, aggregates_of};
use crate::cash;
use crate::consistency::row_of_operation;
use crate::context::CommandContext;
use crate::ports::InvoicePayments;
use crate::privacy;
use crate::use_cases::UseCaseError;
use crate::use_cases::operations::Operations;

/// Timeline of an invoice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvoiceTimeline {
    pub invoice: InvoiceId,
    /// Items, sorted by time. Of items with the same time, a cause comes before its consequences.
    pub items: Vec<TimelineItem>,
}

impl Operations {
    /// Returns the timeline of an invoice to the operators of its tenant and of all tenants. For others the invoice is not
    /// found. The call is recorded in the audit log.
    pub async fn invoice_timeline(
        &self,
        context: &CommandContext,
        id: InvoiceId,
    ) -> Result<InvoiceTimeline, UseCaseError> {
        let operator = context.operator()?;
        let action =
            Action::read_personal_data("invoice.timeline", &operator, [("invoiceId", Some(id.get().into()))]);
        let mut view = self.tx.view().await?;
        let is_visible = |tenant| operator.sees_all_tenants || operator.tenant == tenant;
        let found = view.invoice_by_id(id).await?.filter(|invoice| is_visible(invoice.tenant));
        let Some(invoice) = found else {
            drop(view);
            action.record(&self.tx, &operator, None, 0).await?;
            return Err(UseCaseError::NotFound { what: "invoice" });
        };
        let tenant = invoice.tenant;
        let InvoicePayments { payments, captures, refunds, reports } =
            view.payments_of_invoice(tenant, id).await?;
        let of = (AggregateType::Invoice, id.get());
        let aggregates = aggregates_of(tenant, of, (&payments, &refunds));
        drop(view);
        let events = self.events_about(&aggregates).await?;
        let mut view = self.tx.view().await?;
        let free_text = privacy::sees_personal_data(context);
        let visibility = Visibility { operations: true, assets: true, free_text };
        let mut items = Items::new(self, visibility, &events);
        items.of_payments(&payments);
        items.of_refunds(&refunds);
        add_refund_requests(view.as_mut(), &mut items, &refunds).await?;
        items.of_gateway_reports(reports);
        add_events(view.as_mut(), &mut items, (tenant, &events), visibility).await?;
        let captures = captures.iter().filter_map(|capture| {
            let payment = payments.iter().find(|payment| payment.id == capture.payment)?;
            Some(capture.operation_key(payment))
        });
        let refunded = refunds.iter().flat_map(cash::operations_of_refund).map(|(_, key)| key);
        let keys: Vec<OperationKey> = captures.chain(refunded).collect();
        let booked = view.operations_by_key(tenant, &keys).await?;
        items.of_effects(booked.iter().map(row_of_operation).collect());
        drop(view);
        let items = items.in_order();
        action.record(&self.tx, &operator, Some(tenant), count(items.len())).await?;
        Ok(InvoiceTimeline { invoice: id, items })
    }
}
