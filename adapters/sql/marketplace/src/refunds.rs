//! Repository of refunds.

use crate::of_orders::OfOrders;
use crate::session::MarketSession;
use crate::{money, reference};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::{Changed, StoreError};
use handover_sql::{Dialect, Row, Value, trace_columns, values};
use marketplace::ports::{RefundFilter, RefundQueries, RefundRepo};
use marketplace_domain::{Currency, OrderId, Reference, Refund, RefundId, RefundStatus, SupersededAttempt};

const COLUMNS: &str = "id, tenant_id, order_id, payment_id, capture_no, reference, keyed_by_id, attempt_no, \
                       amount_minor, currency, cause, reason, status, settled_attempt, transaction_id, payouts, \
                       excess, settled_by, attempts, next_attempt_time, last_error, trace_id, traceparent, version, \
                       create_time, update_time";

fn refund(row: &Row) -> Result<Refund, StoreError> {
    let row = row.of("refunds", "id");
    let currency = row.text("currency")?;
    if currency != Currency::CNY.as_str() {
        return Err(row.corrupt("currency", format!("{currency:?} is unknown")));
    }
    let status = row.named("status")?;
    let attempt = row.count("attempt_no")?;
    // A process of an earlier version settles a refund without these columns.
    let succeeded = status == RefundStatus::Success;
    let settled_attempt = row.opt_id("settled_attempt")?.or(succeeded.then_some(attempt));
    let payouts = row.count("payouts")?.max(u32::from(succeeded));
    Ok(Refund {
        id: row.id("id")?,
        tenant: row.id("tenant_id")?,
        order: row.id("order_id")?,
        payment: row.id("payment_id")?,
        capture: row.count("capture_no")?,
        reference: row.opt_named("reference")?,
        is_keyed_by_id: row.flag("keyed_by_id")?,
        attempt,
        amount: money(&row, "amount_minor")?,
        currency: Currency::CNY,
        cause: row.named("cause")?,
        reason: row.string("reason")?,
        status,
        settled_attempt,
        transaction_id: row.opt_string("transaction_id")?,
        payouts,
        is_excess: row.flag("excess")?,
        settled_by: row.opt_string("settled_by")?,
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
        refund.capture,
        reference(refund.reference),
        refund.is_keyed_by_id,
        refund.attempt,
        refund.amount.minor(),
        refund.currency.as_str(),
        refund.cause.as_str(),
        &refund.reason,
        refund.status.as_str(),
        refund.settled_attempt.map(i64::from),
        &refund.transaction_id,
        refund.payouts,
        refund.is_excess,
        &refund.settled_by,
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

/// The query for the refund whose current attempt has a reference.
pub(crate) fn by_reference(reference: Reference) -> (String, Vec<Value>) {
    let sql = "SELECT id, attempt_no FROM refunds WHERE reference = ?";
    (sql.to_owned(), values![reference.to_string()])
}

/// The query for the superseded attempt with a reference.
pub(crate) fn superseded_by(reference: Reference) -> (String, Vec<Value>) {
    let sql = "SELECT refund_id, attempt_no FROM refund_attempts WHERE reference = ?";
    (sql.to_owned(), values![reference.to_string()])
}

/// One page of refunds.
pub(crate) fn page(
    dialect: &dyn Dialect,
    filter: RefundFilter,
    before: Option<RefundId>,
    most: u32,
) -> (String, Vec<Value>) {
    let index = match filter.tenant {
        Some(_) if filter.status.is_some_and(|status| status != RefundStatus::Success) => {
            dialect.index("idx_refunds_page")
        }
        // Most refunds succeed, so that the newest ones fill the page.
        Some(_) => dialect.index("idx_refunds_tenant"),
        None if filter.status == Some(RefundStatus::Failed) => dialect.index("idx_refunds_failed"),
        None => String::new(),
    };
    let mut sql = format!("SELECT {COLUMNS} FROM refunds {index} WHERE id < ?");
    let mut values = values![before.map_or(i64::MAX, RefundId::get)];
    if let Some(tenant) = filter.tenant {
        sql.push_str(" AND tenant_id = ?");
        values.push(tenant.get().into());
    }
    if let Some(status) = filter.status {
        // A literal: a partial index is not used for a parameter.
        sql.push_str(&format!(" AND status = '{}'", status.as_str()));
    }
    sql.push_str(" ORDER BY id DESC LIMIT ?");
    values.push(most.into());
    (sql, values)
}

#[async_trait]
impl RefundQueries for MarketSession {
    async fn refund_by_id(&mut self, id: RefundId) -> Result<Option<Refund>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM refunds WHERE id = ?");
        self.fetch_one(&sql, values![id.get()]).await?.as_ref().map(refund).transpose()
    }

    async fn attempt_by_reference(
        &mut self,
        reference: Reference,
    ) -> Result<Option<(RefundId, u32)>, StoreError> {
        let (sql, values) = by_reference(reference);
        if let Some(row) = self.fetch_one(&sql, values).await? {
            let row = row.of("refunds", "id");
            return Ok(Some((row.id("id")?, row.count("attempt_no")?)));
        }
        let (sql, values) = superseded_by(reference);
        let Some(row) = self.fetch_one(&sql, values).await? else { return Ok(None) };
        let row = row.of("refund_attempts", "refund_id");
        Ok(Some((row.id("refund_id")?, row.count("attempt_no")?)))
    }

    async fn refunds_page(
        &mut self,
        filter: RefundFilter,
        before: Option<RefundId>,
        most: u32,
    ) -> Result<Vec<Refund>, StoreError> {
        let (sql, values) = page(self.dialect(), filter, before, most);
        self.fetch(&sql, values).await?.iter().map(refund).collect()
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
        let sql = "UPDATE refunds SET order_id = ?, payment_id = ?, capture_no = ?, reference = ?, keyed_by_id = ?, \
                   attempt_no = ?, amount_minor = ?, currency = ?, cause = ?, reason = ?, status = ?, \
                   settled_attempt = ?, transaction_id = ?, payouts = ?, excess = ?, settled_by = ?, attempts = ?, \
                   next_attempt_time = ?, last_error = ?, trace_id = ?, traceparent = ?, version = ?, \
                   create_time = ?, update_time = ? WHERE id = ? AND tenant_id = ? AND version = ?";
        let values =
            [state_values(after), values![after.id.get(), after.tenant.get(), after.version - 1]].concat();
        Ok(Changed::of(self.execute(sql, values).await?))
    }

    async fn insert_superseded_attempt(&mut self, attempt: &SupersededAttempt) -> Result<(), StoreError> {
        let insert = "INSERT INTO refund_attempts (reference, refund_id, attempt_no)";
        let values = values![attempt.reference.to_string(), attempt.refund.get(), attempt.attempt];
        self.insert(insert, values.len(), values, "").await?;
        Ok(())
    }
}
