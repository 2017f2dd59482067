//! Reads the rows that belong to orders, or to an invoice, of one tenant.

use std::collections::BTreeSet;

use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use handover_sql::{Dialect, LookUp, MAX_ROWS, Row, Session, Value, padded, values};
use marketplace_domain::{InvoiceId, OrderId};

/// A table whose rows belong to orders, or also to invoices.
pub(crate) struct OfOrders<'a> {
    pub(crate) table: &'a str,
    /// The columns to read, among them `order_id` and `sequence`.
    pub(crate) columns: &'a str,
    /// The column by which the rows of one order are sorted.
    pub(crate) sequence: &'a str,
}

impl OfOrders<'_> {
    /// The rows of these orders, sorted by order and sequence. `read` converts one row.
    pub(crate) async fn fetch<T>(
        &self,
        session: &mut Session,
        (tenant, orders): (TenantId, &[OrderId]),
        read: impl Fn(&Row) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let orders: BTreeSet<i64> = orders.iter().map(|order| order.get()).collect();
        let mut found = Vec::new();
        for orders in orders.into_iter().collect::<Vec<_>>().chunks(MAX_ROWS) {
            let (sql, values) = self.statement(session.dialect(), tenant, orders);
            for row in &session.fetch(&sql, values).await? {
                found.push(read(row)?);
            }
        }
        Ok(found)
    }

    /// The rows of an invoice, sorted by sequence. `read` converts one row.
    pub(crate) async fn fetch_invoice<T>(
        &self,
        session: &mut Session,
        (tenant, invoice): (TenantId, InvoiceId),
        read: impl Fn(&Row) -> Result<T, StoreError>,
    ) -> Result<Vec<T>, StoreError> {
        let (sql, values) = self.statement_of_invoice(session.dialect(), tenant, invoice);
        session.fetch(&sql, values).await?.iter().map(read).collect()
    }

    pub(crate) fn statement_of_invoice(
        &self,
        dialect: &dyn Dialect,
        tenant: TenantId,
        invoice: InvoiceId,
    ) -> (String, Vec<Value>) {
        let OfOrders { table, columns, sequence } = self;
        let index = dialect.index(&format!("idx_{table}_invoice"));
        let is_of_tenant = format!("{} = ?", dialect.unindexed("tenant_id"));
        let sql = format!(
            "SELECT {columns} FROM {table} {index} WHERE invoice_id = ? AND {is_of_tenant} ORDER BY {sequence}"
        );
        (sql, values![invoice.get(), tenant.get()])
    }

    pub(crate) fn statement(
        &self,
        dialect: &dyn Dialect,
        tenant: TenantId,
        orders: &[i64],
    ) -> (String, Vec<Value>) {
        dialect.look_up(LookUp {
            columns: self.columns,
            from: self.table.to_owned(),
            column: "order_id",
            keys: padded(orders).into_iter().map(Value::from).collect(),
            conditions: "tenant_id = ?".to_owned(),
            values: values![tenant.get()],
            order: &format!("order_id, {}", self.sequence),
            ..LookUp::default()
        })
    }
}
