//! The running tasks of an outbox.

use std::time::Duration;

use handover_outbox::Outbox as Services;
use handover_sql::SqlStore;

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
pub struct Running<DB> {
    enqueuer: Enqueuer<DB>,
    store: SqlStore,
    services: Services,
}

impl<DB> Running<DB> {
    pub(crate) fn new(enqueuer: Enqueuer<DB>, store: SqlStore, services: Services) -> Running<DB> {
        Running { enqueuer, store, services }
    }

    /// The services of the toolkit under this crate: relay, consumers and operations work on them.
    pub fn services(&self) -> &Services {
        &self.services
    }

    /// Finishes the work in progress, then closes the connections. An error if that takes longer than `limit`: the tasks
    /// are then ended where they are, and what they had not committed is repeated after the next start.
    pub async fn stop(self, limit: Duration) -> Result<(), Error> {
        let tasks = self.services.tasks();
        let stopped = tokio::time::timeout(limit, tasks.stop()).await;
        if stopped.is_err() {
            tasks.kill();
            tasks.ended().await;
        }
        self.enqueuer.set_stopped();
        self.store.close().await;
        stopped.map_err(|_| Error::NotStopped { limit })
    }

    #[cfg(feature = "test")]
    pub(crate) fn clock(&self) -> &crate::clock::OutboxClock {
        self.enqueuer.clock()
    }

    /// Ends the tasks of an outbox that could not be started.
    pub(crate) async fn abandon(self) {
        self.services.tasks().kill();
        self.enqueuer.set_stopped();
    }
}
