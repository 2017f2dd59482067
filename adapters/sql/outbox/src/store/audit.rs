//! The audit log of operators' requests. Rows cannot be changed or deleted: triggers of the schema prevent it on SQLite
//! and PostgreSQL, and missing privileges of the service prevent it on MySQL.

use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::{AuditEntry, AuditFilter, AuditQueries, AuditRepo, Numbered, StoreError};

use super::page::Page;
use crate::row::Row;
use crate::session::Session;
use crate::value::{Value, values};

const COLUMNS: &str = "tenant_id, actor, action, selection, matched, changed, reason, trace_id, create_time";

fn entry(row: &Row) -> Result<Numbered<AuditEntry>, StoreError> {
    let row = row.of("outbox_audit_log", "id");
    let effect = AuditEntry {
        tenant: row.id("tenant_id")?,
        actor: row.string("actor")?,
        action: row.string("action")?,
        selection: row.string("selection")?,
        matched: row.id("matched")?,
        changed: row.id("changed")?,
        reason: row.opt_string("reason")?,
        trace_id: row.string("trace_id")?,
        at: row.time("create_time")?,
    };
    Ok(Numbered { id: row.int("id")?, effect })
}

pub(super) fn page(filter: &AuditFilter, before: Option<i64>, most: u32) -> (String, Vec<Value>) {
    Page::below(&format!("SELECT id, {COLUMNS} FROM outbox_audit_log"), "id", before)
        .with("tenant_id = ?", filter.tenant.map(TenantId::get))
        .with("is_change = ?", filter.changes.then_some(1_i64))
        .limit(most)
}

#[async_trait]
impl AuditQueries for Session {
    async fn audit_page(
        &mut self,
        filter: &AuditFilter,
        before: Option<i64>,
        most: u32,
    ) -> Result<Vec<Numbered<AuditEntry>>, StoreError> {
        let (sql, values) = page(filter, before, most);
        self.fetch(&sql, values).await?.iter().map(entry).collect()
    }
}

#[async_trait]
impl AuditRepo for Session {
    async fn audit(&mut self, entry: &AuditEntry) -> Result<(), StoreError> {
        let values = values![
            entry.tenant.get(),
            &entry.actor,
            &entry.action,
            &entry.selection,
            i64::try_from(entry.matched).unwrap_or(i64::MAX),
            i64::try_from(entry.changed).unwrap_or(i64::MAX),
            &entry.reason,
            &entry.trace_id,
            entry.at,
        ];
        self.insert(&format!("INSERT INTO outbox_audit_log ({COLUMNS})"), values.len(), values, "").await?;
        Ok(())
    }
}
