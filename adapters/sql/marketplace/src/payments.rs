//! Repository of payments.

use crate::of_orders::OfOrders;
use crate::session::MarketSession;
use crate::{captures, money, reference};
use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::{Changed, StoreError};
use handover_sql::{Row, Value, trace_columns, values};
use marketplace::ports::{PaymentQueries, PaymentRepo};
use marketplace_domain::{Capture, Currency, OrderId, Payment, PaymentId, PaymentMethod, Reference};

const COLUMNS: &str = "id, tenant_id, payment_method, reference, order_id, amount_minor, currency, status, \
                       transaction_id, refund_due, trace_id, traceparent, version, create_time, update_time";

fn payment(row: &Row) -> Result<Payment, StoreError> {
    let row = row.of("payments", "id");
    let currency = row.text("currency")?;
    if currency != Currency::CNY.as_str() {
        return Err(row.corrupt("currency", format!("{currency:?} is unknown")));
    }
    Ok(Payment {
        id: row.id("id")?,
        tenant: row.id("tenant_id")?,
        reference: row.opt_named("reference")?,
        order: row.id("order_id")?,
        amount: money(&row, "amount_minor")?,
        currency: Currency::CNY,
        method: PaymentMethod::stored(row.text("payment_method")?),
        status: row.named("status")?,
        transaction_id: row.opt_string("transaction_id")?,
        refund_due: row.flag("refund_due")?,
        trace: row.trace()?,
        version: row.int("version")?,
        create_time: row.time("create_time")?,
        update_time: row.time("update_time")?,
    })
}

/// The values of the [`COLUMNS`] that follow id, tenant and payment method: those that a change writes.
fn state_values(payment: &Payment) -> Vec<Value> {
    let [trace_id, traceparent] = trace_columns(&payment.trace);
    values![
        reference(payment.reference),
        payment.order.get(),
        payment.amount.minor(),
        payment.currency.as_str(),
        payment.status.as_str(),
        &payment.transaction_id,
        payment.refund_due,
        trace_id,
        traceparent,
        payment.version,
        payment.create_time,
        payment.update_time,
    ]
}

/// The query for the payment with a reference.
pub(crate) fn by_reference(reference: Reference) -> (String, Vec<Value>) {
    (format!("SELECT {COLUMNS} FROM payments WHERE reference = ?"), values![reference.to_string()])
}

/// The query for all payments of an order. Its parameters are the tenant and the order.
pub(crate) const OF_ORDERS: OfOrders<'_> = OfOrders { table: "payments", columns: COLUMNS, sequence: "id" };

#[async_trait]
impl PaymentQueries for MarketSession {
    async fn payment_by_id(&mut self, id: PaymentId) -> Result<Option<Payment>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM payments WHERE id = ?");
        self.fetch_one(&sql, values![id.get()]).await?.as_ref().map(payment).transpose()
    }

    async fn payment_by_reference(&mut self, reference: Reference) -> Result<Option<Payment>, StoreError> {
        let (sql, values) = by_reference(reference);
        self.fetch_one(&sql, values).await?.as_ref().map(payment).transpose()
    }

    async fn payment_by_transaction(&mut self, transaction_id: &str) -> Result<Option<Payment>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM payments WHERE transaction_id = ?");
        self.fetch_one(&sql, values![transaction_id]).await?.as_ref().map(payment).transpose()
    }

    async fn payment_in_processing(
        &mut self,
        tenant: TenantId,
        order: OrderId,
    ) -> Result<Option<Payment>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM payments WHERE tenant_id = ? AND order_id = ? AND status = 'PROCESSING'"
        );
        self.fetch_one(&sql, values![tenant.get(), order.get()]).await?.as_ref().map(payment).transpose()
    }

    async fn payments_of(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<Payment>, StoreError> {
        OF_ORDERS.fetch(self, (tenant, orders), payment).await
    }

    async fn captures_of(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<Capture>, StoreError> {
        captures::OF_ORDERS.fetch(self, (tenant, orders), captures::capture).await
    }

    async fn capture_by_transaction(&mut self, transaction_id: &str) -> Result<Option<Capture>, StoreError> {
        let (sql, values) = captures::by_transaction(transaction_id);
        self.fetch_one(&sql, values).await?.as_ref().map(captures::capture).transpose()
    }
}

#[async_trait]
impl PaymentRepo for MarketSession {
    async fn insert_payment(&mut self, payment: &Payment) -> Result<(), StoreError> {
        let values =
            [values![payment.id.get(), payment.tenant.get(), payment.method.as_str()], state_values(payment)]
                .concat();
        self.insert(&format!("INSERT INTO payments ({COLUMNS})"), values.len(), values, "").await?;
        Ok(())
    }

    async fn advance_payment(&mut self, after: &Payment) -> Result<Changed, StoreError> {
        let sql = "UPDATE payments SET reference = ?, order_id = ?, amount_minor = ?, currency = ?, \
                   status = ?, transaction_id = ?, refund_due = ?, trace_id = ?, traceparent = ?, version = ?, \
                   create_time = ?, update_time = ? WHERE id = ? AND tenant_id = ? AND version = ?";
        let values =
            [state_values(after), values![after.id.get(), after.tenant.get(), after.version - 1]].concat();
        Ok(Changed::of(self.execute(sql, values).await?))
    }

    async fn insert_capture(&mut self, capture: &Capture) -> Result<(), StoreError> {
        captures::insert(self, capture).await
    }

    async fn update_capture(&mut self, capture: &Capture) -> Result<Changed, StoreError> {
        captures::update(self, capture).await
    }
}
