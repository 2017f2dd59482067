//! Use cases: the recorded findings of reconciliations.

use handover_events::TenantId;
use marketplace_domain::{AcknowledgedBy, FindingState, RecordedFinding};

use super::{Operations, visible_tenant};
use crate::claim::Call;
use crate::context::CommandContext;
use crate::error::UseCaseError;
use crate::ports::FindingFilter;
use handover_outbox::Page;
use handover_outbox::operations::{Action, Reason, changed_by_earlier_attempt, count, present_fields};
use handover_outbox::ports::{AuditEntry, Numbered};

/// Selects recorded findings for an operator.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ListFindings {
    /// Tenant; `None`: the caller's tenant, or all tenants for the platform.
    pub tenant: Option<TenantId>,
    pub state: Option<FindingState>,
    /// Only findings with an id below this one.
    pub before: Option<i64>,
    pub limit: u32,
}

impl Operations {
    /// Returns recorded findings, newest first. An operator sees those of its own tenant; `platform` sees all, also those
    /// without a tenant. The call is recorded in the audit log.
    pub async fn findings(
        &self,
        context: &CommandContext,
        query: ListFindings,
    ) -> Result<Page<Numbered<RecordedFinding>>, UseCaseError> {
        let operator = context.operator()?;
        let ListFindings { tenant: asked, state, before, limit } = query;
        let tenant = visible_tenant(&operator, asked)?;
        let filter = FindingFilter { tenant, state };
        let found = self.tx.view().await?.findings_page(filter, before, limit.saturating_add(1)).await?;
        let page = Page::cut(found, limit, |finding| finding.id);
        let selection = [
            ("state", state.map(|state| state.as_str().into())),
            ("tenantId", asked.map(|tenant| tenant.get().into())),
        ];
        let action = Action::read("reconciliation.findings", selection);
        action.record(&self.tx, &operator, tenant, count(page.items.len())).await?;
        Ok(page)
    }

    /// Acknowledges an open finding, with the reason, and records it in the audit log: it is not counted any more. A finding
    /// of another tenant is not found. A finding that is not open stays as it is and is returned.
    pub async fn acknowledge_finding(
        &self,
        call: impl Into<Call<'_, Numbered<RecordedFinding>>>,
        id: i64,
        reason: Reason,
    ) -> Result<Numbered<RecordedFinding>, UseCaseError> {
        let call = call.into();
        let operator = call.context.operator()?;
        let visible = operator.only_tenant();
        let at = self.tx.now();
        let by = AcknowledgedBy { operator: operator.name.clone(), reason: reason.as_str().to_owned(), at };
        let selection = present_fields([("findingId", Some(id.into()))]);
        let action = Action { name: "reconciliation.finding.acknowledge", selection, reason: Some(reason) };
        let entry = action.entry(&operator, (1, 1), at);
        call.run(&self.tx, (by, entry), move |unit, (by, entry), attempt| {
            Box::pin(async move {
                let not_found = || UseCaseError::NotFound { what: "finding" };
                let found = unit.finding_by_id(id).await?.ok_or_else(not_found)?;
                if visible.is_some_and(|tenant| found.effect.tenant != Some(tenant)) {
                    return Err(not_found());
                }
                let tenant = found.effect.tenant.unwrap_or(entry.tenant);
                let entry = AuditEntry { tenant, matched: 1, ..entry.clone() };
                let acknowledged = found.effect.acknowledged(by.clone());
                if changed_by_earlier_attempt(unit.outbox(), attempt, &entry).await?.is_none() {
                    let changed = u64::from(acknowledged.is_some());
                    unit.outbox().audit(&AuditEntry { changed, ..entry }).await?;
                }
                if let Some(after) = acknowledged {
                    unit.advance_finding(id, &after).await?.or_conflict("reconciliation finding")?;
                }
                unit.finding_by_id(id).await?.ok_or_else(not_found)
            })
        })
        .await
    }
}
