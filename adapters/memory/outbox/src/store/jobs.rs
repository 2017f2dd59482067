//! Leader leases and the records of periodic jobs.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::ports::{
    CandidateId, Changed, JobQueries, JobRecord, JobRepo, LeaderLease, LeaderRepo, Leadership, RunResult,
    StoreError,
};

use super::leases::in_ms;
use super::locks::Lock;
use super::outbox_tables::{OutboxRows as _, OutboxTables, Statement};
use super::statement::Tables;
use super::tables::Row;
use super::unit::MemoryUnit;

impl Row<OutboxTables> for LeaderLease {
    type Key = String;
    type Index = ();

    fn key(&self) -> String {
        self.name.clone()
    }
}

impl Row<OutboxTables> for JobRecord {
    type Key = String;
    type Index = ();

    fn key(&self) -> String {
        self.job.clone()
    }
}

/// The lease of this leadership, if the leader still owns it at its epoch.
fn current_lease(statement: &Statement<'_>, leadership: &Leadership) -> Option<LeaderLease> {
    let lease = statement.leaders().get(&leadership.name)?;
    let is_current = lease.leader.as_ref() == Some(&leadership.leader) && lease.epoch == leadership.epoch;
    is_current.then(|| lease.clone())
}

#[async_trait]
impl<X: Tables> JobQueries for MemoryUnit<X> {
    async fn leader_lease(&mut self, name: &str) -> Result<LeaderLease, StoreError> {
        self.read_outbox(|statement| {
            let lease = statement.leaders().get(&name.to_owned()).cloned();
            lease.unwrap_or_else(|| LeaderLease::unused(name))
        })
        .await
    }

    async fn job_records(&mut self) -> Result<Vec<JobRecord>, StoreError> {
        self.read_outbox(|statement| statement.jobs().all().cloned().collect()).await
    }
}

#[async_trait]
impl<X: Tables> LeaderRepo for MemoryUnit<X> {
    async fn acquire_leadership(
        &mut self,
        candidate: &CandidateId,
        seen: &LeaderLease,
        for_ms: u32,
    ) -> Result<Changed, StoreError> {
        self.write_outbox(vec![Lock::Leader(seen.name.clone())], |statement| {
            let current = statement.leaders().get(&seen.name).cloned();
            let current = current.unwrap_or_else(|| LeaderLease::unused(&seen.name));
            if current.epoch != seen.epoch || current.lease_until != seen.lease_until {
                return Ok(Changed::None);
            }
            let lease_until = Some(in_ms(statement, for_ms));
            let leader = Some(candidate.clone());
            let epoch = seen.epoch + 1;
            statement.own.leaders.put(LeaderLease { leader, epoch, lease_until, ..current });
            Ok(Changed::One)
        })
        .await
    }

    async fn renew_leadership(
        &mut self,
        leadership: &Leadership,
        for_ms: u32,
    ) -> Result<Changed, StoreError> {
        self.write_outbox(vec![Lock::Leader(leadership.name.clone())], |statement| {
            let Some(lease) = current_lease(statement, leadership) else { return Ok(Changed::None) };
            let lease_until = Some(in_ms(statement, for_ms));
            statement.own.leaders.put(LeaderLease { lease_until, ..lease });
            Ok(Changed::One)
        })
        .await
    }

    async fn release_leadership(&mut self, leadership: &Leadership) -> Result<(), StoreError> {
        self.write_outbox(vec![Lock::Leader(leadership.name.clone())], |statement| {
            if let Some(lease) = current_lease(statement, leadership) {
                statement.own.leaders.put(LeaderLease { leader: None, lease_until: None, ..lease });
            }
            Ok(())
        })
        .await
    }

    async fn fence_leader(&mut self, leadership: &Leadership) -> Result<bool, StoreError> {
        self.write_outbox(vec![Lock::Leader(leadership.name.clone())], |statement| {
            Ok(current_lease(statement, leadership).is_some())
        })
        .await
    }
}

#[async_trait]
impl<X: Tables> JobRepo for MemoryUnit<X> {
    async fn record_run(
        &mut self,
        job: &str,
        at: DateTime<Utc>,
        result: RunResult,
        interval: Duration,
    ) -> Result<(), StoreError> {
        self.write_outbox(vec![Lock::Job(job.to_owned())], |statement| {
            let before = statement.jobs().get(&job.to_owned());
            let behind_since = before.and_then(|row| row.behind_since);
            let (last_success, behind_since) = match result {
                RunResult::Success => (Some(at), None),
                RunResult::WorkLeft => (Some(at), behind_since.or(Some(at))),
                RunResult::Failure => (before.and_then(|row| row.last_success), behind_since),
            };
            // As the column, in milliseconds.
            let interval =
                Some(Duration::from_millis(u64::try_from(interval.as_millis()).unwrap_or(u64::MAX)));
            let job = job.to_owned();
            statement.own.jobs.put(JobRecord { job, last_run: at, last_success, behind_since, interval });
            Ok(())
        })
        .await
    }
}
