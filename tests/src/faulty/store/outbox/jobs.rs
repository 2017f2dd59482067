//! Faults of leader leases and of the records of jobs.

use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_outbox::ports::*;
use marketplace::ports::*;

use super::super::{Fault, Faulty, Unit, Wraps};

impl<U: MarketView + ?Sized> Faulty<U> {
    pub(super) fn stored_name(&self, name: &str, fault: Fault) -> String {
        if self.has(fault) { name.to_lowercase() } else { name.to_owned() }
    }
}

impl<U: MarketView + ?Sized> JobQueriesWrapper for Faulty<U> {
    async fn leader_lease(&mut self, name: &str) -> Result<LeaderLease, StoreError> {
        let stored = self.stored_name(name, Fault::LeaderNamesIgnoreCase);
        let lease = self.inner().outbox_view().leader_lease(&stored).await?;
        Ok(LeaderLease { name: name.to_owned(), ..lease })
    }

    async fn job_records(&mut self) -> Result<Vec<JobRecord>, StoreError> {
        let mut records = self.inner().outbox_view().job_records().await?;
        if self.has(Fault::JobRecordsAreSortedByTime) {
            records.sort_by_key(|record| record.last_run);
        }
        if self.has(Fault::FailedRunsClearLastSuccess) {
            for record in &mut records {
                record.last_success = record.last_success.filter(|at| *at == record.last_run);
            }
        }
        if self.has(Fault::JobsAreBehindSinceTheirLastRun) {
            for record in &mut records {
                record.behind_since = record.behind_since.map(|_| record.last_run);
            }
        }
        if self.has(Fault::JobIntervalsAreLost) {
            records.iter_mut().for_each(|record| record.interval = None);
        }
        Ok(records)
    }
}

impl Unit {
    fn stored_leadership(&self, leadership: &Leadership) -> Leadership {
        let name = self.stored_name(&leadership.name, Fault::LeaderNamesIgnoreCase);
        Leadership { name, ..leadership.clone() }
    }

    fn lease_ms(&self, for_ms: u32) -> u32 {
        if self.has(Fault::LeaderLeasesAreTooLong) { 2 * for_ms } else { for_ms }
    }

    async fn is_leader(&mut self, leadership: &Leadership) -> Result<bool, StoreError> {
        let lease = self.inner().outbox().leader_lease(&leadership.name).await?;
        Ok(lease.leader.as_ref() == Some(&leadership.leader) && lease.epoch == leadership.epoch)
    }
}

impl LeaderRepoWrapper for Unit {
    async fn acquire_leadership(
        &mut self,
        candidate: &CandidateId,
        seen: &LeaderLease,
        for_ms: u32,
    ) -> Result<Changed, StoreError> {
        let name = self.stored_name(&seen.name, Fault::LeaderNamesIgnoreCase);
        let seen = LeaderLease { name, ..seen.clone() };
        let for_ms = self.lease_ms(for_ms);
        let mut changed = self.inner().outbox().acquire_leadership(candidate, &seen, for_ms).await?;
        while self.has(Fault::LeadersAreTakenUnseen) && changed == Changed::None {
            let current = self.inner().outbox().leader_lease(&seen.name).await?;
            changed = self.inner().outbox().acquire_leadership(candidate, &current, for_ms).await?;
        }
        Ok(changed)
    }

    async fn renew_leadership(
        &mut self,
        leadership: &Leadership,
        for_ms: u32,
    ) -> Result<Changed, StoreError> {
        if self.has(Fault::LeaderRenewalsAreLost) {
            return Ok(Changed::One);
        }
        let leadership = self.stored_leadership(leadership);
        if self.has(Fault::EndedLeadersAreNotRenewed) {
            let now = self.inner().outbox().database_now().await?;
            let lease = self.inner().outbox().leader_lease(&leadership.name).await?;
            if lease.lease_until.is_none_or(|until| until <= now) {
                return Ok(Changed::None);
            }
        }
        let for_ms = self.lease_ms(for_ms);
        let changed = self.inner().outbox().renew_leadership(&leadership, for_ms).await?;
        Ok(if self.has(Fault::LostLeadersRenew) { Changed::One } else { changed })
    }

    async fn release_leadership(&mut self, leadership: &Leadership) -> Result<(), StoreError> {
        if self.has(Fault::LeadersAreNotReleased) {
            return Ok(());
        }
        let leadership = self.stored_leadership(leadership);
        self.inner().outbox().release_leadership(&leadership).await
    }

    async fn fence_leader(&mut self, leadership: &Leadership) -> Result<bool, StoreError> {
        let leadership = self.stored_leadership(leadership);
        if self.has(Fault::LeaderFenceAlwaysSucceeds) {
            return Ok(true);
        }
        if self.has(Fault::LeaderFenceTakesNoLock) {
            return self.is_leader(&leadership).await;
        }
        self.inner().outbox().fence_leader(&leadership).await
    }
}

impl JobRepoWrapper for Unit {
    async fn record_run(
        &mut self,
        job: &str,
        at: DateTime<Utc>,
        result: RunResult,
        interval: Duration,
    ) -> Result<(), StoreError> {
        let job = self.stored_name(job, Fault::JobNamesIgnoreCase);
        self.inner().outbox().record_run(&job, at, result, interval).await
    }
}
