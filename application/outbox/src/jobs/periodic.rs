//! Runs of periodic jobs.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use tracing::warn;

use super::leader::Leader;
use crate::ports::{Leadership, RunResult, StoreError};
use crate::supervision::keep_running;
use crate::transaction::{Transactor, with_tx};
use crate::wakeup::WakeupNotifier;

/// Shortest time between two records of a job without news, so that a frequent job does not add a write to each of its runs.
const RECORD_INTERVAL: Duration = Duration::from_secs(10);

/// The processes that run a job.
#[derive(Clone)]
pub enum RunBy {
    /// Every process: the runs share the work, or concern the process itself.
    EveryProcess,
    /// The leader: the runs of several processes would only repeat each other.
    Leader(Leader),
}

/// Whether work is left after a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The next run follows after the interval.
    Done,
    /// More work is due: the next run follows immediately.
    MoreDue,
    /// More work is due: the next run follows after the interval.
    Postponed,
}

/// Work that is done periodically.
#[async_trait]
pub trait Job: Send + Sync + 'static {
    /// Runs once. A run that the leader executes gets its leadership, with which it can fence its units of work; it is
    /// dropped when the leadership ends. A run MUST be repeatable after any of its steps, and SHOULD end soon after the
    /// process begins to stop.
    async fn run(&self, leadership: Option<&Leadership>) -> Result<Progress, StoreError>;
}

/// Name, interval and processes of a job.
#[derive(Clone)]
pub struct Periodic {
    name: &'static str,
    interval: Duration,
    run_by: RunBy,
    wake: Option<WakeupNotifier>,
}

impl Periodic {
    /// A job that runs at once and then at this interval. Up to a tenth of the interval is subtracted at random, so that
    /// the runs of several processes do not coincide.
    pub fn new(name: &'static str, interval: Duration, run_by: RunBy) -> Periodic {
        Periodic { name, interval, run_by, wake: None }
    }

    /// Ends the wait for the next run at each wake-up notification.
    pub fn woken_by(self, wake: WakeupNotifier) -> Periodic {
        Periodic { wake: Some(wake), ..self }
    }

    /// Starts the job. It runs until the process stops: an error is logged, and the next run follows after the interval;
    /// a panic is logged, and the job is restarted. The time of the last run and of the last successful run are recorded.
    pub fn start(self, tx: &Transactor, job: impl Job) {
        let tasks = tx.clone();
        let job: Arc<dyn Job> = Arc::new(job);
        keep_running(tx, self.name, move || {
            Runner { tx: tasks.clone(), plan: self.clone(), job: Arc::clone(&job), recorded: None }.run()
        });
    }
}

/// The loop of one job.
struct Runner {
    tx: Transactor,
    plan: Periodic,
    job: Arc<dyn Job>,
    /// Time and result of the last record.
    recorded: Option<(Instant, RunResult)>,
}

impl Runner {
    async fn run(mut self) {
        let stopping = self.tx.stopping().clone();
        while !stopping.is_cancelled() {
            let progress = match self.plan.run_by.clone() {
                RunBy::EveryProcess => self.run_once(None).await,
                RunBy::Leader(leader) => {
                    let leadership = tokio::select! {
                        biased;
                        () = stopping.cancelled() => return,
                        leadership = leader.elected() => leadership,
                    };
                    let _token = leader.token();
                    if stopping.is_cancelled() {
                        return;
                    }
                    self.run_as_leader(&leader, &leadership).await
                }
            };
            match progress {
                Progress::MoreDue => {}
                Progress::Done | Progress::Postponed => self.wait().await,
            }
        }
    }

    /// A run that is dropped because the leadership ended is repeated when this process is elected again.
    async fn run_as_leader(&mut self, leader: &Leader, leadership: &Leadership) -> Progress {
        let name = self.plan.name;
        match leader.while_leading(leadership, self.run_once(Some(leadership))).await {
            Some(progress) => progress,
            None => {
                warn!(
                    code = "job.ended-without-lead",
                    epoch = leadership.epoch,
                    "[{name}] run ended because this process no longer leads"
                );
                Progress::MoreDue
            }
        }
    }

    async fn run_once(&mut self, leadership: Option<&Leadership>) -> Progress {
        let name = self.plan.name;
        let at = self.tx.now();
        let progress = match self.job.run(leadership).await {
            Ok(progress) => progress,
            Err(error) => {
                warn!(code = "job.failed", %error, "[{name}] run failed; retrying at the next interval");
                // If the database is unavailable, the error is already logged.
                let _ = self.record(leadership, at, RunResult::Failure).await;
                return Progress::Done;
            }
        };
        let result = match progress {
            Progress::Done => RunResult::Success,
            Progress::MoreDue | Progress::Postponed => RunResult::WorkLeft,
        };
        if let Err(error) = self.record(leadership, at, result).await {
            warn!(code = "job.not-recorded", %error, "[{name}] run not recorded");
        }
        progress
    }

    /// Records the run, unless the same result or a success was recorded within [`RECORD_INTERVAL`], or the leadership was lost. A
    /// success after a run that left work is always recorded, because the job is no longer behind.
    async fn record(
        &mut self,
        leadership: Option<&Leadership>,
        at: chrono::DateTime<chrono::Utc>,
        result: RunResult,
    ) -> Result<(), StoreError> {
        let is_no_news = |last| last == result || (last, result) == (RunResult::Success, RunResult::WorkLeft);
        let is_recorded =
            |(time, last): (Instant, RunResult)| is_no_news(last) && time.elapsed() < RECORD_INTERVAL;
        if self.recorded.is_some_and(is_recorded) {
            return Ok(());
        }
        let (job, interval) = (self.plan.name, self.plan.interval);
        with_tx(&self.tx, leadership.cloned(), move |unit, leadership, _| {
            Box::pin(async move {
                let outbox = unit.outbox();
                if let Some(leadership) = leadership
                    && !outbox.fence_leader(leadership).await?
                {
                    return Ok(());
                }
                outbox.record_run(job, at, result, interval).await
            })
        })
        .await?;
        self.recorded = Some((Instant::now(), result));
        Ok(())
    }

    /// Waits for the next run.
    async fn wait(&self) {
        let stopping = self.tx.stopping();
        let [fraction, ..] = self.tx.random().next().to_be_bytes();
        let jitter = self.plan.interval / (10 * 256) * u32::from(fraction);
        let woken = async {
            match &self.plan.wake {
                Some(wake) => drop(wake.notified().await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = stopping.cancelled() => {}
            () = woken => {}
            () = self.tx.sleep(self.plan.interval.saturating_sub(jitter)) => {}
        }
    }
}
