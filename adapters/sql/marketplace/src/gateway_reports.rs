//! Repository of the reports of the payment gateway.

use crate::of_orders::OfOrders;
use crate::session::MarketSession;
use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::{Changed, Numbered, StoreError};
use handover_sql::{Dialect, Fields, Row, Value, values};
use marketplace::ports::{GatewayReportFilter, GatewayReportQueries, GatewayReportRepo};
use marketplace_domain::{ClosedBy, GatewayReport, Money, OrderId, PaymentId, RefundId, ReportState};

const COLUMNS: &str = "report_key, kind, tenant_id, order_id, payment_id, refund_id, attempt_no, reference, \
                       transaction_id, result, amount_minor, body_hash, error, outcome, answer, state, trace_id, \
                       create_time, closed_by, close_reason, close_time";

fn report(row: &Row) -> Result<Numbered<GatewayReport>, StoreError> {
    let row = row.of("gateway_reports", "id");
    let effect = GatewayReport {
        key: row.string("report_key")?,
        kind: row.named("kind")?,
        tenant: row.opt_id("tenant_id")?,
        order: row.opt_id("order_id")?,
        payment: row.opt_id("payment_id")?,
        refund: row.opt_id("refund_id")?,
        attempt: row.opt_id("attempt_no")?,
        reference: row.opt_string("reference")?,
        transaction_id: row.opt_string("transaction_id")?,
        result: row.opt_string("result")?,
        amount: amount(&row)?,
        body_hash: row.string("body_hash")?,
        error: row.opt_string("error")?,
        outcome: row.named("outcome")?,
        answer: row.opt_string("answer")?,
        state: row.named("state")?,
        trace_id: row.string("trace_id")?,
        create_time: row.time("create_time")?,
        closed: closed(&row)?,
    };
    Ok(Numbered { id: row.int("id")?, effect })
}

fn amount(row: &Fields<'_>) -> Result<Option<Money>, StoreError> {
    let minor = row.opt_int("amount_minor")?;
    minor
        .map(|minor| Money::from_minor(minor).map_err(|error| row.corrupt("amount_minor", error)))
        .transpose()
}

fn closed(row: &Fields<'_>) -> Result<Option<ClosedBy>, StoreError> {
    let Some(operator) = row.opt_string("closed_by")? else { return Ok(None) };
    Ok(Some(ClosedBy { operator, reason: row.string("close_reason")?, at: row.time("close_time")? }))
}

/// The values of the [`COLUMNS`].
fn report_values(report: &GatewayReport) -> Vec<Value> {
    let closed = report.closed.as_ref();
    values![
        &report.key,
        report.kind.as_str(),
        report.tenant.map(TenantId::get),
        report.order.map(OrderId::get),
        report.payment.map(PaymentId::get),
        report.refund.map(RefundId::get),
        report.attempt.map(i64::from),
        &report.reference,
        &report.transaction_id,
        &report.result,
        report.amount.map(Money::minor),
        &report.body_hash,
        &report.error,
        report.outcome.as_str(),
        &report.answer,
        report.state.as_str(),
        &report.trace_id,
        report.create_time,
        closed.map(|closed| closed.operator.as_str()),
        closed.map(|closed| closed.reason.as_str()),
        closed.map(|closed| closed.at),
    ]
}

/// The query for the report with a key.
pub(crate) fn by_key(key: &str) -> (String, Vec<Value>) {
    (format!("SELECT id, {COLUMNS} FROM gateway_reports WHERE report_key = ?"), values![key])
}

/// One page of reports.
pub(crate) fn page(
    dialect: &dyn Dialect,
    filter: GatewayReportFilter,
    before: Option<i64>,
    most: u32,
) -> (String, Vec<Value>) {
    let is_unfinished = filter.state.is_some_and(|state| state != ReportState::Done);
    // Most reports are DONE, so that the newest ones fill a page of these.
    let index = match (filter.tenant, is_unfinished) {
        (Some(_), true) => dialect.index("idx_gateway_reports_page"),
        (Some(_), false) => dialect.index("idx_gateway_reports_tenant"),
        (None, true) => dialect.index("idx_gateway_reports_state"),
        (None, false) => String::new(),
    };
    let mut sql = format!("SELECT id, {COLUMNS} FROM gateway_reports {index} WHERE id < ?");
    let mut values = values![before.unwrap_or(i64::MAX)];
    let mut and = |condition: &str, value: Option<Value>| {
        if let Some(value) = value {
            sql.push_str(" AND ");
            sql.push_str(condition);
            values.push(value);
        }
    };
    and("tenant_id = ?", filter.tenant.map(|tenant| tenant.get().into()));
    and("state = ?", filter.state.map(|state| state.as_str().into()));
    and("create_time >= ?", filter.from.map(Value::from));
    and("create_time < ?", filter.to.map(Value::from));
    if is_unfinished {
        // The predicate of the partial indexes, word for word.
        sql.push_str(" AND state <> 'DONE'");
    }
    sql.push_str(" ORDER BY id DESC LIMIT ?");
    values.push(most.into());
    (sql, values)
}

#[async_trait]
impl GatewayReportQueries for MarketSession {
    async fn gateway_report_by_id(&mut self, id: i64) -> Result<Option<Numbered<GatewayReport>>, StoreError> {
        let sql = format!("SELECT id, {COLUMNS} FROM gateway_reports WHERE id = ?");
        self.fetch_one(&sql, values![id]).await?.as_ref().map(report).transpose()
    }

    async fn gateway_report_by_key(
        &mut self,
        key: &str,
    ) -> Result<Option<Numbered<GatewayReport>>, StoreError> {
        let (sql, values) = by_key(key);
        self.fetch_one(&sql, values).await?.as_ref().map(report).transpose()
    }

    async fn gateway_reports_page(
        &mut self,
        filter: GatewayReportFilter,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<Numbered<GatewayReport>>, StoreError> {
        let (sql, values) = page(self.dialect(), filter, before, most);
        self.fetch(&sql, values).await?.iter().map(report).collect()
    }

    async fn gateway_reports_of(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<Numbered<GatewayReport>>, StoreError> {
        let columns = format!("id, {COLUMNS}");
        let of_orders = OfOrders { table: "gateway_reports", columns: &columns, sequence: "id" };
        of_orders.fetch(self, (tenant, orders), report).await
    }
}

#[async_trait]
impl GatewayReportRepo for MarketSession {
    async fn insert_gateway_report(&mut self, report: &GatewayReport) -> Result<(), StoreError> {
        let values = report_values(report);
        self.insert(&format!("INSERT INTO gateway_reports ({COLUMNS})"), values.len(), values, "").await?;
        Ok(())
    }

    async fn close_gateway_report(&mut self, id: i64, closed: &ClosedBy) -> Result<Changed, StoreError> {
        let sql = "UPDATE gateway_reports SET state = 'CLOSED', closed_by = ?, close_reason = ?, close_time = ? \
                   WHERE id = ? AND state = 'OPEN'";
        let values = values![&closed.operator, &closed.reason, closed.at, id];
        Ok(Changed::of(self.execute(sql, values).await?))
    }
}
