//! The audit log of operators' requests. Rows cannot be changed or deleted: triggers of the schema prevent it on SQLite
//! and PostgreSQL, and missing privileges of the service prevent it on MySQL.

use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::{AuditEntry, AuditFilter, AuditQueries, AuditRepo, Numbered, StoreError};

use super::page::Page;
use crate::session::Session;
use crate::table::{Table, table};
use crate::value::Value;

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

pub(super) fn page(filter: &AuditFilter, before: Option<i64>, most: u32) -> (String, Vec<Value>) {
    let select = format!("SELECT id, {} FROM outbox_audit_log", AuditTable::COLUMNS);
    Page::below(&select, "id", before)
        .with("tenant_id = ?", filter.tenant.map(TenantId::get))
        .with("is_change = ?", filter.changes.then_some(1_i64))
        .with("create_time >= ?", filter.from)
        .with("create_time < ?", filter.to)
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
        self.fetch(&sql, values).await?.iter().map(AuditTable::numbered).collect()
    }
}

#[async_trait]
impl AuditRepo for Session {
    async fn audit(&mut self, entry: &AuditEntry) -> Result<(), StoreError> {
        self.insert_into::<AuditTable>(AuditTable::values(entry), "").await
    }
}
