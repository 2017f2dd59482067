//! The audit log: what operators did.
//!
//! **Invariant:** it is only ever added to; where the engine can, it refuses to change or remove a row.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_domain::TenantId;

use super::{Numbered, StoreError};

/// One action of an operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// The tenant whose rows it changed; not always the operator's own.
    pub tenant: TenantId,
    /// Who: `user:9`, or `command-line:root` for whoever may write to the database itself.
    pub actor: String,
    /// What: `outbox.redrive`, `dead-letters.replay`, ...
    pub action: String,
    /// On what: a JSON object with the ids or the filter as they were asked for.
    pub selection: String,
    /// How many rows it changed.
    pub changed: u64,
    /// Why, if the operator said so.
    pub reason: Option<String>,
    /// In which trace.
    pub trace_id: String,
    /// When.
    pub at: DateTime<Utc>,
}

/// Reads the audit log.
#[async_trait]
pub trait AuditQueries: Send {
    /// At most `limit` entries of a tenant (`None`: of all) numbered below `before`, greatest number first.
    async fn audit_page(
        &mut self,
        tenant: Option<TenantId>,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<AuditEntry>>, StoreError>;
}

/// Writes the audit log.
#[async_trait]
pub trait AuditRepo: Send {
    /// Adds an entry, in the unit of work of the action itself.
    async fn audit(&mut self, entry: &AuditEntry) -> Result<(), StoreError>;
}
