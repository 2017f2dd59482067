//! The audit log: calls of operators and the changes they made.
//!
//! **Invariant:** entries of calls that changed rows are only added. Where the engine supports it, it rejects changes and deletions,
//! except that an erasure masks reasons ([`super::ErasureRepo`]), and that old entries of calls that only read are deleted.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;

use super::error::StoreError;
use super::numbered::Numbered;

/// One call of an operator, or one part of a call that was split into several units of work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// Tenant of the affected rows, which may differ from the operator's tenant. For calls about all tenants, the
    /// operator's tenant.
    pub tenant: TenantId,
    /// Operator: `user:9`, or `command-line:root` for a person with direct access to the database.
    pub actor: String,
    /// Action: `outbox.list`, `outbox.redrive`, `dead-letters.replay`, ...
    pub action: String,
    /// Requested ids or filter, as a JSON object.
    pub selection: String,
    /// Number of rows that the call, or this part of it, returned or selected for a change. 0 in entries written before
    /// read access was recorded.
    pub matched: u64,
    /// Number of rows that were changed.
    pub changed: u64,
    /// Reason, if the operator gave one.
    pub reason: Option<String>,
    /// Trace id of the call.
    pub trace_id: String,
    /// Time of the call.
    pub at: DateTime<Utc>,
}

/// Selects audit entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Only entries of this tenant; `None` for all tenants.
    pub tenant: Option<TenantId>,
    /// Only entries of calls that changed rows.
    pub changes: bool,
    /// Only entries of calls at or after this time.
    pub from: Option<DateTime<Utc>>,
    /// Only entries of calls before this time.
    pub to: Option<DateTime<Utc>>,
    /// Only entries with an id above this one: bounds the number of entries that a page without an index reads.
    pub above_id: Option<i64>,
}

/// Reads the audit log.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait AuditQueries: Send {
    /// At most `limit` matching entries with an id below `before`, greatest id first.
    async fn audit_page(
        &mut self,
        filter: &AuditFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<AuditEntry>>, StoreError>;
}

/// Writes the audit log.
#[handover_macros::wrappable(outbox)]
#[async_trait]
pub trait AuditRepo: Send {
    /// Adds an entry: in the unit of work that made the change, or, for a call without changes, in a unit of work that
    /// is committed before the result is returned.
    async fn audit(&mut self, entry: &AuditEntry) -> Result<(), StoreError>;

    /// Deletes at most `limit` entries of calls before this time that changed no rows, oldest first. Returns their number. MUST keep
    /// every entry of a call that changed rows.
    async fn delete_audit_reads(&mut self, before: DateTime<Utc>, limit: u32) -> Result<u64, StoreError>;
}
