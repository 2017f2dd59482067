//! Texts about persons.

use crate::requests::RequestTable;
use crate::session::MarketSession;
use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::MASK;
use handover_outbox::ports::{Numbered, StoreError};
use handover_sql::{Dialect, MAX_ROWS, Table, Value, padded, placeholders, values};
use marketplace::ports::{PersonalTextQueries, PersonalTextRepo, RequestRecord};
use marketplace_domain::{OrderId, PaymentMethod, ProductId};

/// A table with texts of orders.
struct OrderTexts {
    table: &'static str,
    /// The column with the id of the order, and the index that begins with it and the tenant.
    order: &'static str,
    index: Option<&'static str>,
    /// The assignments, and the condition that one of them changes the row.
    set: String,
    changes: String,
}

/// Sets a column to [`MASK`] unless it is NULL.
fn masked(column: &str) -> String {
    format!("{column} = CASE WHEN {column} IS NOT NULL THEN '{MASK}' END")
}

/// Whether a column has another text than [`MASK`].
fn has_text(column: &str) -> String {
    format!("({column} IS NOT NULL AND {column} <> '{MASK}')")
}

fn either(columns: [&str; 2]) -> (String, String) {
    let [first, second] = columns;
    (
        format!("{}, {}", masked(first), masked(second)),
        format!("({} OR {})", has_text(first), has_text(second)),
    )
}

fn of_orders() -> [OrderTexts; 5] {
    let of = |table, order, index, (set, changes)| OrderTexts { table, order, index, set, changes };
    let published = PaymentMethod::PUBLISHED.map(|method| format!("'{method}'")).join(", ");
    let methods = (
        format!("payment_method = '{}'", PaymentMethod::MASK),
        format!("payment_method NOT IN ({published})"),
    );
    let requested = "cause IN ('buyer', 'seller', 'operator')";
    let reason = format!("CASE WHEN {requested} THEN '{MASK}' ELSE reason END");
    let refunds = (
        format!("reason = {reason}, {}", masked("last_error")),
        format!(
            "status <> 'PROCESSING' AND (({requested} AND reason <> '{MASK}') OR {})",
            has_text("last_error")
        ),
    );
    let (set, changes) = either(["error", "close_reason"]);
    let reports = (set, format!("state <> 'OPEN' AND {changes}"));
    [
        of("orders", "id", None, either(["carrier", "tracking_no"])),
        of("payments", "order_id", Some("idx_payments_order"), methods),
        of("refunds", "order_id", Some("idx_refunds_order"), refunds),
        of(
            "refund_requests",
            "order_id",
            Some("idx_refund_requests_order"),
            (masked("error"), has_text("error")),
        ),
        of("gateway_reports", "order_id", Some("idx_gateway_reports_order"), reports),
    ]
}

/// The statements that mask the texts of orders of one tenant.
pub(crate) fn order_statements(
    dialect: &dyn Dialect,
    tenant: TenantId,
    orders: &[i64],
) -> Vec<(String, Vec<Value>)> {
    let orders = padded(orders);
    let list = placeholders(orders.len());
    let of_tenant = of_orders().into_iter().map(|OrderTexts { table, order, index, set, changes }| {
        let hint = index.map(|index| dialect.lock_index(index)).unwrap_or_default();
        let sql = format!(
            "UPDATE {table} {hint} SET {set} WHERE {is_of_tenant} = ? AND {order} IN ({list}) AND {changes}",
            is_of_tenant = dialect.unindexed("tenant_id"),
        );
        let values = values![tenant.get()].into_iter().chain(orders.iter().copied().map(Value::from));
        (sql, values.collect())
    });
    of_tenant.collect()
}

/// A page of the stored responses.
pub(crate) fn stored_responses(after: Option<i64>, most: u32) -> (String, Vec<Value>) {
    let columns = RequestTable::COLUMNS;
    let sql = format!(
        "SELECT id, {columns} FROM idempotency_keys WHERE id > ? AND status = 'SUCCESS' ORDER BY id LIMIT ?"
    );
    (sql, values![after.unwrap_or(0), most])
}

/// Masks the titles of products.
pub(crate) fn titles(dialect: &dyn Dialect, tenant: TenantId, products: &[i64]) -> (String, Vec<Value>) {
    let ids = padded(products);
    let list = placeholders(ids.len());
    let sql = format!(
        "UPDATE products SET title = '{MASK}', version = version + 1 WHERE id IN ({list}) AND {is_of_tenant} = ? \
         AND title <> '{MASK}'",
        is_of_tenant = dialect.unindexed("tenant_id"),
    );
    (sql, ids.into_iter().map(Value::from).chain(values![tenant.get()]).collect())
}

/// Masks the reasons of findings. A change of a finding that was read before has the old version, so that it does not write the
/// reason back.
pub(crate) fn finding_reasons(findings: &[i64]) -> (String, Vec<Value>) {
    let ids = padded(findings);
    let list = placeholders(ids.len());
    let condition = has_text("reason");
    let sql = format!(
        "UPDATE reconciliation_findings SET reason = '{MASK}', version = version + 1 WHERE id IN ({list}) \
         AND {condition}"
    );
    (sql, ids.into_iter().map(Value::from).collect())
}

#[async_trait]
impl PersonalTextQueries for MarketSession {
    async fn stored_responses(
        &mut self,
        after: Option<i64>,
        most: u32,
    ) -> Result<Vec<Numbered<RequestRecord>>, StoreError> {
        let (sql, values) = stored_responses(after, most);
        let rows = self.fetch(&sql, values).await?;
        rows.iter().map(RequestTable::numbered).collect()
    }
}

#[async_trait]
impl PersonalTextRepo for MarketSession {
    async fn erase_titles(&mut self, tenant: TenantId, products: &[ProductId]) -> Result<u64, StoreError> {
        let ids: Vec<i64> = products.iter().map(|id| id.get()).collect();
        let mut changed = 0;
        for ids in ids.chunks(MAX_ROWS) {
            let (sql, values) = titles(self.dialect(), tenant, ids);
            changed += self.execute(&sql, values).await?;
        }
        Ok(changed)
    }

    async fn erase_order_texts(&mut self, tenant: TenantId, orders: &[OrderId]) -> Result<u64, StoreError> {
        let ids: Vec<i64> = orders.iter().map(|id| id.get()).collect();
        let mut changed = 0;
        for ids in ids.chunks(MAX_ROWS) {
            for (sql, values) in order_statements(self.dialect(), tenant, ids) {
                changed += self.execute(&sql, values).await?;
            }
        }
        Ok(changed)
    }

    async fn erase_finding_reasons(&mut self, findings: &[i64]) -> Result<u64, StoreError> {
        let mut changed = 0;
        for ids in findings.chunks(MAX_ROWS) {
            let (sql, values) = finding_reasons(ids);
            changed += self.execute(&sql, values).await?;
        }
        Ok(changed)
    }
}
