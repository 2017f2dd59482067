//! The audit log of operators.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::ports::{AuditEntry, AuditFilter, AuditQueries, AuditRepo, Numbered, StoreError};

use super::outbox_tables::{OutboxRows as _, OutboxTables};
use super::statement::{Tables, next};
use super::tables::limited;
use super::tables::{Row, rows_below};
use super::unit::MemoryUnit;

impl Row<OutboxTables> for Numbered<AuditEntry> {
    type Key = i64;
    type Index = ();

    fn key(&self) -> i64 {
        self.id
    }
}

#[async_trait]
impl<X: Tables> AuditQueries for MemoryUnit<X> {
    async fn audit_page(
        &mut self,
        filter: &AuditFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<AuditEntry>>, StoreError> {
        self.read_outbox(|statement| {
            let newest_first = statement
                .audit_log()
                .select(|table| rows_below(table, before).map(|(id, row)| (Reverse(id), row)));
            newest_first
                .filter(|row| filter.above_id.is_none_or(|id| row.id > id))
                .filter(|row| filter.tenant.is_none_or(|tenant| row.effect.tenant == tenant))
                .filter(|row| row.effect.changed > 0 || !filter.changes)
                .filter(|row| filter.from.is_none_or(|from| row.effect.at >= from))
                .filter(|row| filter.to.is_none_or(|to| row.effect.at < to))
                .take(limited(limit))
                .cloned()
                .collect()
        })
        .await
    }
}

#[async_trait]
impl<X: Tables> AuditRepo for MemoryUnit<X> {
    async fn audit(&mut self, entry: &AuditEntry) -> Result<(), StoreError> {
        self.write_outbox(Vec::new(), |statement| {
            let id = next(&mut statement.sequences.audit_log);
            statement.own.audit_log.put(Numbered { id, effect: entry.clone() });
            Ok(())
        })
        .await
    }

    async fn delete_audit_reads(&mut self, before: DateTime<Utc>, limit: u32) -> Result<u64, StoreError> {
        self.write_outbox(Vec::new(), |statement| {
            let rows = statement.audit_log().all().filter(|row| row.effect.changed == 0);
            let old = rows.filter(|row| row.effect.at < before).map(|row| (row.effect.at, row.id));
            let oldest_first: BTreeSet<(DateTime<Utc>, i64)> = old.collect();
            let mut deleted = 0;
            for (_, id) in oldest_first.iter().take(limited(limit)) {
                statement.own.audit_log.remove(id);
                deleted += 1;
            }
            Ok(deleted)
        })
        .await
    }
}
