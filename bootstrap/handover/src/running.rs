//! The running tasks of an outbox.

use std::sync::Arc;
use std::time::Duration;

use handover_outbox::Outbox as Services;
use handover_outbox::state::{DatabaseState, StateMetrics};

use crate::backend::{Backend, OpenStore};
use crate::enqueue::Enqueuer;
use crate::error::Error;

/// The running tasks of an outbox. If it is dropped, they go on.
///
/// ```
/// use std::time::Duration;
/// use handover::Outbox;
/// # use sqlx::Sqlite;
///
/// async fn serve(outbox: Outbox<Sqlite>) -> Result<(), handover::Error> {
///     let running = outbox.start().await?;
///     // serve requests, until the process is asked to stop ...
///     running.stop(Duration::from_secs(10)).await
/// }
/// ```
#[must_use = "stop it when the service ends"]
pub struct Running<B: Backend> {
    enqueuer: Enqueuer<B>,
    store: Arc<dyn OpenStore>,
    services: Services,
}

impl<B: Backend> Running<B> {
    pub(crate) fn new(enqueuer: Enqueuer<B>, store: Arc<dyn OpenStore>, services: Services) -> Running<B> {
        Running { enqueuer, store, services }
    }

    /// The services of the toolkit under this crate: relay, consumers and operations work on them.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// Reads the state of the whole deployment at this interval: rows by status, queues with their oldest message, dead letters, jobs,
    /// webhooks, the database's oldest transaction. One of all processes that call this, the leader, reads and exports it; the
    /// others export none. Call it once per process. The process also reports its figures of the last minutes to the database, for `stats`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use handover::Running;
    /// # use sqlx::Sqlite;
    ///
    /// fn metrics(running: &Running<Sqlite>) -> impl Fn() -> String {
    ///     let state = running.state_metrics(Duration::from_secs(15));
    ///     // The body of `/metrics`: append it to the text of your recorder.
    ///     move || state.exposition()
    /// }
    /// ```
    pub fn state_metrics(&self, interval: Duration) -> StateMetrics {
        let database = DatabaseState::new(self.store.monitor());
        StateMetrics::start(&self.services, vec![Arc::new(database)], interval)
    }

    /// Finishes the work in progress, then closes the connections. An error if that takes longer than `limit`: the tasks
    /// are then ended where they are, and what they had not committed is repeated after the next start. A limit longer than the
    /// longest [`timeout`](crate::Handlers::timeout) of a consumer (10 s by default) leaves time for the attempts in progress. If this
    /// future is dropped, the tasks are ended at once.
    pub async fn stop(self, limit: Duration) -> Result<(), Error> {
        let ending = Ending::of(&self);
        let tasks = self.services.tasks();
        let stopped = tokio::time::timeout(limit, tasks.stop()).await;
        if stopped.is_err() {
            tasks.kill();
            tasks.ended().await;
        }
        drop(ending);
        self.store.close().await;
        stopped.map_err(|_| Error::NotStopped { limit })
    }

    #[cfg(feature = "test")]
    pub(crate) fn clock(&self) -> &crate::clock::OutboxClock {
        self.enqueuer.clock()
    }
}

/// The start or the stop of an outbox. When it is dropped, the tasks end, and the outbox can be started again: also if the start
/// fails, or the future of either is dropped.
pub(crate) struct Ending<'r, B: Backend>(Option<&'r Running<B>>);

impl<'r, B: Backend> Ending<'r, B> {
    pub(crate) fn of(running: &'r Running<B>) -> Ending<'r, B> {
        Ending(Some(running))
    }

    /// The start has succeeded: the tasks go on.
    pub(crate) fn cancel(mut self) {
        self.0 = None;
    }
}

impl<B: Backend> Drop for Ending<'_, B> {
    fn drop(&mut self) {
        if let Some(running) = self.0 {
            running.services.tasks().kill();
            running.enqueuer.set_stopped();
        }
    }
}
