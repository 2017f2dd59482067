//! Repository of the reports of the payment gateway.

use crate::of_orders::OfOrders;
use crate::session::MarketSession;
use crate::{AmountFields, opt_payable};
use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::{Changed, Numbered, StoreError};
use handover_sql::{Dialect, Fields, Table, Value, table, values};
use marketplace::ports::{GatewayReportFilter, GatewayReportQueries, GatewayReportRepo};
use marketplace_domain::{
    ClosedBy, GatewayReport, InvoiceId, Money, OrderId, PayableId, PaymentId, RefundId, ReportState,
};

table! {
    pub(crate) ReportTable("gateway_reports" by "id"), read row as GatewayReport, write report as &'a GatewayReport;
    insert {
        key: string("report_key" = &report.key),
        kind: named("kind" = report.kind.as_str()),
        tenant: opt_id("tenant_id" = report.tenant.map(TenantId::get)),
        of: (opt_payable(&row))(
            "order_id" = report.of.and_then(PayableId::order).map(OrderId::get),
            "invoice_id" = report.of.and_then(PayableId::invoice).map(InvoiceId::get)
        ),
        payment: opt_id("payment_id" = report.payment.map(PaymentId::get)),
        refund: opt_id("refund_id" = report.refund.map(RefundId::get)),
        attempt: opt_id("attempt_no" = report.attempt.map(i64::from)),
        reference: opt_string("reference" = &report.reference),
        transaction_id: opt_string("transaction_id" = &report.transaction_id),
        result: opt_string("result" = &report.result),
        amount: opt_money("amount_minor" = report.amount.map(Money::minor)),
        body_hash: string("body_hash" = &report.body_hash),
        error: opt_string("error" = &report.error),
        outcome: named("outcome" = report.outcome.as_str()),
        answer: opt_string("answer" = &report.answer),
        state: named("state" = report.state.as_str()),
        trace_id: string("trace_id" = &report.trace_id),
        create_time: time("create_time" = report.create_time),
        closed: (closed(&row))(
            "closed_by" = report.closed.as_ref().map(|closed| closed.operator.as_str()),
            "close_reason" = report.closed.as_ref().map(|closed| closed.reason.as_str()),
            "close_time" = report.closed.as_ref().map(|closed| closed.at)
        ),
    }
}

const COLUMNS: &str = ReportTable::COLUMNS;

/// The columns of a numbered report.
pub(crate) fn with_id() -> String {
    format!("id, {COLUMNS}")
}

/// The queries for all reports about an order or invoice.
pub(crate) const fn of_orders(columns: &str) -> OfOrders<'_> {
    OfOrders { table: "gateway_reports", columns, sequence: "id" }
}

fn closed(row: &Fields<'_>) -> Result<Option<ClosedBy>, StoreError> {
    let Some(operator) = row.opt_string("closed_by")? else { return Ok(None) };
    Ok(Some(ClosedBy { operator, reason: row.string("close_reason")?, at: row.time("close_time")? }))
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
    and("id > ?", filter.above_id.map(Value::from));
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

/// The number of open reports, at most `most`.
pub(crate) fn open(dialect: &dyn Dialect, most: u32) -> (String, Vec<Value>) {
    let index = dialect.index("idx_gateway_reports_state");
    // The last condition is the predicate of the partial index, word for word.
    let sql = format!(
        "SELECT count(*) AS counted FROM (SELECT id FROM gateway_reports {index} WHERE state = 'OPEN' \
         AND state <> 'DONE' ORDER BY id LIMIT ?) AS open_reports"
    );
    (sql, values![most])
}

#[async_trait]
impl GatewayReportQueries for MarketSession {
    async fn gateway_report_by_id(&mut self, id: i64) -> Result<Option<Numbered<GatewayReport>>, StoreError> {
        let sql = format!("SELECT id, {COLUMNS} FROM gateway_reports WHERE id = ?");
        self.fetch_one(&sql, values![id]).await?.as_ref().map(ReportTable::numbered).transpose()
    }

    async fn gateway_report_by_key(
        &mut self,
        key: &str,
    ) -> Result<Option<Numbered<GatewayReport>>, StoreError> {
        let (sql, values) = by_key(key);
        self.fetch_one(&sql, values).await?.as_ref().map(ReportTable::numbered).transpose()
    }

    async fn gateway_reports_page(
        &mut self,
        filter: GatewayReportFilter,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<Numbered<GatewayReport>>, StoreError> {
        let (sql, values) = page(self.dialect(), filter, before, most);
        self.fetch(&sql, values).await?.iter().map(ReportTable::numbered).collect()
    }

    async fn open_gateway_reports(&mut self, most: u32) -> Result<u64, StoreError> {
        let (sql, values) = open(self.dialect(), most);
        let row = self.fetch_one(&sql, values).await?;
        row.map_or(Ok(0), |row| row.of("gateway_reports", "state").id("counted"))
    }

    async fn gateway_reports_of(
        &mut self,
        tenant: TenantId,
        orders: &[OrderId],
    ) -> Result<Vec<Numbered<GatewayReport>>, StoreError> {
        let columns = with_id();
        of_orders(&columns).fetch(self, (tenant, orders), ReportTable::numbered).await
    }
}

#[async_trait]
impl GatewayReportRepo for MarketSession {
    async fn insert_gateway_report(&mut self, report: &GatewayReport) -> Result<(), StoreError> {
        self.insert_into::<ReportTable>(ReportTable::values(report), "").await
    }

    async fn close_gateway_report(&mut self, id: i64, closed: &ClosedBy) -> Result<Changed, StoreError> {
        let sql = "UPDATE gateway_reports SET state = 'CLOSED', closed_by = ?, close_reason = ?, close_time = ? \
                   WHERE id = ? AND state = 'OPEN'";
        let values = values![&closed.operator, &closed.reason, closed.at, id];
        Ok(Changed::of(self.execute(sql, values).await?))
    }
}
