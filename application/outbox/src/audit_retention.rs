//! The job of the leader that deletes audit entries of calls that only read. Entries of changes stay.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use tokio::time::Instant;
use tracing::info;

use crate::jobs::{Job, Leader, Periodic, Progress, RunBy};
use crate::outbox::Outbox;
use crate::ports::{Leadership, StoreError};
use crate::transaction::with_tx;

/// Interval of the job.
const INTERVAL: Duration = Duration::from_secs(3_600);
/// Name of the job.
const JOB: &str = "AuditRetention";
/// Number of entries that one unit of work deletes.
const BATCH: u32 = 500;
/// After each unit of work the job pauses for this multiple of the time that it took.
const PAUSE: u32 = 9;

/// Deletes old audit entries of calls that only read.
pub struct AuditRetention {
    outbox: Outbox,
    keep_reads: Duration,
}

impl AuditRetention {
    /// Shortest retention time. A database deletes no entry that is six days old or younger; the remaining day is for clocks that
    /// differ.
    pub const MIN: Duration = Duration::from_secs(7 * 86_400);

    /// The job: entries of reads stay for this time, at least [`AuditRetention::MIN`].
    pub fn new(outbox: &Outbox, keep_reads: Duration) -> AuditRetention {
        AuditRetention {
            outbox: outbox.for_background_tasks(),
            keep_reads: keep_reads.max(AuditRetention::MIN),
        }
    }

    /// Starts the job on the leader.
    pub fn start(self, leader: &Leader) {
        let tx = self.outbox.tx.clone();
        Periodic::new(JOB, INTERVAL, RunBy::Leader(leader.clone())).start(&tx, self);
    }

    /// Deletes the entries of reads from before this time. Returns their number.
    async fn delete(&self, before: DateTime<Utc>) -> Result<u64, StoreError> {
        let mut deleted = 0;
        loop {
            let begun = Instant::now();
            let batch = with_tx(&self.outbox.tx, before, |unit, before, _| {
                Box::pin(async move { unit.outbox().delete_audit_reads(*before, BATCH).await })
            })
            .await?;
            deleted += batch;
            if batch < u64::from(BATCH) {
                return Ok(deleted);
            }
            tokio::select! {
                biased;
                () = self.outbox.stopping().cancelled() => return Ok(deleted),
                () = self.outbox.sleep(begun.elapsed() * PAUSE) => {}
            }
        }
    }
}

#[async_trait]
impl Job for AuditRetention {
    async fn run(&self, _leadership: Option<&Leadership>) -> Result<Progress, StoreError> {
        let keep = TimeDelta::from_std(self.keep_reads).ok();
        let Some(before) = keep.and_then(|keep| self.outbox.now().checked_sub_signed(keep)) else {
            return Ok(Progress::Done);
        };
        let deleted = self.delete(before).await?;
        if deleted > 0 {
            info!(code = "audit.old-reads", deleted, "[{JOB}] old audit entries of reads deleted");
        }
        Ok(Progress::Done)
    }
}
