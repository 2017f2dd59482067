//! Repository of refunds.

use crate::of_orders::OfOrders;
use crate::session::{MarketSession, advance};
use crate::{AmountFields, payable, reference};
use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::{Changed, StoreError};
use handover_sql::{Dialect, Fields, Row, Table, Value, table, values};
use marketplace::ports::{OpenRefunds, RefundFilter, RefundQueries, RefundRepo, SentRefundRequest};
use marketplace_domain::{InvoiceId, OrderId, Reference, Refund, RefundId, RefundStatus, SupersededAttempt};

table! {
    pub(crate) RefundTable("refunds" by "id"), read row as Refund, write refund as &'a Refund;
    insert {
        id: id("id" = refund.id.get()),
        tenant: id("tenant_id" = refund.tenant.get()),
        // Only an erasure changes it: a change of a refund that was read before must not write it back.
        reason: string("reason" = &refund.reason),
    }
    update {
        of: (payable(&row))(
            "order_id" = refund.of.order().map(OrderId::get),
            "invoice_id" = refund.of.invoice().map(InvoiceId::get)
        ),
        payment: id("payment_id" = refund.payment.get()),
        capture: count("capture_no" = refund.capture),
        reference: opt_named("reference" = reference(refund.reference)),
        is_keyed_by_id: flag("keyed_by_id" = refund.is_keyed_by_id),
        attempt: count("attempt_no" = refund.attempt),
        amount: money("amount_minor" = refund.amount.minor()),
        currency: currency("currency" = refund.currency.as_str()),
        cause: named("cause" = refund.cause.as_str()),
        off_shelf: flag("off_shelf" = refund.off_shelf),
        status: named("status" = refund.status.as_str()),
        settled_attempt: (settled_attempt(row))("settled_attempt" = refund.settled_attempt.map(i64::from)),
        transaction_id: opt_string("transaction_id" = &refund.transaction_id),
        payouts: (payouts(row))("payouts" = refund.payouts),
        is_excess: flag("excess" = refund.is_excess),
        settled_by: opt_string("settled_by" = &refund.settled_by),
        attempts: count("attempts" = refund.attempts),
        next_attempt_time: opt_time("next_attempt_time" = refund.next_attempt_time),
        last_error: opt_string("last_error" = &refund.last_error),
        trace: (row.trace())(
            "trace_id" = refund.trace.as_ref().map(|trace| trace.trace_id.as_str()),
            "traceparent" = refund.trace.as_ref().and_then(|trace| trace.traceparent.as_deref())
        ),
        version: int("version" = refund.version),
        create_time: time("create_time" = refund.create_time),
        update_time: time("update_time" = refund.update_time),
    }
}

const COLUMNS: &str = RefundTable::COLUMNS;

/// The queries for all refunds of an order or invoice.
pub(crate) const OF_ORDERS: OfOrders<'_> = OfOrders { table: "refunds", columns: COLUMNS, sequence: "id" };

// A process of an earlier version settles a refund without the columns `settled_attempt` and `payouts`.

fn settled_attempt(row: Fields<'_>) -> Result<Option<u32>, StoreError> {
    match row.opt_id("settled_attempt")? {
        None if is_paid(row)? => row.count("attempt_no").map(Some),
        attempt => Ok(attempt),
    }
}

fn payouts(row: Fields<'_>) -> Result<u32, StoreError> {
    Ok(row.count("payouts")?.max(u32::from(is_paid(row)?)))
}

fn is_paid(row: Fields<'_>) -> Result<bool, StoreError> {
    Ok(row.named::<RefundStatus>("status")? == RefundStatus::Success)
}

/// Refunds in processing whose next attempt is due.
pub(crate) fn due(dialect: &dyn Dialect, now: DateTime<Utc>, most: u32) -> (String, Vec<Value>) {
    let index = dialect.index("idx_refunds_due");
    let sql = format!(
        "SELECT id FROM refunds {index} WHERE status = 'PROCESSING' AND next_attempt_time <= ? \
         ORDER BY next_attempt_time, id LIMIT ?"
    );
    (sql, values![now, most])
}

/// Number of the refunds in processing, and the earliest begin of their attempts.
pub(crate) fn processing(dialect: &dyn Dialect) -> (String, Vec<Value>) {
    let index = dialect.index("idx_refunds_due");
    let sql = format!(
        "SELECT count(*) AS counted, min(CASE WHEN r.attempt_no = 1 THEN r.create_time \
         ELSE COALESCE((SELECT min(q.sent_time) FROM refund_requests q \
         WHERE q.refund_id = r.id AND q.attempt_no = r.attempt_no), r.update_time) END) AS oldest \
         FROM refunds r {index} WHERE r.status = 'PROCESSING'"
    );
    (sql, values![])
}

/// Number of the failed refunds whose money is still to be returned.
pub(crate) fn failed(dialect: &dyn Dialect) -> (String, Vec<Value>) {
    let failed = dialect.index("idx_refunds_failed");
    let of_order = dialect.index("idx_refunds_order");
    let of_invoice = dialect.index("idx_refunds_invoice");
    // Scalar subqueries, because PostgreSQL and MySQL may rewrite NOT EXISTS as a join that reads whole tables. PostgreSQL
    // finds regular refunds by the unique key of the capture, which does not contain excess refunds.
    let sql = format!(
        "SELECT count(*) AS counted FROM refunds r {failed} WHERE r.status = 'FAILED' AND r.excess = 0 \
         AND (SELECT count(*) FROM refunds o {of_order} WHERE o.tenant_id = r.tenant_id AND o.order_id = r.order_id \
         AND o.payment_id = r.payment_id AND o.capture_no = r.capture_no AND o.status <> 'FAILED' AND o.excess = 0) = 0 \
         AND (SELECT count(*) FROM refunds i {of_invoice} WHERE i.invoice_id = r.invoice_id \
         AND i.payment_id = r.payment_id AND i.capture_no = r.capture_no AND i.status <> 'FAILED') = 0 \
         AND CASE WHEN (SELECT count(*) FROM payment_captures c WHERE c.payment_id = r.payment_id \
         AND c.capture_no = r.capture_no AND c.refund_due = 1) \
         + (SELECT count(*) FROM payments p WHERE p.id = r.payment_id AND p.refund_due = 1) > 0 \
         THEN (SELECT count(*) FROM refunds e {of_order} WHERE e.tenant_id = r.tenant_id AND e.order_id = r.order_id \
         AND e.payment_id = r.payment_id AND e.capture_no = r.capture_no AND e.status <> 'FAILED') \
         ELSE (SELECT count(*) FROM orders d WHERE d.id = r.order_id AND d.status IN ('shipped', 'completed')) END = 0"
    );
    (sql, values![])
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

/// The latest requests of a refund.
pub(crate) fn requests(refund: RefundId, most: u32) -> (String, Vec<Value>) {
    let sql = "SELECT refund_id, refund_version, tenant_id, order_id, attempt_no, request_no, sent_time, error \
               FROM refund_requests WHERE refund_id = ? ORDER BY refund_version DESC LIMIT ?";
    (sql.to_owned(), values![refund.get(), most])
}

fn request(row: &Row) -> Result<SentRefundRequest, StoreError> {
    let row = row.of("refund_requests", "refund_id");
    Ok(SentRefundRequest {
        refund: row.id("refund_id")?,
        version: row.int("refund_version")?,
        tenant: row.id("tenant_id")?,
        order: row.opt_id("order_id")?,
        attempt: row.count("attempt_no")?,
        number: row.count("request_no")?,
        sent: row.time("sent_time")?,
        error: row.opt_string("error")?,
    })
}

/// One page of refunds.
pub(crate) fn page(
    dialect: &dyn Dialect,
    filter: RefundFilter,
    before: Option<RefundId>,
    most: u32,
) -> (String, Vec<Value>) {
    // MySQL has one index for all states, in the order of ids.
    let of_state = dialect.lock_index("idx_refunds_failed");
    let is_processing = filter.status == Some(RefundStatus::Processing);
    // The few refunds in processing are found by an index in another order and then sorted: `id + 0` prevents a scan in id order.
    let is_sorted = filter.tenant.is_none() && is_processing && of_state.is_empty();
    let index = match filter.tenant {
        Some(_) if filter.status.is_some_and(|status| status != RefundStatus::Success) => {
            dialect.index("idx_refunds_page")
        }
        // Most refunds succeed, so that the newest ones fill the page.
        Some(_) => dialect.index("idx_refunds_tenant"),
        None if filter.status == Some(RefundStatus::Failed) => dialect.index("idx_refunds_failed"),
        None if is_sorted => dialect.index("idx_refunds_due"),
        None if is_processing => of_state,
        None => String::new(),
    };
    let id = if is_sorted { "id + 0" } else { "id" };
    let mut sql = format!("SELECT {COLUMNS} FROM refunds {index} WHERE {id} < ?");
    let mut values = values![before.map_or(i64::MAX, RefundId::get)];
    if let Some(tenant) = filter.tenant {
        sql.push_str(" AND tenant_id = ?");
        values.push(tenant.get().into());
    }
    if let Some(status) = filter.status {
        // A literal: a partial index is not used for a parameter.
        sql.push_str(&format!(" AND status = '{}'", status.as_str()));
    }
    sql.push_str(&format!(" ORDER BY {id} DESC LIMIT ?"));
    values.push(most.into());
    (sql, values)
}

#[async_trait]
impl RefundQueries for MarketSession {
    async fn refund_by_id(&mut self, id: RefundId) -> Result<Option<Refund>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM refunds WHERE id = ?");
        self.fetch_one(&sql, values![id.get()]).await?.as_ref().map(RefundTable::read).transpose()
    }

    async fn attempt_by_reference(
        &mut self,
        reference: Reference,
    ) -> Result<Option<(RefundId, u32)>, StoreError> {
        let (sql, values) = by_reference(reference);
        if let Some(row) = self.fetch_one(&sql, values).await? {
            let row = RefundTable::fields(&row);
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
        self.fetch(&sql, values).await?.iter().map(RefundTable::read).collect()
    }

    async fn refunds_of(&mut self, tenant: TenantId, orders: &[OrderId]) -> Result<Vec<Refund>, StoreError> {
        OF_ORDERS.fetch(self, (tenant, orders), RefundTable::read).await
    }

    async fn refunds_due(&mut self, now: DateTime<Utc>, most: u32) -> Result<Vec<RefundId>, StoreError> {
        let (sql, values) = due(self.dialect(), now, most);
        self.fetch(&sql, values).await?.iter().map(|row| RefundTable::fields(row).id("id")).collect()
    }

    async fn refund_requests(
        &mut self,
        refund: RefundId,
        most: u32,
    ) -> Result<Vec<SentRefundRequest>, StoreError> {
        let (sql, values) = requests(refund, most);
        self.fetch(&sql, values).await?.iter().map(request).collect()
    }

    async fn open_refunds(&mut self) -> Result<OpenRefunds, StoreError> {
        let mut open = OpenRefunds::default();
        let (sql, values) = processing(self.dialect());
        if let Some(row) = self.fetch_one(&sql, values).await? {
            let row = row.of("refunds", "status");
            open.processing = row.id("counted")?;
            open.oldest_processing = row.opt_time("oldest")?;
        }
        let (sql, values) = failed(self.dialect());
        if let Some(row) = self.fetch_one(&sql, values).await? {
            open.failed = row.of("refunds", "status").id("counted")?;
        }
        Ok(open)
    }
}

#[async_trait]
impl RefundRepo for MarketSession {
    async fn insert_refund(&mut self, refund: &Refund) -> Result<(), StoreError> {
        self.insert_into::<RefundTable>(RefundTable::values(refund), "").await
    }

    async fn advance_refund(&mut self, after: &Refund) -> Result<Changed, StoreError> {
        let updated = RefundTable::updated_values(after);
        advance::<RefundTable>(self, updated, after.tenant, after.id.get(), after.version - 1).await
    }

    async fn insert_superseded_attempt(&mut self, attempt: &SupersededAttempt) -> Result<(), StoreError> {
        let insert = "INSERT INTO refund_attempts (reference, refund_id, attempt_no)";
        let values = values![attempt.reference.to_string(), attempt.refund.get(), attempt.attempt];
        self.insert(insert, values.len(), values, "").await?;
        Ok(())
    }
    async fn insert_refund_request(&mut self, request: &SentRefundRequest) -> Result<(), StoreError> {
        let SentRefundRequest { refund, version, tenant, order, attempt, number, sent, error } = request;
        let insert = "INSERT INTO refund_requests \
                      (refund_id, refund_version, tenant_id, order_id, attempt_no, request_no, sent_time, error)";
        let order = order.map(OrderId::get);
        let values =
            values![refund.get(), *version, tenant.get(), order, *attempt, *number, *sent, error.as_deref()];
        self.insert(insert, values.len(), values, "").await?;
        Ok(())
    }

    async fn set_refund_request_error(
        &mut self,
        refund: RefundId,
        version: i64,
        error: &str,
    ) -> Result<(), StoreError> {
        let update = "UPDATE refund_requests SET error = ? WHERE refund_id = ? AND refund_version = ?";
        self.execute(update, values![error, refund.get(), version]).await.map(drop)
    }
}
