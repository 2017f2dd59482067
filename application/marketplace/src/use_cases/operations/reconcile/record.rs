//! Records the findings of a run, and resolves recorded ones that the run compared and did not find.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use handover_outbox::with_tx;
use marketplace_domain::{FindingKind, FindingState, InvoiceId, ObservedFinding, OrderId, RecordedFinding};
use tracing::warn;

use super::coverage::{Coverage, OrderKey};
use super::findings::Finding;
use crate::consistency::ReadableOrders;
use crate::ports::{FindingFilter, Work};
use crate::use_cases::operations::Operations;

/// Findings per unit of work.
const BATCH: usize = 100;

/// Recorded findings per page.
const PAGE: u32 = 200;

/// Number of the newest open, and of the newest acknowledged findings whose orders are compared again.
const MAX_RECHECKED: usize = 10_000;

impl Operations {
    /// Records findings of a run that began at `at`, and logs those that are repaired or newly open.
    pub(super) async fn record_findings(
        &self,
        findings: &[Finding],
        at: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        // Sorted, so that concurrent runs lock the rows in the same sequence. An order that changed during the run was
        // compared more than once; the last comparison counts.
        let now = self.tx.now();
        let observed = findings.iter().map(|finding| finding.observed(at, now));
        let by_subject: BTreeMap<_, ObservedFinding> =
            observed.map(|seen| ((seen.tenant, seen.kind, seen.subject.clone()), seen)).collect();
        let observed: Vec<ObservedFinding> = by_subject.into_values().collect();
        for batch in observed.chunks(BATCH) {
            let opened = with_tx(&self.tx, batch.to_vec(), |unit, batch, _| {
                Box::pin(async move {
                    let mut opened = Vec::new();
                    for seen in batch {
                        if record(unit, seen).await? {
                            opened.push(seen.clone());
                        }
                    }
                    Ok::<_, StoreError>(opened)
                })
            })
            .await?;
            for ObservedFinding { tenant, kind, subject, order, detail, .. } in opened {
                let order = order.map(|order| order.to_string());
                warn!(code = "consistency.finding-opened", %kind, subject, tenantId = ?tenant.map(TenantId::get), orderId = order, detail,
                    "[OrderAssetConsistency] [ALERT] finding opened; see `handover reconcile findings`");
            }
        }
        Ok(())
    }

    /// The orders and the ids of the invoices of unresolved findings that did not change within the window. A run that
    /// compares them as well sees whether these findings still exist.
    pub(super) async fn subjects_of_findings(
        &self,
        tenant: Option<TenantId>,
        coverage: &mut Coverage,
    ) -> Result<(Vec<OrderKey>, BTreeSet<InvoiceId>), StoreError> {
        let mut ids: BTreeMap<TenantId, BTreeSet<OrderId>> = BTreeMap::new();
        let mut invoices = BTreeSet::new();
        for state in [FindingState::Open, FindingState::Acknowledged] {
            let filter = FindingFilter { tenant, state: Some(state) };
            let mut before = None;
            let mut read = 0;
            while read < MAX_RECHECKED {
                let page = self.tx.view().await?.findings_page(filter, before, PAGE).await?;
                let Some(last) = page.last() else { break };
                before = Some(last.id);
                read += page.len();
                for finding in page.into_iter().map(|it| it.effect) {
                    invoices.extend(invoice_of(&finding));
                    if let (Some(tenant), Some(order)) = (finding.tenant, finding.order) {
                        ids.entry(tenant).or_default().insert(order);
                    }
                }
            }
        }
        let mut found = BTreeSet::new();
        for (tenant, ids) in ids {
            let ids: Vec<OrderId> = ids.into_iter().collect();
            for ids in ids.chunks(BATCH) {
                let mut view = self.tx.view().await?;
                let ReadableOrders { orders, unreadable } =
                    ReadableOrders::read(view.as_mut(), tenant, ids).await?;
                let others = orders.iter().filter(|order| !coverage.is_in_window(order));
                found.extend(others.map(|order| (tenant, order.id)));
                found.extend(unreadable.iter().map(|(id, _)| (tenant, *id)));
            }
        }
        // Unreadable orders of the window are findings already.
        let orders: Vec<OrderKey> = found.difference(&coverage.unreadable).copied().collect();
        coverage.orders = found;
        Ok((orders, invoices))
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

/// The invoice that the finding is about.
fn invoice_of(finding: &RecordedFinding) -> Option<InvoiceId> {
    // A missing event or operation is about an invoice if the finding has a row, and otherwise about an order.
    let kinds = [FindingKind::InvoiceDiffers, FindingKind::MissingEvent, FindingKind::NotBooked];
    finding.row_id.filter(|_| kinds.contains(&finding.kind)).and_then(|id| InvoiceId::try_from(id).ok())
}

/// Records a finding. Returns whether it is open now and was not before.
async fn record(unit: &mut Work, seen: &ObservedFinding) -> Result<bool, StoreError> {
    let Some(found) = unit.finding_by_subject(seen.tenant, seen.kind, &seen.subject).await? else {
        let new = RecordedFinding::new(seen.clone());
        unit.insert_finding(&new).await?;
        return Ok(new.state == FindingState::Open);
    };
    let Some(after) = found.effect.seen_again(seen) else { return Ok(false) };
    unit.advance_finding(found.id, &after).await?.or_conflict("reconciliation finding")?;
    Ok(after.state == FindingState::Open && !found.effect.state.is_unresolved())
}
