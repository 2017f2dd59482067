//! The audit log of operators' requests. Rows of changes, and of reads in the last six days, cannot be changed or deleted: triggers
//! of the schema prevent it on SQLite and PostgreSQL, and missing privileges of the service prevent it on MySQL.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::{AuditEntry, AuditFilter, AuditQueries, AuditRepo, Numbered, StoreError};

use super::page::Page;
use crate::dialect::{Dialect, MAX_ROWS, padded, placeholders};
use crate::session::Session;
use crate::table::{Table, table};
use crate::value::{Value, values};

table! {
    AuditTable("outbox_audit_log" by "id"), read row as AuditEntry, write entry as &'a AuditEntry;
    insert {
        tenant: id("tenant_id" = entry.tenant.get()),
        actor: string("actor" = &entry.actor),
        action: string("action" = &entry.action),
        selection: string("selection" = &entry.selection),
        matched: id("matched" = i64::try_from(entry.matched).unwrap_or(i64::MAX)),
        changed: id("changed" = i64::try_from(entry.changed).unwrap_or(i64::MAX)),
        reason: opt_string("reason" = &entry.reason),
        trace_id: string("trace_id" = &entry.trace_id),
        at: time("create_time" = entry.at),
    }
}

pub(super) fn page(
    dialect: &dyn Dialect,
    filter: &AuditFilter,
    before: Option<i64>,
    limit: u32,
) -> (String, Vec<Value>) {
    let select = format!("SELECT id, {} FROM outbox_audit_log", AuditTable::COLUMNS);
    let page = match filter.tenant.map(TenantId::get).filter(|_| filter.above_id.is_none()) {
        Some(tenant) if filter.changes => {
            let columns = [("tenant_id", tenant.into()), ("is_change", 1_i64.into())];
            Page::below_in(dialect, &select, "idx_outbox_audit_changes", &columns, before)
        }
        Some(tenant) => {
            let columns = [("tenant_id", tenant.into())];
            Page::below_in(dialect, &select, "idx_outbox_audit_tenant", &columns, before)
        }
        // In a range of ids, COALESCE excludes all other indexes: they would find rows outside of the range and sort them.
        None => Page::below(&select, "id", before)
            .with("id > ?", filter.above_id)
            .with("COALESCE(tenant_id, 0) = ?", filter.tenant.map(TenantId::get))
            .with("COALESCE(is_change, 0) = ?", filter.changes.then_some(1_i64)),
    };
    page.with("COALESCE(create_time, create_time) >= ?", filter.from)
        .with("COALESCE(create_time, create_time) < ?", filter.to)
        .limit(limit)
}

/// The ids of the oldest entries of reads. The index contains them in this order, so the limit bounds the number of rows that are
/// read.
pub(super) fn old_reads(dialect: &dyn Dialect, before: DateTime<Utc>, limit: u32) -> (String, Vec<Value>) {
    let index = dialect.index("idx_outbox_audit_reads");
    let sql = format!(
        "SELECT id FROM outbox_audit_log {index} WHERE is_change = 0 AND create_time < ? ORDER BY create_time LIMIT ?"
    );
    (sql, values![before, limit])
}

#[async_trait]
impl AuditQueries for Session {
    async fn audit_page(
        &mut self,
        filter: &AuditFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<AuditEntry>>, StoreError> {
        let (sql, values) = page(self.dialect, filter, before, limit);
        self.fetch(&sql, values).await?.iter().map(AuditTable::numbered).collect()
    }
}

#[async_trait]
impl AuditRepo for Session {
    async fn audit(&mut self, entry: &AuditEntry) -> Result<(), StoreError> {
        self.insert_into::<AuditTable>(AuditTable::values(entry), "").await
    }

    async fn delete_audit_reads(&mut self, before: DateTime<Utc>, limit: u32) -> Result<u64, StoreError> {
        let (sql, values) = old_reads(self.dialect, before, limit);
        let rows = self.fetch(&sql, values).await?;
        let ids = rows.iter().map(|row| row.int("id")).collect::<Result<Vec<_>, _>>()?;
        let relation = self.dialect.deletable_audit_entries();
        let mut deleted = 0;
        for ids in ids.chunks(MAX_ROWS) {
            let ids = padded(ids);
            let sql = format!("DELETE FROM {relation} WHERE id IN ({})", placeholders(ids.len()));
            deleted += self.execute(&sql, ids.into_iter().map(Value::from).collect()).await?;
        }
        Ok(deleted)
    }
}
