//! The recorded findings of reconciliations.

use async_trait::async_trait;
use handover_events::TenantId;
use marketplace_domain::{FindingKind, FindingState, OrderId, RecordedFinding};

use handover_outbox::ports::{Changed, Numbered, StoreError};

/// Selects recorded findings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FindingFilter {
    /// Only findings of this tenant; `None`: all findings, also those without a tenant.
    pub tenant: Option<TenantId>,
    /// Only findings in this state.
    pub state: Option<FindingState>,
}

/// The order and the subject of a finding. Only these, so that a finding with another unreadable value, such as a kind of
/// another version, hides no other finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingSubject {
    pub tenant: Option<TenantId>,
    pub subject: String,
    pub order: Option<OrderId>,
}

/// Reads recorded findings.
#[handover_macros::wrappable]
#[async_trait]
pub trait FindingQueries: Send {
    /// The finding with this id, in any tenant.
    async fn finding_by_id(&mut self, id: i64) -> Result<Option<Numbered<RecordedFinding>>, StoreError>;

    /// The finding of this tenant and kind with this subject, compared byte by byte. Without a tenant, the one without a
    /// tenant.
    async fn finding_by_subject(
        &mut self,
        tenant: Option<TenantId>,
        kind: FindingKind,
        subject: &str,
    ) -> Result<Option<Numbered<RecordedFinding>>, StoreError>;

    /// At most `limit` findings that match, with an id below `before`, greatest id first.
    async fn findings_page(
        &mut self,
        filter: FindingFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<RecordedFinding>>, StoreError>;

    /// At most `limit` `OPEN` findings of all tenants, with an id below `before`, greatest id first.
    async fn subjects_of_open_findings(
        &mut self,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<FindingSubject>>, StoreError>;

    /// Number of `OPEN` findings of each kind that has one, in all tenants, in the order of [`FindingKind::ALL`]. A kind that only
    /// another version knows is left out.
    async fn open_findings(&mut self) -> Result<Vec<(FindingKind, u64)>, StoreError>;
}

/// Writes recorded findings.
#[handover_macros::wrappable]
#[async_trait]
pub trait FindingRepo: Send {
    /// Inserts a finding. A subject in use by the same tenant and kind, or among findings without a tenant, MUST be a
    /// `Conflict`.
    async fn insert_finding(&mut self, finding: &RecordedFinding) -> Result<(), StoreError>;

    /// Replaces the row if its version is `after.version - 1`: one conditional write. Tenant, kind, subject and the time of
    /// the first run that saw it MUST stay.
    async fn advance_finding(&mut self, id: i64, after: &RecordedFinding) -> Result<Changed, StoreError>;
}
