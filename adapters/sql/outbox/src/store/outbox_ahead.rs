//! Selection of the outbox rows that may be published now although a backlog of other groups of events is before them.
//!
//! **Invariant:** the cost is limited by the number of pending rows to be read, which the caller states.

use handover_outbox::ports::{Ahead, AheadQuery, EventGroup, StoreError};

use super::outbox_due::{EARLIER, SAME, conditions, is_ordered, names};
use super::outbox_table::OutboxTable;
use crate::dialect::Dialect;
use crate::session::Session;
use crate::table::Table;
use crate::value::{Value, values};

/// How many pending rows there are from an id on, up to a limit, and the id of the last of them.
pub(super) fn extent(dialect: &dyn Dialect, query: &AheadQuery) -> (String, Vec<Value>) {
    let sql = format!(
        "SELECT count(*) AS pending_rows, max(p.id) AS last_id FROM (SELECT o.id FROM outbox_events o {index} \
         WHERE {pending} AND o.id >= ? ORDER BY o.id LIMIT ?) p",
        index = dialect.index("idx_outbox_pending"),
        pending = dialect.pending(),
    );
    (sql, values![query.due.from_id, query.max_read])
}

/// The rows with ids up to `last_id` that may be published now, in id order.
pub(super) fn rows_ahead(dialect: &dyn Dialect, query: &AheadQuery, last_id: i64) -> (String, Vec<Value>) {
    let AheadQuery { due, except, .. } = query;
    // The groups are left out before the lookups of `conditions`.
    let mut groups = String::new();
    let mut values = Vec::new();
    for group in except {
        match group {
            EventGroup::Tenant(tenant) => {
                groups.push_str("o.tenant_id <> ? AND ");
                values.push(tenant.get().into());
            }
            EventGroup::Type(event_type) => {
                groups.push_str("o.event_type <> ? AND ");
                values.push(event_type.into());
            }
            EventGroup::TenantAndType(tenant, event_type) => {
                groups.push_str("(o.tenant_id <> ? OR o.event_type <> ?) AND ");
                values.extend(values![tenant.get(), event_type]);
            }
        }
    }
    let (conditions, condition_values) = conditions(dialect, due);
    values.extend(condition_values);
    values.extend(values![due.from_id, last_id]);
    let sql = format!(
        "SELECT {columns} FROM outbox_events o {pending} WHERE {groups}{conditions} AND o.id >= ? AND o.id <= ? \
         AND (NOT ({is_ordered}) OR NOT EXISTS (SELECT 1 FROM outbox_events e {order} WHERE {SAME} \
         AND e.status IN ('NEW', 'RETRY') AND {other_is_ordered} AND {EARLIER})) ORDER BY o.id LIMIT ?",
        columns = OutboxTable::COLUMNS,
        pending = dialect.index("idx_outbox_pending"),
        is_ordered = is_ordered("o.event_type", &due.unordered),
        order = dialect.index("idx_outbox_order"),
        other_is_ordered = is_ordered("e.event_type", &due.unordered),
    );
    values.extend(names(&due.unordered).chain(names(&due.unordered)));
    values.push(due.limit.into());
    (sql, values)
}

impl Session {
    /// The query plans of [`extent`] and [`rows_ahead`], in the format of the engine.
    pub(super) async fn explain_ahead(&mut self, query: &AheadQuery) -> Result<Vec<String>, StoreError> {
        let mut plans = Vec::new();
        for (sql, values) in [extent(self.dialect, query), rows_ahead(self.dialect, query, i64::MAX)] {
            let rows = self.fetch(&format!("{} {sql}", self.dialect.explain()), values).await?;
            plans.push(rows.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
        }
        Ok(plans)
    }

    pub(super) async fn ahead(&mut self, query: &AheadQuery) -> Result<Ahead, StoreError> {
        let nothing = Ahead { rows: Vec::new(), next_id: query.due.from_id, is_end: true };
        let (sql, values) = extent(self.dialect, query);
        let Some(extent) = self.fetch_one(&sql, values).await? else { return Ok(nothing) };
        let extent = extent.of("outbox_events", "last_id");
        let Some(last_id) = extent.opt_int("last_id")? else { return Ok(nothing) };
        let is_end = extent.int("pending_rows")? < i64::from(query.max_read);
        let (sql, values) = rows_ahead(self.dialect, query, last_id);
        let rows = self.fetch(&sql, values).await?;
        let is_cut = rows.len() as u64 >= u64::from(query.due.limit);
        let next_id = match rows.last().filter(|_| is_cut) {
            Some(row) => OutboxTable::fields(row).int("id")? + 1,
            None => last_id + 1,
        };
        Ok(Ahead { rows: self.readable(&rows, OutboxTable::read), next_id, is_end: is_end && !is_cut })
    }
}
