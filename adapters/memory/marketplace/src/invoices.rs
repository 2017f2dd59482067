//! Invoices and their lines.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_memory::store::tables::Row;
use handover_memory::store::{conflict, limited};
use handover_outbox::ports::{Changed, StoreError};
use marketplace::ports::{InvoiceFilter, InvoicePayments, InvoiceQueries, InvoiceRepo};
use marketplace_domain::{BilledOrder, BillingPeriod, Invoice, InvoiceId, InvoiceLine, OrderId, PayableId};

use crate::tables::{Lock, Market, MarketRows as _, Statement};
use crate::unit::MarketUnit;
use crate::{captures, gateway_reports, payments, refunds};

#[derive(Default)]
pub(crate) struct InvoiceIndex {
    by_period: BTreeMap<(TenantId, BillingPeriod), InvoiceId>,
}

impl Row<Market> for Invoice {
    type Key = InvoiceId;
    type Index = InvoiceIndex;

    fn key(&self) -> InvoiceId {
        self.id
    }

    fn enter(&self, index: &mut InvoiceIndex) {
        index.by_period.insert((self.tenant, self.period), self.id);
    }
}

#[derive(Default)]
pub(crate) struct LineIndex {
    of_invoice: BTreeSet<(InvoiceId, OrderId)>,
}

impl Row<Market> for InvoiceLine {
    type Key = OrderId;
    type Index = LineIndex;

    fn key(&self) -> OrderId {
        self.order
    }

    fn enter(&self, index: &mut LineIndex) {
        index.of_invoice.insert((self.invoice, self.order));
    }
}

fn of_period(statement: &Statement<'_>, tenant: TenantId, period: BillingPeriod) -> Option<Invoice> {
    let invoices = statement.invoices();
    let mut found = invoices.select(|table| {
        let id = table.index.by_period.get(&(tenant, period));
        id.and_then(|id| Some((*id, table.get(id)?))).into_iter()
    });
    found.next().cloned()
}

#[async_trait]
impl InvoiceQueries for MarketUnit {
    async fn invoice_by_id(&mut self, id: InvoiceId) -> Result<Option<Invoice>, StoreError> {
        self.read(|statement| statement.invoices().get(&id).cloned()).await
    }

    async fn invoice_of_period(
        &mut self,
        tenant: TenantId,
        period: BillingPeriod,
    ) -> Result<Option<Invoice>, StoreError> {
        self.read(|statement| of_period(statement, tenant, period)).await
    }

    async fn invoices_page(
        &mut self,
        filter: InvoiceFilter,
        before: Option<InvoiceId>,
        limit: u32,
    ) -> Result<Vec<Invoice>, StoreError> {
        self.read(|statement| {
            let invoices = statement.invoices();
            let newest_first = invoices.select(|table| {
                let upper = before.map_or(Bound::Unbounded, Bound::Excluded);
                let rows = table.rows().range((Bound::Unbounded, upper)).rev();
                rows.map(|(id, row)| (Reverse(*id), row))
            });
            let matching = newest_first.filter(|invoice| {
                filter.tenant.is_none_or(|tenant| invoice.tenant == tenant)
                    && filter.status.is_none_or(|status| invoice.status == status)
            });
            matching.take(limited(limit)).cloned().collect()
        })
        .await
    }

    async fn payments_of_invoice(
        &mut self,
        tenant: TenantId,
        invoice: InvoiceId,
    ) -> Result<InvoicePayments, StoreError> {
        let of = PayableId::Invoice(invoice);
        self.read(|statement| InvoicePayments {
            payments: payments::of_payable(statement, tenant, of),
            captures: captures::of_payable(statement, tenant, of),
            refunds: refunds::of_payable(statement, tenant, of),
            reports: gateway_reports::of_payable(statement, tenant, of),
        })
        .await
    }

    async fn invoice_lines(
        &mut self,
        invoice: InvoiceId,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<InvoiceLine>, StoreError> {
        self.read(|statement| {
            let lines = statement.invoice_lines();
            let by_order = lines.select(|table| {
                let of_invoice = table.index.of_invoice.iter().filter(move |(of, _)| *of == invoice);
                let later = of_invoice.filter(move |(_, order)| after.is_none_or(|after| *order > after));
                later.filter_map(|(_, order)| Some((*order, table.get(order)?)))
            });
            by_order.take(limited(limit)).copied().collect()
        })
        .await
    }

    async fn tenant_with_orders(&mut self, after: Option<TenantId>) -> Result<Option<TenantId>, StoreError> {
        self.read(|statement| {
            let tenants = statement.orders().all().map(|order| order.tenant);
            tenants.filter(|tenant| after.is_none_or(|after| *tenant > after)).min()
        })
        .await
    }

    async fn completed_orders(
        &mut self,
        tenant: TenantId,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        limit: u32,
    ) -> Result<Vec<BilledOrder>, StoreError> {
        self.read(|statement| {
            let of_tenant = statement.orders().all().filter(|order| order.tenant == tenant);
            let mut completed: Vec<BilledOrder> = of_tenant
                .filter_map(|order| {
                    let complete_time = order.complete_time?;
                    Some(BilledOrder { order: order.id, total: order.total, complete_time })
                })
                .filter(|billed| (since..until).contains(&billed.complete_time))
                .filter(|billed| after.is_none_or(|after| (billed.complete_time, billed.order) > after))
                .collect();
            completed.sort_by_key(|billed| (billed.complete_time, billed.order));
            completed.truncate(limited(limit));
            completed
        })
        .await
    }

    async fn first_invoice_period(&mut self) -> Result<BillingPeriod, StoreError> {
        Ok(BillingPeriod::FIRST)
    }
}

#[async_trait]
impl InvoiceRepo for MarketUnit {
    async fn insert_invoice(&mut self, invoice: &Invoice) -> Result<(), StoreError> {
        let Invoice { id, tenant, period, .. } = *invoice;
        self.write(vec![Lock::Invoice(id), Lock::InvoicePeriod(tenant, period)], |statement| {
            if statement.invoices().get(&id).is_some() {
                return Err(conflict(format!("invoices.id {id}")));
            }
            if of_period(statement, tenant, period).is_some() {
                return Err(conflict(format!("invoices.period {period} of tenant {tenant}")));
            }
            statement.own.invoices.put(invoice.clone());
            Ok(())
        })
        .await
    }

    async fn advance_invoice(&mut self, after: &Invoice) -> Result<Changed, StoreError> {
        self.write(vec![Lock::Invoice(after.id)], |statement| {
            let before = statement.invoices().get(&after.id).cloned();
            let Some(before) =
                before.filter(|it| (it.tenant, it.version + 1) == (after.tenant, after.version))
            else {
                return Ok(Changed::None);
            };
            let Invoice { status, pay_time, version, update_time, .. } = *after;
            statement.own.invoices.put(Invoice { status, pay_time, version, update_time, ..before });
            Ok(Changed::One)
        })
        .await
    }

    async fn insert_invoice_lines(&mut self, lines: &[InvoiceLine]) -> Result<(), StoreError> {
        let locks = lines.iter().map(|line| Lock::InvoiceLine(line.order)).collect();
        self.write(locks, |statement| {
            for line in lines {
                if statement.invoice_lines().get(&line.order).is_some() {
                    return Err(conflict(format!("invoice_lines.order_id {}", line.order)));
                }
                statement.own.invoice_lines.put(*line);
            }
            Ok(())
        })
        .await
    }
}
