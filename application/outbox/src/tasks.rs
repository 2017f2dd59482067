//! The tasks of one process: tracked, so that shutdown can wait for them; killable, so that a simulated crash takes
//! them all at whatever await they have reached.

use std::future::Future;
use std::sync::Arc;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

/// How many units of work one process runs at a time for its callers, and as many for what runs by itself.
pub const MAX_UNITS: usize = 64;

/// The tasks of one process. Clones share them.
#[derive(Debug, Clone)]
pub struct Tasks {
    tracker: TaskTracker,
    killed: CancellationToken,
    stopping: CancellationToken,
    units: Arc<Semaphore>,
    own_units: Arc<Semaphore>,
}

impl Default for Tasks {
    fn default() -> Self {
        Tasks {
            tracker: TaskTracker::new(),
            killed: CancellationToken::new(),
            stopping: CancellationToken::new(),
            units: Arc::new(Semaphore::new(MAX_UNITS)),
            own_units: Arc::new(Semaphore::new(MAX_UNITS)),
        }
    }
}

impl Tasks {
    /// Runs a future as a task of this process, in the current tracing span. `None` from it means: killed.
    #[allow(clippy::disallowed_methods, reason = "the one place where tasks are made")]
    pub fn spawn<F>(&self, work: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let killed = self.killed.clone();
        let mortal = async move {
            tokio::select! {
                biased;
                () = killed.cancelled() => None,
                output = work => Some(output),
            }
        };
        tokio::spawn(self.tracker.track_future(mortal.in_current_span()))
    }

    /// The same tasks, with the permits for what runs by itself: a flood of requests must not keep a relay from
    /// renewing its lease.
    pub fn of_its_own(&self) -> Tasks {
        Tasks { units: Arc::clone(&self.own_units), ..self.clone() }
    }

    /// Tells when the process has been asked to stop: take nothing new, finish what is begun.
    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Asks every loop to stop and waits until every task has ended.
    pub async fn stop(&self) {
        self.stopping.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// The simulated crash: every task ends at the await it has reached, nothing is cleaned up.
    pub fn kill(&self) {
        self.killed.cancel();
    }

    /// Whether the process was killed.
    pub fn is_killed(&self) -> bool {
        self.killed.is_cancelled()
    }

    /// Waits until no task is left.
    pub async fn ended(&self) {
        self.tracker.close();
        self.tracker.wait().await;
    }

    /// A permit to run one unit of work; bounds what a flood of requests can ask of the store.
    pub(crate) fn units(&self) -> &Arc<Semaphore> {
        &self.units
    }
}
