//! Leader leases and the records of periodic jobs.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::ports::{
    CandidateId, Changed, JobQueries, JobRecord, JobRepo, LeaderLease, LeaderRepo, Leadership, RunResult,
    StoreError,
};

use crate::row::Row;
use crate::session::Session;
use crate::value::{Value, values};

fn lease(row: &Row) -> Result<LeaderLease, StoreError> {
    let row = row.of("outbox_leaders", "name");
    Ok(LeaderLease {
        name: row.string("name")?,
        leader: row.opt_string("leader")?.map(CandidateId),
        epoch: row.int("epoch")?,
        lease_until: row.opt_time("lease_until")?,
    })
}

fn record(row: &Row) -> Result<JobRecord, StoreError> {
    let row = row.of("outbox_jobs", "job");
    Ok(JobRecord {
        job: row.string("job")?,
        last_run: row.time("last_run_time")?,
        last_success: row.opt_time("last_success_time")?,
    })
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
        let sql = "SELECT name, leader, epoch, lease_until FROM outbox_leaders WHERE name = ?";
        let row = self.fetch_one(sql, values![name]).await?;
        row.as_ref().map_or_else(|| Ok(LeaderLease::unused(name)), lease)
    }

    async fn job_records(&mut self) -> Result<Vec<JobRecord>, StoreError> {
        let sql = "SELECT job, last_run_time, last_success_time FROM outbox_jobs ORDER BY job";
        self.fetch(sql, Vec::new()).await?.iter().map(record).collect()
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
            self.insert("INSERT INTO outbox_leaders (name, epoch)", 2, values![&seen.name, 0i64], &after)
                .await?;
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
            "SELECT name, leader, epoch, lease_until FROM outbox_leaders WHERE name = ? {}",
            self.dialect.for_update()
        );
        let row = self.fetch_one(&sql, values![&leadership.name]).await?;
        let found = row.as_ref().map(lease).transpose()?;
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
    ) -> Result<(), StoreError> {
        let (success, changed): (_, &[&str]) = match result {
            RunResult::Success => (Some(at), &["last_run_time", "last_success_time"]),
            RunResult::Failure => (None, &["last_run_time"]),
        };
        let after = self.dialect.or_replace("job", changed);
        let into = "INSERT INTO outbox_jobs (job, last_run_time, last_success_time)";
        self.insert(into, 3, values![job, at, Value::Time(success)], &after).await?;
        Ok(())
    }
}
