//! Tasks of one process. They are tracked, so that shutdown can wait for them, and can be killed, so that a simulated
//! crash ends each of them at its current await point.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::ports::StoreError;

/// Maximum number of concurrent units of work, for requests and for background work separately.
pub const MAX_UNITS: usize = 64;

/// Tasks of one process, its shutdown signals and its limits on concurrent units of work. Clones share them.
#[derive(Debug, Clone)]
pub struct Tasks {
    tracker: TaskTracker,
    killed: CancellationToken,
    stopping: CancellationToken,
    units: Arc<Semaphore>,
    background_units: Arc<Semaphore>,
    /// Time limit for the wait for a permit.
    max_wait: Option<Duration>,
}

/// Cause of [`StoreError::Unavailable`] if every permit is in use.
#[derive(Debug, thiserror::Error)]
#[error("no unit of work of another handler ended within {limit:?}")]
pub(crate) struct NoPermit {
    limit: Duration,
}

impl NoPermit {
    pub(crate) fn is_cause_of(error: &StoreError) -> bool {
        matches!(error, StoreError::Unavailable(cause) if cause.is::<NoPermit>())
    }
}

impl Default for Tasks {
    fn default() -> Self {
        Tasks {
            tracker: TaskTracker::new(),
            killed: CancellationToken::new(),
            stopping: CancellationToken::new(),
            units: Arc::new(Semaphore::new(MAX_UNITS)),
            background_units: Arc::new(Semaphore::new(MAX_UNITS)),
            max_wait: None,
        }
    }
}

impl Tasks {
    /// Runs a future as a task of this process, in the current tracing span. The output is `None` if the process was
    /// killed.
    pub fn spawn<F>(&self, work: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.spawn_boxed(Box::pin(work))
    }

    /// A task of tokio is some twenty functions: they are compiled once per type of the output instead of once per future.
    #[allow(clippy::disallowed_methods, reason = "the only place that spawns tasks")]
    fn spawn_boxed<T: Send + 'static>(
        &self,
        work: Pin<Box<dyn Future<Output = T> + Send>>,
    ) -> JoinHandle<Option<T>> {
        let killed = self.killed.clone();
        let killable = async move {
            tokio::select! {
                biased;
                () = killed.cancelled() => None,
                output = work => Some(output),
            }
        };
        tokio::spawn(self.tracker.track_future(killable.in_current_span()))
    }

    /// Runs a future as a task of this process until it ends or the process has to stop.
    pub fn spawn_until_stop<F>(&self, work: F)
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let stopping = self.stopping.clone();
        drop(self.spawn(async move { stopping.run_until_cancelled(work).await }));
    }

    /// A clone that uses the permits for background work, so that many requests cannot prevent a relay from renewing
    /// its lease.
    pub fn for_background_tasks(&self) -> Tasks {
        Tasks { units: Arc::clone(&self.background_units), ..self.clone() }
    }

    /// A clone that has permits of its own, for at most this many concurrent units of work: so that they do not take all
    /// connections of a pool. A unit of work waits for a permit as long as for a connection of a pool: 5 seconds.
    pub(crate) fn with_own_units(&self, max: usize) -> Tasks {
        Tasks { units: Arc::new(Semaphore::new(max)), max_wait: Some(Duration::from_secs(5)), ..self.clone() }
    }

    /// Token that is cancelled when the process has to stop: accept no new work, finish work in progress.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Signals every loop to stop.
    pub fn begin_stop(&self) {
        self.stopping.cancel();
    }

    /// Signals every loop to stop and waits until every task has ended.
    pub async fn stop(&self) {
        self.begin_stop();
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// Simulates a crash: every task ends at its current await point without cleanup.
    pub fn kill(&self) {
        self.killed.cancel();
    }

    /// Whether [`Tasks::kill`] was called.
    pub fn is_killed(&self) -> bool {
        self.killed.is_cancelled()
    }

    /// Waits until every task has ended.
    pub async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// A permit for a unit of work. Permits limit how many run at the same time, and thus the load on the store.
    pub(crate) async fn permit(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        let unavailable = |error: AcquireError| StoreError::Unavailable(Box::new(error));
        let Some(limit) = self.max_wait else { return self.units.acquire().await.map_err(unavailable) };
        match tokio::time::timeout(limit, self.units.acquire()).await {
            Ok(permit) => permit.map_err(unavailable),
            Err(_) => Err(StoreError::Unavailable(Box::new(NoPermit { limit }))),
        }
    }
}
