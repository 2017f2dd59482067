//! Faults of invoices.

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::TenantId;
use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace_domain::*;

use super::super::{Fault, Faulty, Unit, Wraps};

impl<U: MarketView + ?Sized> InvoiceQueriesWrapper for Faulty<U> {
    async fn invoices_page(
        &mut self,
        filter: InvoiceFilter,
        before: Option<InvoiceId>,
        limit: u32,
    ) -> Result<Vec<Invoice>, StoreError> {
        let tenant = filter.tenant.filter(|_| !self.has(Fault::InvoicesLeakToOtherTenants));
        self.inner().invoices_page(InvoiceFilter { tenant, ..filter }, before, limit).await
    }

    async fn payments_of_invoice(
        &mut self,
        tenant: TenantId,
        invoice: InvoiceId,
    ) -> Result<InvoicePayments, StoreError> {
        let mut found = self.inner().payments_of_invoice(tenant, invoice).await?;
        if self.has(Fault::InvoicePaymentsLeakToOtherTenants) && tenant != TenantId::DEFAULT {
            let leaked = self.inner().payments_of_invoice(TenantId::DEFAULT, invoice).await?;
            found.payments.extend(leaked.payments);
        }
        Ok(found)
    }

    async fn tenant_with_orders(&mut self, after: Option<TenantId>) -> Result<Option<TenantId>, StoreError> {
        let found = self.inner().tenant_with_orders(after).await?;
        match found {
            Some(first) if self.has(Fault::TenantsWithOrdersAreSkipped) => {
                self.inner().tenant_with_orders(Some(first)).await
            }
            Some(_) | None => Ok(found),
        }
    }

    async fn completed_orders(
        &mut self,
        tenant: TenantId,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        limit: u32,
    ) -> Result<Vec<BilledOrder>, StoreError> {
        let includes_end = self.has(Fault::CompletedOrdersIncludeTheEnd);
        let until = if includes_end { until + TimeDelta::microseconds(1) } else { until };
        self.inner().completed_orders(tenant, since, until, after, limit).await
    }
}

impl InvoiceRepoWrapper for Unit {
    async fn insert_invoice(&mut self, invoice: &Invoice) -> Result<(), StoreError> {
        if self.has(Fault::TakenInvoicePeriodsAreIgnored) {
            self.serialize().await;
            if self.inner().invoice_of_period(invoice.tenant, invoice.period).await?.is_some() {
                return Ok(());
            }
        }
        self.inner().insert_invoice(invoice).await
    }

    async fn advance_invoice(&mut self, after: &Invoice) -> Result<Changed, StoreError> {
        while self.has(Fault::InvoicesAdvanceFromAnyVersion)
            && let Some(now) = self.inner().invoice_by_id(after.id).await?
        {
            let blind = Invoice { tenant: now.tenant, version: now.version + 1, ..after.clone() };
            if self.inner().advance_invoice(&blind).await? == Changed::One {
                return Ok(Changed::One);
            }
        }
        self.inner().advance_invoice(after).await
    }

    async fn insert_invoice_lines(&mut self, lines: &[InvoiceLine]) -> Result<(), StoreError> {
        if self.has(Fault::OnlyFirstInvoiceLinesAreWritten) {
            return self.inner().insert_invoice_lines(&lines[..lines.len().min(128)]).await;
        }
        if self.has(Fault::InvoicedOrdersAreIgnored) {
            for line in lines {
                let before = OrderId::try_from(line.order.get() - 1).ok();
                for invoice in [1, 2].map(InvoiceId::try_from) {
                    let invoice = invoice.expect("a valid id");
                    let next = self.inner().invoice_lines(invoice, before, 1).await?;
                    if next.iter().any(|other| other.order == line.order) {
                        return Ok(());
                    }
                }
            }
        }
        self.inner().insert_invoice_lines(lines).await
    }
}
