//! Records the findings of a run, and resolves recorded ones that the run compared and did not find.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use handover_outbox::with_tx;
use marketplace_domain::{FindingState, ObservedFinding, RecordedFinding};

use super::coverage::Coverage;
use super::findings::Finding;
use crate::ports::{FindingFilter, Work};
use crate::use_cases::operations::Operations;

/// Findings per unit of work.
const BATCH: usize = 100;

/// Recorded findings per page.
const PAGE: u32 = 200;

impl Operations {
    /// Records the findings of a run that began at `at`.
    pub(super) async fn record_findings(
        &self,
        findings: &[Finding],
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        // Sorted, so that concurrent runs lock the rows in the same sequence. An order that changed during the run was
        // compared more than once; the last comparison counts.
        let observed = findings.iter().map(|finding| finding.observed(at));
        let by_subject: BTreeMap<_, ObservedFinding> =
            observed.map(|seen| ((seen.tenant, seen.kind, seen.subject.clone()), seen)).collect();
        let observed: Vec<ObservedFinding> = by_subject.into_values().collect();
        for batch in observed.chunks(BATCH) {
            with_tx(&self.tx, batch.to_vec(), |unit, batch, _| {
                Box::pin(async move {
                    for seen in batch {
                        record(unit, seen).await?;
                    }
                    Ok::<_, StoreError>(())
                })
            })
            .await?;
        }
        Ok(())
    }

    /// Resolves the recorded findings of the tenant that the run covered and did not see.
    pub(super) async fn resolve_findings(
        &self,
        tenant: Option<TenantId>,
        coverage: &Coverage,
    ) -> Result<(), StoreError> {
        for state in [FindingState::Open, FindingState::Acknowledged] {
            let filter = FindingFilter { tenant, state: Some(state) };
            let mut before = None;
            loop {
                let mut view = self.tx.view().await?;
                let mut page = view.findings_page(filter, before, PAGE).await?;
                let Some(last) = page.last() else { break };
                before = Some(last.id);
                page.retain(|finding| finding.effect.last_seen < coverage.began);
                let covered = coverage.covered(view.as_mut(), &page).await?;
                // Release the view before a unit of work begins: a task uses at most one connection of the store.
                drop(view);
                if !covered.is_empty() {
                    self.resolve(covered, coverage.began).await?;
                }
            }
        }
        Ok(())
    }

    async fn resolve(&self, ids: Vec<i64>, at: DateTime<Utc>) -> Result<(), StoreError> {
        with_tx(&self.tx, ids, move |unit, ids, _| {
            Box::pin(async move {
                for id in ids {
                    let Some(found) = unit.finding_by_id(*id).await? else { continue };
                    if let Some(after) = found.effect.resolved(at) {
                        unit.advance_finding(*id, &after).await?.or_conflict("reconciliation finding")?;
                    }
                }
                Ok(())
            })
        })
        .await
    }
}

async fn record(unit: &mut Work, seen: &ObservedFinding) -> Result<(), StoreError> {
    match unit.finding_by_subject(seen.tenant, seen.kind, &seen.subject).await? {
        None => unit.insert_finding(&RecordedFinding::new(seen.clone())).await,
        Some(found) => match found.effect.seen_again(seen) {
            Some(after) => {
                unit.advance_finding(found.id, &after).await?.or_conflict("reconciliation finding")
            }
            None => Ok(()),
        },
    }
}
