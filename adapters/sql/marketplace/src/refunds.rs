//! Repository of refunds.

use crate::money;
use crate::of_orders::OfOrders;
use crate::session::MarketSession;
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::{Changed, StoreError};
use handover_sql::{Dialect, Row, Value, trace_columns, values};
use marketplace::ports::{RefundQueries, RefundRepo};
use marketplace_domain::{Currency, OrderId, Refund, RefundId};

const COLUMNS: &str = "id, tenant_id, order_id, payment_id, amount_minor, currency, cause, reason, status, attempts, \
                       next_attempt_time, last_error, trace_id, traceparent, version, create_time, update_time";

fn refund(row: &Row) -> Result<Refund, StoreError> {
    let row = row.of("refunds", "id");
    let currency = row.text("currency")?;
    if currency != Currency::CNY.as_str() {
        return Err(row.corrupt("currency", format!("{currency:?} is unknown")));
    }
    Ok(Refund {
        id: row.id("id")?,
        tenant: row.id("tenant_id")?,
        order: row.id("order_id")?,
        payment: row.id("payment_id")?,
        amount: money(&row, "amount_minor")?,
        currency: Currency::CNY,
        cause: row.named("cause")?,
        reason: row.string("reason")?,
        status: row.named("status")?,
        attempts: row.count("attempts")?,
        next_attempt_time: row.opt_time("next_attempt_time")?,
        last_error: row.opt_string("last_error")?,
        trace: row.trace()?,
        version: row.int("version")?,
        create_time: row.time("create_time")?,
        update_time: row.time("update_time")?,
    })
}

/// The values of the [`COLUMNS`] that follow id and tenant.
fn state_values(refund: &Refund) -> Vec<Value> {
    let [trace_id, traceparent] = trace_columns(&refund.trace);
    values![
        refund.order.get(),
        refund.payment.get(),
        refund.amount.minor(),
        refund.currency.as_str(),
        refund.cause.as_str(),
        &refund.reason,
        refund.status.as_str(),
        refund.attempts,
        refund.next_attempt_time,
        &refund.last_error,
        trace_id,
        traceparent,
        refund.version,
        refund.create_time,
        refund.update_time,
    ]
}

/// Refunds in processing whose next attempt is due.
pub(crate) fn due(dialect: &dyn Dialect, now: DateTime<Utc>, most: u32) -> (String, Vec<Value>) {
    let index = dialect.index("idx_refunds_due");
    let sql = format!(
        "SELECT {COLUMNS} FROM refunds {index} WHERE status = 'PROCESSING' AND next_attempt_time <= ? \
         ORDER BY next_attempt_time, id LIMIT ?"
    );
    (sql, values![now, most])
}

#[async_trait]
impl RefundQueries for MarketSession {
    async fn refund_by_id(&mut self, id: RefundId) -> Result<Option<Refund>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM refunds WHERE id = ?");
        self.fetch_one(&sql, values![id.get()]).await?.as_ref().map(refund).transpose()
    }

    async fn refunds_of(&mut self, tenant: TenantId, orders: &[OrderId]) -> Result<Vec<Refund>, StoreError> {
        let of_orders = OfOrders { table: "refunds", columns: COLUMNS, sequence: "id" };
        of_orders.fetch(self, (tenant, orders), refund).await
    }

    async fn refunds_due(&mut self, now: DateTime<Utc>, most: u32) -> Result<Vec<Refund>, StoreError> {
        let (sql, values) = due(self.dialect(), now, most);
        self.fetch(&sql, values).await?.iter().map(refund).collect()
    }
}

#[async_trait]
impl RefundRepo for MarketSession {
    async fn insert_refund(&mut self, refund: &Refund) -> Result<(), StoreError> {
        let values = [values![refund.id.get(), refund.tenant.get()], state_values(refund)].concat();
        self.insert(&format!("INSERT INTO refunds ({COLUMNS})"), values.len(), values, "").await?;
        Ok(())
    }

    async fn advance_refund(&mut self, after: &Refund) -> Result<Changed, StoreError> {
        let sql = "UPDATE refunds SET order_id = ?, payment_id = ?, amount_minor = ?, currency = ?, cause = ?, \
                   reason = ?, status = ?, attempts = ?, next_attempt_time = ?, last_error = ?, trace_id = ?, traceparent = ?, version = ?, \
                   create_time = ?, update_time = ? WHERE id = ? AND tenant_id = ? AND version = ?";
        let values =
            [state_values(after), values![after.id.get(), after.tenant.get(), after.version - 1]].concat();
        Ok(Changed::of(self.execute(sql, values).await?))
    }
}
