//! Recorded findings of reconciliations.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use async_trait::async_trait;
use handover_events::TenantId;
use handover_memory::store::statement::next;
use handover_memory::store::tables::{Row, rows_below};
use handover_memory::store::{conflict, limited};
use handover_outbox::ports::{Changed, Numbered, StoreError};
use marketplace::ports::{FindingFilter, FindingQueries, FindingRepo, FindingSubject};
use marketplace_domain::{FindingKind, FindingState, RecordedFinding};

use crate::tables::{Lock, Market, MarketRows as _, Statement};
use crate::unit::MarketUnit;

type Subject = (Option<TenantId>, FindingKind, String);

#[derive(Default)]
pub(crate) struct FindingIndex {
    by_subject: BTreeMap<Subject, i64>,
}

impl Row<Market> for Numbered<RecordedFinding> {
    type Key = i64;
    type Index = FindingIndex;

    fn key(&self) -> i64 {
        self.id
    }

    fn enter(&self, index: &mut FindingIndex) {
        index.by_subject.insert(subject_of(&self.effect), self.id);
    }
}

#[async_trait]
impl FindingQueries for MarketUnit {
    async fn finding_by_id(&mut self, id: i64) -> Result<Option<Numbered<RecordedFinding>>, StoreError> {
        self.read(|statement| statement.findings().get(&id).cloned()).await
    }

    async fn finding_by_subject(
        &mut self,
        tenant: Option<TenantId>,
        kind: FindingKind,
        subject: &str,
    ) -> Result<Option<Numbered<RecordedFinding>>, StoreError> {
        let subject = (tenant, kind, subject.to_owned());
        self.read(|statement| by_subject(statement, &subject).cloned()).await
    }

    async fn findings_page(
        &mut self,
        filter: FindingFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<RecordedFinding>>, StoreError> {
        self.read(|statement| {
            let rows = statement.findings();
            let newest_first =
                rows.select(|table| rows_below(table, before).map(|(id, row)| (Reverse(id), row)));
            let matching = newest_first.filter(|row| {
                filter.tenant.is_none_or(|tenant| row.effect.tenant == Some(tenant))
                    && filter.state.is_none_or(|state| row.effect.state == state)
            });
            matching.take(limited(limit)).cloned().collect()
        })
        .await
    }

    async fn subjects_of_open_findings(
        &mut self,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<FindingSubject>>, StoreError> {
        let filter = FindingFilter { tenant: None, state: Some(FindingState::Open) };
        let page = self.findings_page(filter, before, limit).await?;
        let subject_of = |Numbered { id, effect }: Numbered<RecordedFinding>| {
            let RecordedFinding { tenant, subject, order, .. } = effect;
            Numbered { id, effect: FindingSubject { tenant, subject, order } }
        };
        Ok(page.into_iter().map(subject_of).collect())
    }

    async fn open_findings(&mut self) -> Result<Vec<(FindingKind, u64)>, StoreError> {
        self.read(|statement| {
            let rows = statement.findings();
            let all = rows.select(|table| rows_below(table, None).map(|(id, row)| (Reverse(id), row)));
            let mut counts: BTreeMap<FindingKind, u64> = BTreeMap::new();
            for row in all.filter(|row| row.effect.state == FindingState::Open) {
                *counts.entry(row.effect.kind).or_default() += 1;
            }
            counts.into_iter().collect()
        })
        .await
    }
}

#[async_trait]
impl FindingRepo for MarketUnit {
    async fn insert_finding(&mut self, finding: &RecordedFinding) -> Result<(), StoreError> {
        let subject = subject_of(finding);
        self.write(vec![lock(finding)], |statement| {
            if by_subject(statement, &subject).is_some() {
                return Err(conflict(format!("reconciliation_findings.subject {}", finding.subject)));
            }
            let id = next(&mut statement.sequences.findings);
            statement.own.findings.put(Numbered { id, effect: finding.clone() });
            Ok(())
        })
        .await
    }

    async fn advance_finding(&mut self, id: i64, after: &RecordedFinding) -> Result<Changed, StoreError> {
        let Some(found) = self.finding_by_id(id).await? else { return Ok(Changed::None) };
        self.write(vec![lock(&found.effect)], |statement| {
            let current = statement.findings().get(&id).map(|row| row.effect.clone());
            let Some(before) = current.filter(|row| row.version == after.version - 1) else {
                return Ok(Changed::None);
            };
            let RecordedFinding { tenant, kind, subject, first_seen, .. } = before;
            let effect = RecordedFinding { tenant, kind, subject, first_seen, ..after.clone() };
            statement.own.findings.put(Numbered { id, effect });
            Ok(Changed::One)
        })
        .await
    }
}

fn subject_of(finding: &RecordedFinding) -> Subject {
    (finding.tenant, finding.kind, finding.subject.clone())
}

pub(crate) fn lock(finding: &RecordedFinding) -> Lock {
    Lock::Finding(finding.tenant, finding.kind, finding.subject.clone())
}

fn by_subject<'s>(statement: &'s Statement<'_>, subject: &Subject) -> Option<&'s Numbered<RecordedFinding>> {
    let findings = statement.findings();
    findings
        .select(|table| {
            let id = table.index.by_subject.get(subject);
            id.and_then(|id| Some((*id, table.get(id)?))).into_iter()
        })
        .next()
}
