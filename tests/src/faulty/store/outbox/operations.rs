//! Faults of dead letters, history and the audit log.

use std::collections::BTreeSet;

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{EventId, TenantId};
use handover_outbox::ports::*;
use marketplace::ports::*;

use super::super::{Fault, Faulty, Unit, Wraps};

impl<U: MarketView + ?Sized> DeadLetterQueriesWrapper for Faulty<U> {
    async fn dead_letters_page(
        &mut self,
        filter: &DeadLetterFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<DeadLetter>>, StoreError> {
        let mut filter = filter.clone();
        if self.has(Fault::DeadLetterPagesIgnoreStatus) {
            filter.status = None;
        }
        if self.has(Fault::PagesIgnoreLowestId) {
            filter.above_id = None;
        }
        if self.has(Fault::PagesIgnoreTimes) {
            filter.from = None;
            filter.to = None;
        }
        let before = self.first_below(before);
        self.inner().outbox_view().dead_letters_page(&filter, before, limit).await
    }

    async fn dead_letters_after(
        &mut self,
        filter: &DeadLetterFilter,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<DeadLetter>>, StoreError> {
        let status = filter.status.filter(|_| !self.has(Fault::DeadLetterPagesIgnoreStatus));
        let filter = DeadLetterFilter { status, ..filter.clone() };
        self.inner().outbox_view().dead_letters_after(&filter, after, limit).await
    }

    async fn dead_letters_of(&mut self, keys: &[String]) -> Result<Vec<DeadLetter>, StoreError> {
        let mut found = self.inner().outbox_view().dead_letters_of(keys).await?;
        if self.has(Fault::DeadLettersOfKeyIncludeOneQueueOnly) {
            let mut seen = BTreeSet::new();
            found.retain(|dead_letter| seen.insert(dead_letter.key.clone()));
        }
        Ok(found)
    }

    async fn undecided_dead_letters(
        &mut self,
        tenant: Option<TenantId>,
    ) -> Result<Vec<(String, u64)>, StoreError> {
        let tenant = if self.has(Fault::CountsIncludeAllTenants) { None } else { tenant };
        self.inner().outbox_view().undecided_dead_letters(tenant).await
    }
}

impl DeadLetterRepoWrapper for Unit {
    async fn park(&mut self, dead_letters: &[DeadLetter]) -> Result<(), StoreError> {
        if self.has(Fault::DeadLettersAreParkedOutsideUnit) {
            let mut own = self.shared.inner.begin().await?;
            own.outbox().park(dead_letters).await?;
            return own.commit().await;
        }
        if self.has(Fault::ParkRefusesNul)
            && dead_letters.iter().any(|dead_letter| dead_letter.body.contains('\0'))
        {
            return Err(StoreError::Backend("invalid byte sequence for encoding \"UTF8\": 0x00".into()));
        }
        let mut parked = dead_letters.to_vec();
        if self.has(Fault::ParkIgnoresDeadLetterBeingReplayed) {
            parked.clear();
            for dead_letter in dead_letters {
                let now = self.inner().outbox().dead_letter(&dead_letter.queue, &dead_letter.key).await?;
                if now.is_none_or(|now| now.status != DeadLetterStatus::Replaying) {
                    parked.push(dead_letter.clone());
                }
            }
        }
        self.inner().outbox().park(&parked).await
    }

    async fn decide(&mut self, decision: &Decision) -> Result<Changed, StoreError> {
        let mut decision = decision.clone();
        if self.has(Fault::DecideIgnoresStatus) {
            decision.from = DeadLetterStatus::ALL.to_vec();
        }
        if self.has(Fault::DecideClearsNote) {
            decision.note = Some(decision.note.unwrap_or_default());
        }
        self.inner().outbox().decide(&decision).await
    }
}

impl<U: MarketView + ?Sized> HistoryQueriesWrapper for Faulty<U> {
    async fn history_of(&mut self, events: &[EventId]) -> Result<Vec<HistoryEntry>, StoreError> {
        let mut found = self.inner().outbox_view().history_of(events).await?;
        if self.has(Fault::HistoryIsSortedByTime) {
            found.sort_by_key(|entry| entry.at);
        }
        Ok(found)
    }
}

impl HistoryRepoWrapper for Unit {
    async fn add_history(&mut self, entries: &[HistoryEntry]) -> Result<(), StoreError> {
        if self.has(Fault::HistoryIsDeduplicated) {
            let events: Vec<EventId> = entries.iter().map(|entry| entry.event_id.clone()).collect();
            let existing = self.inner().outbox().history_of(&events).await?;
            let new: Vec<HistoryEntry> =
                entries.iter().filter(|it| !existing.contains(it)).cloned().collect();
            return self.inner().outbox().add_history(&new).await;
        }
        if !self.has(Fault::HistoryIsWrittenOutsideUnit) {
            return self.inner().outbox().add_history(entries).await;
        }
        let mut own = self.shared.inner.begin().await?;
        own.outbox().add_history(entries).await?;
        own.commit().await
    }
}

impl<U: MarketView + ?Sized> AuditQueriesWrapper for Faulty<U> {
    async fn audit_page(
        &mut self,
        filter: &AuditFilter,
        before: Option<i64>,
        limit: u32,
    ) -> Result<Vec<Numbered<AuditEntry>>, StoreError> {
        let mut filter = filter.clone();
        if self.has(Fault::AuditLeaksToOtherTenants) {
            filter.tenant = None;
        }
        if self.has(Fault::AuditChangesIncludeReads) {
            filter.changes = false;
        }
        if self.has(Fault::PagesIgnoreLowestId) {
            filter.above_id = None;
        }
        if self.has(Fault::PagesIgnoreTimes) {
            filter.from = None;
            filter.to = None;
        }
        let before = self.first_below(before);
        self.inner().outbox_view().audit_page(&filter, before, limit).await
    }
}

impl AuditRepoWrapper for Unit {
    async fn audit(&mut self, entry: &AuditEntry) -> Result<(), StoreError> {
        if !self.has(Fault::AuditIsWrittenOutsideUnit) {
            return self.inner().outbox().audit(entry).await;
        }
        let mut own = self.shared.inner.begin().await?;
        own.outbox().audit(entry).await?;
        own.commit().await
    }

    async fn delete_audit_reads(&mut self, before: DateTime<Utc>, limit: u32) -> Result<u64, StoreError> {
        let limit = if self.has(Fault::OldAuditReadsIgnoreTheLimit) { u32::MAX } else { limit };
        let age = TimeDelta::days(if self.has(Fault::OldAuditReadsIncludeYoungOnes) { 1 } else { 0 });
        self.inner().outbox().delete_audit_reads(before + age, limit).await
    }
}
