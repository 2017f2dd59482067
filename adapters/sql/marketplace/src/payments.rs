//! Repository of payments.

use crate::captures::{self, CaptureTable};
use crate::of_orders::OfOrders;
use crate::session::{MarketSession, advance};
use crate::{AmountFields, payable, reference};
use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::{Changed, StoreError};
use handover_sql::{Table, Value, table, values};
use marketplace::ports::{PaymentFilter, PaymentQueries, PaymentRepo};
use marketplace_domain::{Capture, InvoiceId, OrderId, Payment, PaymentId, PaymentMethod, Reference};

table! {
    pub(crate) PaymentTable("payments" by "id"), read row as Payment, write payment as &'a Payment;
    insert {
        id: id("id" = payment.id.get()),
        tenant: id("tenant_id" = payment.tenant.get()),
        method: (row.text("payment_method").map(PaymentMethod::stored))(
            "payment_method" = payment.method.as_str()
        ),
    }
    update {
        reference: opt_named("reference" = reference(payment.reference)),
        of: (payable(&row))(
            "order_id" = payment.of.order().map(OrderId::get),
            "invoice_id" = payment.of.invoice().map(InvoiceId::get)
        ),
        amount: money("amount_minor" = payment.amount.minor()),
        currency: currency("currency" = payment.currency.as_str()),
        status: named("status" = payment.status.as_str()),
        transaction_id: opt_string("transaction_id" = &payment.transaction_id),
        refund_due: flag("refund_due" = payment.refund_due),
        trace: (row.trace())(
            "trace_id" = payment.trace.as_ref().map(|trace| trace.trace_id.as_str()),
            "traceparent" = payment.trace.as_ref().and_then(|trace| trace.traceparent.as_deref())
        ),
        version: int("version" = payment.version),
        create_time: time("create_time" = payment.create_time),
        update_time: time("update_time" = payment.update_time),
    }
}

const COLUMNS: &str = PaymentTable::COLUMNS;

/// The query for the payment with a reference.
pub(crate) fn by_reference(reference: Reference) -> (String, Vec<Value>) {
    (format!("SELECT {COLUMNS} FROM payments WHERE reference = ?"), values![reference.to_string()])
}

/// One page of payments.
pub(crate) fn page(filter: PaymentFilter, before: Option<PaymentId>, most: u32) -> (String, Vec<Value>) {
    let PaymentFilter { tenant, status, above_id } = filter;
    let mut sql = format!("SELECT {COLUMNS} FROM payments WHERE id < ? AND id > ?");
    let mut values = values![before.map_or(i64::MAX, PaymentId::get), above_id.unwrap_or(0)];
    if let Some(tenant) = tenant {
        // The page is read in the order of the primary key; an index on the tenant would have to be sorted.
        sql.push_str(" AND tenant_id + 0 = ?");
        values.push(tenant.get().into());
    }
    if let Some(status) = status {
        sql.push_str(" AND COALESCE(status, '') = ?");
        values.push(status.as_str().into());
    }
    sql.push_str(" ORDER BY id DESC LIMIT ?");
    values.push(most.into());
    (sql, values)
}

/// The queries for all payments of an order or invoice.
pub(crate) const OF_ORDERS: OfOrders<'_> = OfOrders { table: "payments", columns: COLUMNS, sequence: "id" };

#[async_trait]
impl PaymentQueries for MarketSession {
    async fn payment_by_id(&mut self, id: PaymentId) -> Result<Option<Payment>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM payments WHERE id = ?");
        self.fetch_one(&sql, values![id.get()]).await?.as_ref().map(PaymentTable::read).transpose()
    }

    async fn payment_by_reference(&mut self, reference: Reference) -> Result<Option<Payment>, StoreError> {
        let (sql, values) = by_reference(reference);
        self.fetch_one(&sql, values).await?.as_ref().map(PaymentTable::read).transpose()
    }

    async fn payment_by_transaction(&mut self, transaction_id: &str) -> Result<Option<Payment>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM payments WHERE transaction_id = ?");
        self.fetch_one(&sql, values![transaction_id]).await?.as_ref().map(PaymentTable::read).transpose()
    }

    async fn payment_in_processing(
        &mut self,
        tenant: TenantId,
        order: OrderId,
    ) -> Result<Option<Payment>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM payments WHERE tenant_id = ? AND order_id = ? AND status = 'PROCESSING'"
        );
        self.fetch_one(&sql, values![tenant.get(), order.get()])
            .await?
            .as_ref()
            .map(PaymentTable::read)
            .transpose()
    }

    async fn payments_page(
        &mut self,
        filter: PaymentFilter,
        before: Option<PaymentId>,
        most: u32,
    ) -> Result<Vec<Payment>, StoreError> {
        let (sql, values) = page(filter, before, most);
        self.fetch(&sql, values).await?.iter().map(PaymentTable::read).collect()
    }

    async fn payments_of(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<Payment>, StoreError> {
        OF_ORDERS.fetch(self, (tenant, orders), PaymentTable::read).await
    }

    async fn captures_of(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<Capture>, StoreError> {
        captures::OF_ORDERS.fetch(self, (tenant, orders), CaptureTable::read).await
    }

    async fn capture_by_transaction(&mut self, transaction_id: &str) -> Result<Option<Capture>, StoreError> {
        let (sql, values) = captures::by_transaction(transaction_id);
        self.fetch_one(&sql, values).await?.as_ref().map(CaptureTable::read).transpose()
    }
}

#[async_trait]
impl PaymentRepo for MarketSession {
    async fn insert_payment(&mut self, payment: &Payment) -> Result<(), StoreError> {
        self.insert_into::<PaymentTable>(PaymentTable::values(payment), "").await
    }

    async fn advance_payment(&mut self, after: &Payment) -> Result<Changed, StoreError> {
        let updated = PaymentTable::updated_values(after);
        advance::<PaymentTable>(self, updated, after.tenant, after.id.get(), after.version - 1).await
    }

    async fn insert_capture(&mut self, capture: &Capture) -> Result<(), StoreError> {
        self.insert_into::<CaptureTable>(CaptureTable::values(capture), "").await
    }

    async fn update_capture(&mut self, capture: &Capture) -> Result<Changed, StoreError> {
        captures::update(self, capture).await
    }
}
