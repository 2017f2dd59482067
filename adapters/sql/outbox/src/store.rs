//! The store: one repository per file, shared by all engines.

mod archive;
mod audit;
mod consume;
mod consume_log;
mod dead_letters;
mod erasure;
mod history;
mod jobs;
mod leases;
mod monitoring;
mod order_gate;
mod outbox;
mod outbox_ahead;
mod outbox_due;
mod outbox_operations;
mod outbox_table;
mod page;
#[cfg(test)]
#[cfg(feature = "sqlite")]
mod query_plans;
mod sequences;
mod settling;
mod stored_rows;
mod webhooks;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use chrono::{DateTime, Duration, Utc};
use handover_events::PartitionSet;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{
    AheadQuery, Clock, DatabaseHealth, DatabaseMonitor, DueQuery, Store, StoreError,
};
use tokio::time::Instant;

use crate::connection::Engine;
use crate::dialect::Dialect;
use crate::engine_info::{ServerInfo, UnsuitableSetting};
use crate::session::Session;
use crate::shared::Shared;
use crate::wakeup::CommitNotifier;

pub(crate) use leases::read_older_relay;
pub(crate) use sequences::append_statements;

/// A stale pooled connection fails immediately, so BEGIN is retried on another one within this time. A later failure is
/// reported as an outage.
const STALE_RETRY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

/// Time limit for the last notification to other processes when the store is closed.
const CLOSE_NOTIFICATION_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(1);

/// A store in an SQL database. Cheap to clone: clones share connections and state.
#[derive(Clone)]
pub struct SqlStore {
    engine: Arc<dyn Engine>,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
}

impl SqlStore {
    /// Opens an SQLite database. The broker uses `clock` for expiry and polling; commits that append events notify
    /// `wake`.
    #[cfg(feature = "sqlite")]
    pub async fn open_sqlite(
        options: &crate::engine::sqlite::SqliteOptions,
        clock: Arc<dyn Clock>,
        wake: WakeupNotifier,
    ) -> Result<SqlStore, StoreError> {
        let engine = crate::engine::sqlite::SqliteEngine::open(options).await?;
        Ok(SqlStore::on(Arc::new(engine), clock, wake))
    }

    /// Opens a database on a server. Connections are established on first use.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub fn open_server(
        options: &crate::engine::server::ServerOptions,
        clock: Arc<dyn Clock>,
        wake: WakeupNotifier,
    ) -> SqlStore {
        SqlStore::on(options.engine(), clock, wake)
    }

    fn on(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, wake: WakeupNotifier) -> SqlStore {
        let shared = Shared::new(CommitNotifier::new(wake), engine.prefix().clone());
        SqlStore { engine, shared: Arc::new(shared), clock }
    }

    /// Checks with a dedicated connection that the database server is reachable; the error contains the cause. On
    /// SQLite it checks nothing.
    pub async fn probe(&self) -> Result<(), StoreError> {
        self.engine.probe().await
    }

    /// Version and settings of the database server; `None` on SQLite.
    pub async fn server_info(&self) -> Result<Option<ServerInfo>, StoreError> {
        self.engine.server_info().await
    }

    /// Settings of the server, the database or the user under which the store cannot work, and which its connections
    /// cannot change. A process that writes should refuse to start if there is any.
    pub async fn unsuitable_settings(&self) -> Result<Vec<UnsuitableSetting>, StoreError> {
        self.engine.unsuitable_settings().await
    }

    /// Whether the database prevents this user from changing or deleting entries of the audit log.
    pub async fn guards_audit_log(&self) -> Result<bool, StoreError> {
        self.engine.guards_audit_log().await
    }

    /// Sets the gauges of the connection pools, which are in [`METRICS`](crate::METRICS).
    pub fn report_pools(&self) {
        self.engine.report_pools();
    }

    /// A problem of the storage that reads do not show, such as a full disk or a deleted file; the text has no paths. It
    /// is reported from a failed write until a write succeeds. `None` on a server.
    pub async fn storage_problem(&self) -> Option<String> {
        self.engine.storage_problem().await
    }

    /// Copies an SQLite database into `copy`, which must be an empty file, and verifies the copy. The copy contains every
    /// transaction committed before the call; the database can be in use. The caller syncs the file to disk. Fails on a
    /// server.
    pub async fn backup(&self, copy: &Path) -> Result<(), StoreError> {
        self.engine.backup(copy).await
    }

    /// The current time of the database, the common clock of all processes that share it.
    pub async fn database_now(&self) -> Result<DateTime<Utc>, StoreError> {
        self.reading().await?.now().await
    }

    /// Adds an offset to the database's clock, which leases and heartbeats use. For contract tests.
    pub fn move_database_clock(&self, by: Duration) {
        self.shared.add_offset(by);
    }

    /// Exchanges wake-up notifications with the other processes on this database while the future is polled. PostgreSQL
    /// uses NOTIFY; on MySQL the database is polled every 20 to 250 ms; on SQLite there are no other processes. A
    /// process that commits events, or waits for commits of others, should run this in a task; without it, commits of
    /// other processes are detected by the next regular poll of the relay or consumer.
    pub async fn watch(&self) {
        self.engine.watch(&self.shared.notifier).await;
    }

    /// The query plan for due rows. For tests and diagnosis.
    #[doc(hidden)]
    pub async fn explain_due(&self, query: &DueQuery) -> Result<String, StoreError> {
        self.reading().await?.explain_due(query).await
    }

    /// The query plans of the search for due rows behind a backlog. For tests and diagnosis.
    #[doc(hidden)]
    pub async fn explain_ahead(&self, query: &AheadQuery) -> Result<Vec<String>, StoreError> {
        self.reading().await?.explain_ahead(query).await
    }

    /// Sends pending notifications and closes every connection. Waits for connections in use.
    pub async fn close(&self) {
        // A short-lived command does not run `watch`, so its pending notifications are sent here.
        if let Some(payload) = self.shared.notifier.take_pending() {
            let sending = self.engine.send_notification(&payload);
            let sent = tokio::time::timeout(CLOSE_NOTIFICATION_TIMEOUT, sending).await;
            if !matches!(sent, Ok(Ok(()))) {
                tracing::debug!("store: wake-up notification failed; other processes will poll");
            }
        }
        self.engine.close().await;
    }

    /// Wakes the relays of all processes for partitions in which an application may have committed events on a connection
    /// of its own ([`AppendEvents`](crate::AppendEvents)). Other processes are notified by [`SqlStore::watch`].
    pub fn wake_relays(&self, partitions: PartitionSet) {
        self.shared.notifier.notify_relays(partitions);
    }

    pub(crate) fn engine(&self) -> &dyn Engine {
        self.engine.as_ref()
    }

    pub(crate) fn notifier(&self) -> &CommitNotifier {
        &self.shared.notifier
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    pub(crate) fn dialect(&self) -> &'static dyn Dialect {
        self.engine.dialect()
    }

    /// A session that may write, in autocommit mode.
    pub(crate) async fn writing(&self) -> Result<Session, StoreError> {
        let writer = self.engine.writer().await;
        self.shared.observe(&writer);
        Ok(Session::new(writer?, self.engine.dialect(), self.shared.clone()))
    }

    /// A session in a transaction.
    pub(crate) async fn transaction(&self) -> Result<Session, StoreError> {
        let started = Instant::now();
        loop {
            let mut session = self.writing().await?;
            match session.begin().await {
                Ok(()) => return Ok(session),
                // The connection was lost while idle. No transaction was begun, so another connection can be used.
                Err(error @ StoreError::Unavailable(_))
                    if error.system_fault().is_none() && started.elapsed() < STALE_RETRY_TIMEOUT =>
                {
                    tracing::debug!(%error, "store: idle connection lost; trying another one");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A session that reads committed data.
    pub(crate) async fn reading(&self) -> Result<Session, StoreError> {
        let reader = self.engine.reader().await;
        self.shared.observe(&reader);
        Ok(Session::new(reader?, self.engine.dialect(), self.shared.clone()))
    }
}

#[async_trait]
impl DatabaseMonitor for SqlStore {
    async fn health(&self) -> Result<DatabaseHealth, StoreError> {
        self.engine.health().await
    }
}

#[async_trait]
impl Store for SqlStore {
    type Unit = Session;
    type View = Session;

    async fn begin(&self) -> Result<Box<Session>, StoreError> {
        Ok(Box::new(self.transaction().await?))
    }

    async fn view(&self) -> Result<Box<Session>, StoreError> {
        Ok(Box::new(self.reading().await?))
    }

    fn has_single_writer(&self) -> bool {
        self.engine.dialect().has_single_writer()
    }
}
