//! Leader leases and the records of periodic jobs.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::ports::{
    CandidateId, Changed, JobQueries, JobRecord, JobRepo, LeaderLease, LeaderRepo, Leadership, RunResult,
    StoreError,
};

use crate::session::Session;
use crate::table::{Table as _, table};
use crate::value::{Value, values};

table! {
    LeaderTable("outbox_leaders" by "name"), read row as LeaderLease, write lease as &'a LeaderLease;
    insert { name: string("name" = &lease.name) }
    update {
        leader: (row.opt_string("leader").map(|leader| leader.map(CandidateId)))(
            "leader" = lease.leader.as_ref().map(|leader| leader.0.as_str())
        ),
        epoch: int("epoch" = lease.epoch),
        lease_until: opt_time("lease_until" = lease.lease_until),
    }
}

table! {
    JobTable("outbox_jobs" by "job"), read row as JobRecord, write record as &'a JobRecord;
    insert { job: string("job" = &record.job) }
    update {
        last_run: time("last_run_time" = record.last_run),
        last_success: opt_time("last_success_time" = record.last_success),
        behind_since: opt_time("behind_since_time" = record.behind_since),
        interval: (row.opt_int("interval_ms").map(|ms| ms.map(|ms| Duration::from_millis(ms.unsigned_abs()))))(
            "interval_ms" = record.interval.map(milliseconds)
        ),
    }
}

fn milliseconds(interval: Duration) -> i64 {
    i64::try_from(interval.as_millis()).unwrap_or(i64::MAX)
}

impl Session {
    /// Updates the lease if this leader still owns it at its epoch.
    async fn update_own_lease(
        &mut self,
        set: &str,
        until: Option<DateTime<Utc>>,
        leadership: &Leadership,
    ) -> Result<Changed, StoreError> {
        let sql = format!("UPDATE outbox_leaders SET {set} WHERE name = ? AND leader = ? AND epoch = ?");
        let values = values![Value::Time(until), &leadership.name, &leadership.leader.0, leadership.epoch];
        Ok(Changed::of(self.execute(&sql, values).await?))
    }
}

#[async_trait]
impl JobQueries for Session {
    async fn leader_lease(&mut self, name: &str) -> Result<LeaderLease, StoreError> {
        let sql = format!("SELECT {} FROM outbox_leaders WHERE name = ?", LeaderTable::COLUMNS);
        let row = self.fetch_one(&sql, values![name]).await?;
        row.as_ref().map_or_else(|| Ok(LeaderLease::unused(name)), LeaderTable::read)
    }

    async fn job_records(&mut self) -> Result<Vec<JobRecord>, StoreError> {
        let sql = format!("SELECT {} FROM outbox_jobs ORDER BY job", JobTable::COLUMNS);
        self.fetch(&sql, Vec::new()).await?.iter().map(JobTable::read).collect()
    }
}

#[async_trait]
impl LeaderRepo for Session {
    async fn acquire_leadership(
        &mut self,
        candidate: &CandidateId,
        seen: &LeaderLease,
        for_ms: u32,
    ) -> Result<Changed, StoreError> {
        if seen.epoch == 0 {
            // The row may not exist yet. The upsert does not change an existing row.
            let after = self.dialect.or_replace("name", &["name"]);
            let unused = LeaderTable::values(&LeaderLease::unused(&seen.name));
            self.insert_into::<LeaderTable>(unused, &after).await?;
        }
        let (_, until) = self.now_and(for_ms).await?;
        let mut values = values![&candidate.0, until, &seen.name, seen.epoch];
        // A changed epoch means that a candidate acquired the lease in the meantime; a changed `lease_until` means that
        // the leader renewed or released it.
        let lease = match seen.lease_until {
            Some(seen_until) => {
                values.push(seen_until.into());
                "lease_until = ?"
            }
            None => "lease_until IS NULL",
        };
        let sql = format!(
            "UPDATE outbox_leaders SET leader = ?, epoch = epoch + 1, lease_until = ? \
             WHERE name = ? AND epoch = ? AND {lease}"
        );
        Ok(Changed::of(self.execute(&sql, values).await?))
    }

    async fn renew_leadership(
        &mut self,
        leadership: &Leadership,
        for_ms: u32,
    ) -> Result<Changed, StoreError> {
        let (_, until) = self.now_and(for_ms).await?;
        self.update_own_lease("lease_until = ?", Some(until), leadership).await
    }

    async fn release_leadership(&mut self, leadership: &Leadership) -> Result<(), StoreError> {
        self.update_own_lease("leader = NULL, lease_until = ?", None, leadership).await.map(drop)
    }

    async fn fence_leader(&mut self, leadership: &Leadership) -> Result<bool, StoreError> {
        let sql = format!(
            "SELECT {} FROM outbox_leaders WHERE name = ? {}",
            LeaderTable::COLUMNS,
            self.dialect.for_update()
        );
        let row = self.fetch_one(&sql, values![&leadership.name]).await?;
        let found = row.as_ref().map(LeaderTable::read).transpose()?;
        Ok(found.is_some_and(|found| {
            found.leader.as_ref() == Some(&leadership.leader) && found.epoch == leadership.epoch
        }))
    }
}

#[async_trait]
impl JobRepo for Session {
    async fn record_run(
        &mut self,
        job: &str,
        at: DateTime<Utc>,
        result: RunResult,
        interval: Duration,
    ) -> Result<(), StoreError> {
        let (last_success, changed) = match result {
            RunResult::Success => (Some(at), JobTable::UPDATED),
            RunResult::WorkLeft => (Some(at), &["last_run_time", "last_success_time", "interval_ms"][..]),
            RunResult::Failure => (None, &["last_run_time", "interval_ms"][..]),
        };
        let (job, interval) = (job.to_owned(), Some(interval));
        let record = JobRecord { job, last_run: at, last_success, behind_since: None, interval };
        let after = self.dialect.or_replace(JobTable::KEY, changed);
        self.insert_into::<JobTable>(JobTable::values(&record), &after).await?;
        if result == RunResult::WorkLeft {
            let sql =
                "UPDATE outbox_jobs SET behind_since_time = ? WHERE job = ? AND behind_since_time IS NULL";
            self.execute(sql, values![at, &record.job]).await?;
        }
        Ok(())
    }
}
