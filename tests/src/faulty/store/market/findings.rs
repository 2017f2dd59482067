//! Faults of the recorded findings of reconciliations.

use handover_events::TenantId;
use handover_outbox::ports::*;
use marketplace::ports::*;
use marketplace_domain::*;

use super::super::{Fault, Faulty, Unit, Wraps};

impl<U: MarketView + ?Sized> FindingQueriesWrapper for Faulty<U> {
    async fn findings_page(
        &mut self,
        filter: FindingFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<RecordedFinding>>, StoreError> {
        let mut filter = filter;
        if self.has(Fault::FindingsLeakToOtherTenants) {
            filter.tenant = None;
        }
        let before = self.first_below(before);
        self.inner().findings_page(filter, before, limit).await
    }

    async fn subjects_of_open_findings(
        &mut self,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<FindingSubject>>, StoreError> {
        let before = self.first_below(before);
        self.inner().subjects_of_open_findings(before, limit).await
    }

    async fn open_findings(&mut self) -> Result<Vec<(FindingKind, u64)>, StoreError> {
        if !self.has(Fault::AcknowledgedFindingsAreCounted) {
            return self.inner().open_findings().await;
        }
        let all = self.inner().findings_page(FindingFilter::default(), None, 1_000).await?;
        let is_counted = |kind: FindingKind| {
            move |found: &&Numbered<RecordedFinding>| {
                found.effect.kind == kind && found.effect.state.is_unresolved()
            }
        };
        let counts = FindingKind::ALL.iter().map(|kind| {
            let count = all.iter().filter(is_counted(*kind)).count();
            (*kind, u64::try_from(count).unwrap_or(u64::MAX))
        });
        Ok(counts.filter(|(_, count)| *count > 0).collect())
    }
}

impl FindingRepoWrapper for Unit {
    async fn insert_finding(&mut self, finding: &RecordedFinding) -> Result<(), StoreError> {
        if self.has(Fault::TakenFindingSubjectsAreIgnored) {
            self.serialize().await;
            let RecordedFinding { tenant, kind, subject, .. } = finding;
            if self.inner().finding_by_subject(*tenant, *kind, subject).await?.is_some() {
                return Ok(());
            }
        }
        if self.has(Fault::FindingsWithoutTenantHaveDefaultTenant) && finding.tenant.is_none() {
            let finding = RecordedFinding { tenant: Some(TenantId::DEFAULT), ..finding.clone() };
            return self.inner().insert_finding(&finding).await;
        }
        self.inner().insert_finding(finding).await
    }

    async fn advance_finding(&mut self, id: i64, after: &RecordedFinding) -> Result<Changed, StoreError> {
        if self.has(Fault::FindingsAdvanceFromAnyVersion) {
            self.serialize().await;
            if let Some(found) = self.inner().finding_by_id(id).await? {
                let version = found.effect.version + 1;
                let after = RecordedFinding { version, ..after.clone() };
                return self.inner().advance_finding(id, &after).await;
            }
        }
        self.inner().advance_finding(id, after).await
    }
}
