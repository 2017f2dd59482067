//! The job of the leader that archives settled events.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex;
use tracing::{info, warn};

use super::kept::KeptBecause;
use super::mark::ArchiveMark;
use super::run::{Archive, ArchiveError, MAX_RUN_EVENTS};
use crate::jobs::{Job, Leader, Periodic, Progress, RunBy};
use crate::ports::{DatabaseHealth, DatabaseMonitor, Leadership, StoreError};
use crate::transaction::Transactor;

/// Name of the job.
pub(crate) const JOB: &str = "Archive";
/// A database that cannot remove old row versions is not given more of them: the job pauses while a transaction of the
/// database has been open for longer, or while the history list is longer.
const MAX_OPEN_TRANSACTION: Duration = Duration::from_secs(60);
const MAX_HISTORY_LENGTH: u64 = 100_000;

/// Archives settled events periodically. A pause counts as work that is left.
pub struct ArchiveJob {
    archive: Option<Archive>,
    monitor: Arc<dyn DatabaseMonitor>,
    mark: Mutex<ArchiveMark>,
}

impl ArchiveJob {
    /// The job; `None`: the archive is off. This monitor reads the health of the database.
    pub fn new(archive: Option<Archive>, monitor: Arc<dyn DatabaseMonitor>) -> ArchiveJob {
        ArchiveJob { archive, monitor, mark: Mutex::default() }
    }

    /// Starts the job on the leader, at this interval. It also runs, without effect, if the archive is off: a job without
    /// runs would be reported as silent.
    pub fn start(self, tx: &Transactor, leader: &Leader, interval: Duration) {
        Periodic::new(JOB, interval, RunBy::Leader(leader.clone())).start(tx, self);
    }
}

#[async_trait]
impl Job for ArchiveJob {
    async fn run(&self, _leadership: Option<&Leadership>) -> Result<Progress, StoreError> {
        let Some(archive) = &self.archive else { return Ok(Progress::Done) };
        if let Some(why) = reason_to_pause(&self.monitor.health().await?) {
            info!(code = "archive.paused", why, "[Archive] paused until the next run");
            return Ok(Progress::Postponed);
        }
        let report = archive.run(&mut *self.mark.lock().await, MAX_RUN_EVENTS).await?;
        if report.events > 0 {
            info!(
                code = "archive.archived",
                events = report.events,
                files = report.files,
                bytes = report.bytes,
                "[Archive] events archived"
            );
        }
        if let Some(events) = report.kept.get(&KeptBecause::Unreadable) {
            warn!(
                code = "archive.unreadable",
                events,
                "[Archive] events stay in the outbox, because their stored values cannot be read; `doctor` names them"
            );
        }
        Ok(if report.more { Progress::MoreDue } else { Progress::Done })
    }
}

fn reason_to_pause(health: &DatabaseHealth) -> Option<&'static str> {
    if health.oldest_transaction.is_some_and(|open| open > MAX_OPEN_TRANSACTION) {
        return Some("a transaction of the database has been open for more than a minute");
    }
    let is_long = health.history_length.is_some_and(|length| length > MAX_HISTORY_LENGTH);
    is_long.then_some("the history list of the database has more than 100000 transactions")
}

impl From<ArchiveError> for StoreError {
    fn from(error: ArchiveError) -> StoreError {
        match error {
            ArchiveError::Store(error) => error,
            ArchiveError::Storage(error) => StoreError::Unavailable(Box::new(error)),
        }
    }
}
