//! The audit log: what operators asked for, and what they changed.
//!
//! **Invariant:** it is only ever added to; where the engine can, it refuses to change or remove a row.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::TenantId;

use super::{Numbered, StoreError};

/// One call of an operator, or one part of what it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEntry {
    /// The tenant whose rows it is about; not always the operator's own. That one's where it is about those of all.
    pub tenant: TenantId,
    /// Who: `user:9`, or `command-line:root` for whoever may write to the database itself.
    pub actor: String,
    /// What: `outbox.list`, `outbox.redrive`, `dead-letters.replay`, ...
    pub action: String,
    /// On what: a JSON object with the ids or the filter as they were asked for.
    pub selection: String,
    /// How many rows it showed, or chose to change; in an entry of a part, of that part. Entries from before looks were
    /// recorded say none.
    pub matched: u64,
    /// How many of them it changed.
    pub changed: u64,
    /// Why, if the operator said so.
    pub reason: Option<String>,
    /// In which trace.
    pub trace_id: String,
    /// When.
    pub at: DateTime<Utc>,
}

/// Which entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditFilter {
    /// Of this tenant; `None` is of all.
    pub tenant: Option<TenantId>,
    /// Only of what changed something.
    pub changes: bool,
}

/// Reads the audit log.
#[handover_macros::wrappable(outbox_view)]
#[async_trait]
pub trait AuditQueries: Send {
    /// At most `limit` entries that the filter chooses, numbered below `before`, greatest number first.
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
    /// Adds an entry: in the unit of work of what it changed, or in one before its answer.
    async fn audit(&mut self, entry: &AuditEntry) -> Result<(), StoreError>;
}
