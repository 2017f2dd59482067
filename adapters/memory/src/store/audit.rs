//! What operators did.

use std::cmp::Reverse;

use async_trait::async_trait;
use handover_application::ports::{AuditEntry, AuditQueries, AuditRepo, Numbered, StoreError};
use handover_domain::TenantId;

use super::limited;
use super::statement::next;
use super::tables::{Row, rows_below};
use super::unit::MemoryUnit;

impl Row for Numbered<AuditEntry> {
    type Key = i64;
    type Index = ();

    fn key(&self) -> i64 {
        self.id
    }
}

#[async_trait]
impl AuditQueries for MemoryUnit {
    async fn audit_page(
        &mut self,
        tenant: Option<TenantId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<AuditEntry>>, StoreError> {
        self.read(|statement| {
            let newest_first = statement
                .audit_log()
                .select(|table| rows_below(table, before).map(|(id, row)| (Reverse(id), row)));
            newest_first
                .filter(|row| tenant.is_none_or(|tenant| row.effect.tenant == tenant))
                .take(limited(limit))
                .cloned()
                .collect()
        })
        .await
    }
}

#[async_trait]
impl AuditRepo for MemoryUnit {
    async fn audit(&mut self, entry: &AuditEntry) -> Result<(), StoreError> {
        self.write(Vec::new(), |statement| {
            let id = next(&mut statement.sequences.audit_log);
            statement.own.audit_log.put(Numbered { id, effect: entry.clone() });
            Ok(())
        })
        .await
    }
}
