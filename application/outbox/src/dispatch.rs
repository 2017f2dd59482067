//! Tasks that leave the database, such as requests to other systems: they are claimed in one transaction, carried out
//! outside of any, and their outcomes are recorded in another.
//!
//! **Invariant:** a task is carried out only after its claim was committed. Whatever ends the process afterwards, the
//! claim ends and the task is claimed again: each task is carried out at least once.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use futures_util::{StreamExt as _, stream};
use tokio::sync::{Mutex, MutexGuard, Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tracing::warn;

use crate::ports::StoreError;
use crate::supervision::keep_running;
use crate::transaction::Transactor;

/// Pause after an error of the database.
const AFTER_ERROR: Duration = Duration::from_secs(1);
/// Number of outcomes that are recorded in one call.
const MAX_RECORDED: usize = 128;

/// A kind of tasks.
#[async_trait]
pub trait Dispatch: Send + Sync + 'static {
    /// A claimed task.
    type Task: Send + Sync + 'static;
    /// Outcome of a task.
    type Outcome: Send + Sync + 'static;

    /// Claims at most `limit` tasks that are due, and commits the claims.
    async fn claim(&self, limit: NonZeroU32) -> Result<Vec<Self::Task>, StoreError>;

    /// Carries out a task. MUST allow for repetition, and MUST end within a limited time.
    async fn carry_out(&self, task: &Self::Task) -> Self::Outcome;

    /// Outcome of a task that began at this time and was dropped because the process stops.
    fn interrupted(&self, task: &Self::Task, began_at: DateTime<Utc>) -> Self::Outcome;

    /// Records outcomes. It is repeated after an error. An outcome whose claim ended MUST be ignored.
    async fn record(&self, outcomes: &[(Self::Task, Self::Outcome)]) -> Result<(), StoreError>;
}

/// Claims, carries out and records one batch of due tasks. Returns their number.
///
/// All tasks end before an error is returned, so that one failure does not cancel the others.
pub async fn dispatch_once<D: Dispatch>(
    tx: &Transactor<impl ?Sized, impl ?Sized>,
    work: &D,
    limit: NonZeroU32,
) -> Result<usize, StoreError> {
    let claimed = work.claim(limit).await?;
    let count = claimed.len();
    let outcomes: Vec<_> = stream::iter(claimed)
        .map(|task| async {
            let outcome = outcome(tx, work, &task).await;
            (task, outcome)
        })
        .buffer_unordered(limit.get() as usize)
        .collect()
        .await;
    if count > 0 {
        work.record(&outcomes).await?;
    }
    Ok(count)
}

/// Carries out a task; if the process stops, for a limited time.
async fn outcome<D: Dispatch>(
    tx: &Transactor<impl ?Sized, impl ?Sized>,
    work: &D,
    task: &D::Task,
) -> D::Outcome {
    let began_at = tx.now();
    tokio::select! {
        biased;
        outcome = work.carry_out(task) => outcome,
        () = tx.end_of_grace() => work.interrupted(task, began_at),
    }
}

/// Continuous dispatch of one kind of tasks: a task that takes long delays no other task as long as fewer than
/// `concurrency` are in progress.
#[derive(Debug, Clone)]
pub struct Dispatcher {
    /// Name in log messages.
    pub name: &'static str,
    /// Time between two claims while no task ends.
    pub interval: Duration,
    /// Maximum number of tasks in progress in this process.
    pub concurrency: NonZeroU32,
}

impl Dispatcher {
    /// Starts the dispatch. It runs until the process stops: errors of the database are logged and repeated, and a panic
    /// is logged and the loop restarted.
    pub fn start<D: Dispatch>(self, tx: &Transactor, work: D) {
        let work = Arc::new(work);
        let context = tx.clone();
        let name = self.name;
        keep_running(tx, name, move || {
            let tx = context.clone();
            let permits = Arc::new(Semaphore::new(self.concurrency.get() as usize));
            let ended = Arc::new(Notify::new());
            let claiming = Mutex::default();
            Loop { tx, plan: self.clone(), work: Arc::clone(&work), permits, ended, claiming }.run()
        });
    }
}

/// A task in progress, and its permit, are dropped when its outcome is recorded.
type Finished<D> = (<D as Dispatch>::Task, <D as Dispatch>::Outcome, OwnedSemaphorePermit);

struct Loop<D: Dispatch> {
    tx: Transactor,
    plan: Dispatcher,
    work: Arc<D>,
    permits: Arc<Semaphore>,
    /// Notified when outcomes were recorded: further tasks may be due.
    ended: Arc<Notify>,
    /// Held after an error of the database until all outcomes are recorded: the claim of an outcome may have ended, and its task
    /// would be claimed again.
    claiming: Mutex<()>,
}

impl<D: Dispatch> Loop<D> {
    async fn run(self) {
        let (finished, outcomes) = mpsc::unbounded_channel();
        // The recorder ends when every task has ended and no further one can start.
        tokio::join!(self.claim_all(finished), self.record_all(outcomes));
    }

    async fn claim_all(&self, finished: mpsc::UnboundedSender<Finished<D>>) {
        let stopping = self.tx.stopping();
        while !stopping.is_cancelled() {
            let free = tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                permit = Arc::clone(&self.permits).acquire_owned() => permit,
            };
            let Ok(first) = free else { return };
            tokio::select! {
                biased;
                () = stopping.cancelled() => return,
                recorded = self.claiming.lock() => drop(recorded),
            }
            let wanted = u32::try_from(self.permits.available_permits()).unwrap_or(u32::MAX);
            let limit = NonZeroU32::MIN.saturating_add(wanted).min(self.plan.concurrency);
            let claimed = match self.work.claim(limit).await {
                Ok(claimed) => claimed,
                Err(error) => {
                    warn!(code = "dispatch.not-claimed", %error, "[{}] cannot claim; retrying in {AFTER_ERROR:?}", self.plan.name);
                    self.wait(AFTER_ERROR).await;
                    continue;
                }
            };
            let is_full = claimed.len() >= limit.get() as usize;
            let mut first = Some(first);
            for task in claimed {
                let permit = match first.take() {
                    Some(permit) => permit,
                    None => match Arc::clone(&self.permits).acquire_owned().await {
                        Ok(permit) => permit,
                        Err(_) => return,
                    },
                };
                self.carry_out(task, permit, finished.clone());
            }
            drop(first);
            if !is_full {
                self.wait(self.plan.interval).await;
            }
        }
    }

    fn carry_out(
        &self,
        task: D::Task,
        permit: OwnedSemaphorePermit,
        finished: mpsc::UnboundedSender<Finished<D>>,
    ) {
        let work = Arc::clone(&self.work);
        let tx = self.tx.clone();
        drop(self.tx.spawn(async move {
            let outcome = outcome(&tx, work.as_ref(), &task).await;
            // Without a recorder the claim ends, and the task is claimed again.
            let _ = finished.send((task, outcome, permit));
        }));
    }

    /// Waits until outcomes were recorded, at most for this time.
    async fn wait(&self, limit: Duration) {
        tokio::select! {
            biased;
            () = self.tx.stopping().cancelled() => {}
            () = self.ended.notified() => {}
            () = self.tx.sleep(limit) => {}
        }
    }

    /// Records outcomes in groups: all that are available when the previous group was recorded.
    async fn record_all(&self, mut outcomes: mpsc::UnboundedReceiver<Finished<D>>) {
        let mut received = Vec::new();
        let mut no_claims = None;
        while outcomes.recv_many(&mut received, MAX_RECORDED).await > 0 {
            let (group, permits): (Vec<_>, Vec<_>) =
                received.drain(..).map(|(task, outcome, permit)| ((task, outcome), permit)).unzip();
            self.record(&group, &mut no_claims).await;
            drop((group, permits));
            if outcomes.is_empty() {
                no_claims = None;
            }
            self.ended.notify_one();
        }
    }

    /// Records a group. While the process stops, an error of the database is not repeated: the claims end.
    async fn record<'l>(
        &'l self,
        group: &[(D::Task, D::Outcome)],
        no_claims: &mut Option<MutexGuard<'l, ()>>,
    ) {
        while let Err(error) = self.work.record(group).await {
            let outcomes = group.len();
            if no_claims.is_none() {
                *no_claims = Some(self.claiming.lock().await);
            }
            if self.tx.stopping().is_cancelled() {
                warn!(code = "dispatch.outcomes-lost", %error, outcomes, "[{}] outcomes not recorded; the tasks are repeated", self.plan.name);
                return;
            }
            warn!(code = "dispatch.outcomes-not-recorded", %error, outcomes, "[{}] cannot record outcomes; retrying in {AFTER_ERROR:?}", self.plan.name);
            tokio::select! {
                biased;
                () = self.tx.stopping().cancelled() => {}
                () = self.tx.sleep(AFTER_ERROR) => {}
            }
        }
    }
}
