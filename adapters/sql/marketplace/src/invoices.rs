//! Repository of invoices.

use crate::AmountFields;
use crate::captures::{self, CaptureTable};
use crate::gateway_reports::{self, ReportTable};
use crate::payments::{self, PaymentTable};
use crate::refunds::{self, RefundTable};
use crate::session::{MarketSession, advance};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::{Changed, StoreError};
use handover_sql::{Dialect, Table, Value, table, values};
use marketplace::ports::{END_OF_IDS, InvoiceFilter, InvoicePayments, InvoiceQueries, InvoiceRepo};
use marketplace_domain::{BilledOrder, BillingPeriod, Invoice, InvoiceId, InvoiceLine, OrderId};

table! {
    InvoiceTable("invoices" by "id"), read row as Invoice, write invoice as &'a Invoice;
    insert {
        id: id("id" = invoice.id.get()),
        tenant: id("tenant_id" = invoice.tenant.get()),
        period: named("period" = invoice.period.to_string()),
        fee_rate: id("fee_bps" = i64::from(invoice.fee_rate.basis_points())),
        orders: count("order_count" = invoice.orders),
        total: money("total_minor" = invoice.total.minor()),
        currency: currency("currency" = invoice.currency.as_str()),
        trace: (row.trace())(
            "trace_id" = invoice.trace.as_ref().map(|trace| trace.trace_id.as_str()),
            "traceparent" = invoice.trace.as_ref().and_then(|trace| trace.traceparent.as_deref())
        ),
        create_time: time("create_time" = invoice.create_time),
    }
    update {
        status: named("status" = invoice.status.as_str()),
        version: int("version" = invoice.version),
        pay_time: opt_time("pay_time" = invoice.pay_time),
        update_time: time("update_time" = invoice.update_time),
    }
}

table! {
    LineTable("invoice_lines" by "order_id"), read row as InvoiceLine, write line as &'a InvoiceLine;
    insert {
        tenant: id("tenant_id" = line.tenant.get()),
        invoice: id("invoice_id" = line.invoice.get()),
        order: id("order_id" = line.order.get()),
        order_total: money("total_minor" = line.order_total.minor()),
        fee: money("fee_minor" = line.fee.minor()),
        complete_time: time("complete_time" = line.complete_time),
    }
}

const COLUMNS: &str = InvoiceTable::COLUMNS;

/// The query for the invoice of a period.
pub(crate) fn of_period(tenant: TenantId, period: BillingPeriod) -> (String, Vec<Value>) {
    let sql = format!("SELECT {COLUMNS} FROM invoices WHERE tenant_id = ? AND period = ?");
    (sql, values![tenant.get(), period.to_string()])
}

/// One page of invoices.
pub(crate) fn page(
    dialect: &dyn Dialect,
    filter: InvoiceFilter,
    before: Option<InvoiceId>,
    limit: u32,
) -> (String, Vec<Value>) {
    let index = filter.tenant.map_or_else(String::new, |_| dialect.index("idx_invoices_tenant"));
    let mut sql = format!("SELECT {COLUMNS} FROM invoices {index} WHERE id < ?");
    let mut values = values![before.map_or(END_OF_IDS, InvoiceId::get)];
    if let Some(tenant) = filter.tenant {
        sql.push_str(" AND tenant_id = ?");
        values.push(tenant.get().into());
    }
    if let Some(status) = filter.status {
        sql.push_str(" AND status = ?");
        values.push(status.as_str().into());
    }
    sql.push_str(" ORDER BY id DESC LIMIT ?");
    values.push(limit.into());
    (sql, values)
}

/// One page of the lines of an invoice.
pub(crate) fn lines(invoice: InvoiceId, after: Option<OrderId>, limit: u32) -> (String, Vec<Value>) {
    let columns = LineTable::COLUMNS;
    let sql = format!(
        "SELECT {columns} FROM invoice_lines WHERE invoice_id = ? AND order_id > ? ORDER BY order_id LIMIT ?"
    );
    (sql, values![invoice.get(), after.map_or(0, OrderId::get), limit])
}

/// The query for the next tenant with orders.
pub(crate) fn next_tenant(dialect: &dyn Dialect, after: Option<TenantId>) -> (String, Vec<Value>) {
    let index = dialect.index("idx_orders_buyer");
    let sql = format!("SELECT tenant_id FROM orders {index} WHERE tenant_id > ? ORDER BY tenant_id LIMIT 1");
    (sql, values![after.map_or(0, TenantId::get)])
}

/// A page of the orders of a tenant that were completed in a time range.
pub(crate) fn completed(
    dialect: &dyn Dialect,
    tenant: TenantId,
    (since, until): (DateTime<Utc>, DateTime<Utc>),
    after: Option<(DateTime<Utc>, OrderId)>,
    limit: u32,
) -> (String, Vec<Value>) {
    // As in `orders::changed_within`: the first condition on the time starts the scan at the cursor.
    let from = after.map_or(since, |(completed, _)| since.max(completed));
    let index = dialect.index("idx_orders_completed");
    let mut sql = format!(
        "SELECT id, total_minor, complete_time FROM orders {index} \
         WHERE tenant_id = ? AND complete_time >= ? AND complete_time < ?"
    );
    let mut values = values![tenant.get(), from, until];
    if let Some((completed, id)) = after {
        sql.push_str(" AND (complete_time > ? OR id > ?)");
        values.extend(values![completed, id.get()]);
    }
    sql.push_str(" ORDER BY complete_time, id LIMIT ?");
    values.push(limit.into());
    (sql, values)
}

#[async_trait]
impl InvoiceQueries for MarketSession {
    async fn invoice_by_id(&mut self, id: InvoiceId) -> Result<Option<Invoice>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM invoices WHERE id = ?");
        self.fetch_one(&sql, values![id.get()]).await?.as_ref().map(InvoiceTable::read).transpose()
    }

    async fn invoice_of_period(
        &mut self,
        tenant: TenantId,
        period: BillingPeriod,
    ) -> Result<Option<Invoice>, StoreError> {
        let (sql, values) = of_period(tenant, period);
        self.fetch_one(&sql, values).await?.as_ref().map(InvoiceTable::read).transpose()
    }

    async fn invoices_page(
        &mut self,
        filter: InvoiceFilter,
        before: Option<InvoiceId>,
        limit: u32,
    ) -> Result<Vec<Invoice>, StoreError> {
        let (sql, values) = page(self.dialect(), filter, before, limit);
        self.fetch(&sql, values).await?.iter().map(InvoiceTable::read).collect()
    }

    async fn payments_of_invoice(
        &mut self,
        tenant: TenantId,
        invoice: InvoiceId,
    ) -> Result<InvoicePayments, StoreError> {
        let of = (tenant, invoice);
        let columns = gateway_reports::with_id();
        Ok(InvoicePayments {
            payments: payments::OF_ORDERS.fetch_invoice(self, of, PaymentTable::read).await?,
            captures: captures::OF_ORDERS.fetch_invoice(self, of, CaptureTable::read).await?,
            refunds: refunds::OF_ORDERS.fetch_invoice(self, of, RefundTable::read).await?,
            reports: gateway_reports::of_orders(&columns)
                .fetch_invoice(self, of, ReportTable::numbered)
                .await?,
        })
    }

    async fn invoice_lines(
        &mut self,
        invoice: InvoiceId,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<InvoiceLine>, StoreError> {
        let (sql, values) = lines(invoice, after, limit);
        self.fetch(&sql, values).await?.iter().map(LineTable::read).collect()
    }

    async fn tenant_with_orders(&mut self, after: Option<TenantId>) -> Result<Option<TenantId>, StoreError> {
        let (sql, values) = next_tenant(self.dialect(), after);
        let found = self.fetch_one(&sql, values).await?;
        found.map(|row| row.of("orders", "tenant_id").id("tenant_id")).transpose()
    }

    async fn completed_orders(
        &mut self,
        tenant: TenantId,
        since: DateTime<Utc>,
        until: DateTime<Utc>,
        after: Option<(DateTime<Utc>, OrderId)>,
        limit: u32,
    ) -> Result<Vec<BilledOrder>, StoreError> {
        let (sql, values) = completed(self.dialect(), tenant, (since, until), after, limit);
        let mut orders = Vec::new();
        for row in &self.fetch(&sql, values).await? {
            let row = row.of("orders", "id");
            orders.push(BilledOrder {
                order: row.id("id")?,
                total: row.money("total_minor")?,
                complete_time: row.time("complete_time")?,
            });
        }
        Ok(orders)
    }

    async fn first_invoice_period(&mut self) -> Result<BillingPeriod, StoreError> {
        let found = self.fetch_one("SELECT first_period FROM invoice_start", values![]).await?;
        match found {
            Some(row) => row.of("invoice_start", "first_period").named("first_period"),
            None => Ok(BillingPeriod::FIRST),
        }
    }
}

#[async_trait]
impl InvoiceRepo for MarketSession {
    async fn insert_invoice(&mut self, invoice: &Invoice) -> Result<(), StoreError> {
        self.insert_into::<InvoiceTable>(InvoiceTable::values(invoice), "").await
    }

    async fn advance_invoice(&mut self, after: &Invoice) -> Result<Changed, StoreError> {
        let updated = InvoiceTable::updated_values(after);
        advance::<InvoiceTable>(self, updated, after.tenant, after.id.get(), after.version - 1).await
    }

    async fn insert_invoice_lines(&mut self, lines: &[InvoiceLine]) -> Result<(), StoreError> {
        self.insert_into::<LineTable>(LineTable::rows(lines), "").await
    }
}
