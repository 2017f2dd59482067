//! The store: one repository per file, written once for every engine.

mod audit;
mod consume;
mod consume_log;
mod dead_letters;
mod due;
mod history;
mod leases;
mod outbox;
mod outbox_operations;
mod page;
#[cfg(test)]
mod plans;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Duration, Utc};
use handover_outbox::Wake;
use handover_outbox::ports::{Clock, DueQuery, Store, StoreError};
use tokio::time::Instant;

use crate::bells::Bells;
use crate::connection::Engine;
use crate::engine::sqlite::{SqliteEngine, SqliteOptions};
use crate::facts::ServerFacts;
use crate::session::Session;

/// A connection that was cut says so at once; who has waited longer is told that the database is away.
const STALE_WITHIN: std::time::Duration = std::time::Duration::from_secs(1);

/// The most unreadable rows that one process reports.
const MOST_REPORTED: usize = 1_000;

/// How long a store that is closed tries to tell others what was committed.
const LAST_WORD: std::time::Duration = std::time::Duration::from_secs(1);

/// A store in an SQL database. Clones share it.
#[derive(Clone)]
pub struct SqlStore {
    engine: Arc<dyn Engine>,
    shared: Arc<Shared>,
    clock: Arc<dyn Clock>,
}

/// What every session of a store knows.
pub(crate) struct Shared {
    pub(crate) bells: Bells,
    offset_us: AtomicI64,
    /// Ids of outbox rows that cannot be read and were reported.
    reported: Mutex<BTreeSet<i64>>,
}

impl Shared {
    /// Reports an outbox row that cannot be read, once for each process: relays look many times a second.
    pub(crate) fn report(&self, id: i64, corrupt: &StoreError) {
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if reported.len() < MOST_REPORTED && reported.insert(id) {
            tracing::error!(error = %corrupt, "[Outbox] [ALERT] an outbox row cannot be read; it is neither published nor listed until its value is corrected");
        }
    }

    /// How far the database's clock was moved.
    pub(crate) fn offset(&self) -> Duration {
        Duration::microseconds(self.offset_us.load(Ordering::Relaxed))
    }
}

impl SqlStore {
    /// Opens an SQLite database. The clock paces the broker; commits that append events ring the bell.
    pub async fn open_sqlite(
        options: &SqliteOptions,
        clock: Arc<dyn Clock>,
        wake: Wake,
    ) -> Result<SqlStore, StoreError> {
        Ok(SqlStore::on(Arc::new(SqliteEngine::open(options).await?), clock, wake))
    }

    /// Opens a database of a server, which is connected to when there is something to do.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    pub fn open_server(options: &crate::ServerOptions, clock: Arc<dyn Clock>, wake: Wake) -> SqlStore {
        SqlStore::on(options.engine(), clock, wake)
    }

    fn on(engine: Arc<dyn Engine>, clock: Arc<dyn Clock>, wake: Wake) -> SqlStore {
        SqlStore {
            engine,
            shared: Arc::new(Shared {
                bells: Bells::new(wake),
                offset_us: AtomicI64::new(0),
                reported: Mutex::default(),
            }),
            clock,
        }
    }

    /// Whether the database can be reached, by a connection of its own; the error says why not.
    pub async fn probe(&self) -> Result<(), StoreError> {
        self.engine.probe().await
    }

    /// What the database server says about itself; nothing of a file.
    pub async fn server_facts(&self) -> Result<Option<ServerFacts>, StoreError> {
        self.engine.facts().await
    }

    /// Whether this user is refused to change or remove what the audit log says, as long as the schema stays as it is.
    pub async fn guards_audit_log(&self) -> Result<bool, StoreError> {
        self.engine.guards_audit_log().await
    }

    /// The database's own now: the one clock of all processes that share it (spec §1 "time").
    pub async fn database_now(&self) -> Result<DateTime<Utc>, StoreError> {
        self.reading().await?.now().await
    }

    /// Moves the database's own clock, which judges leases and heartbeats: for contract tests.
    pub fn move_database_clock(&self, by: Duration) {
        self.shared.offset_us.fetch_add(by.num_microseconds().unwrap_or(0), Ordering::Relaxed);
    }

    /// Carries wake-ups between the processes that share this database, as long as it is polled: PostgreSQL tells, on
    /// MySQL one looks every 20 to 250 ms. A process that commits or waits for commits of others runs this beside its
    /// work; without it they are noticed when somebody looks by himself. On SQLite there is nobody to tell.
    pub async fn watch(&self) {
        self.engine.watch(&self.shared.bells).await;
    }

    /// How the engine would find the rows that are due: for tests, and for people who wonder.
    #[doc(hidden)]
    pub async fn explain_due(&self, query: &DueQuery) -> Result<String, StoreError> {
        self.reading().await?.explain_due(query).await
    }

    /// Closes every connection; what is open is waited for.
    pub async fn close(&self) {
        // A command that ends here has nobody else to tell what it committed.
        if let Some(told) = self.shared.bells.tell() {
            let done = tokio::time::timeout(LAST_WORD, self.engine.tell(&told)).await;
            if !matches!(done, Ok(Ok(()))) {
                tracing::debug!("other processes were not told; they look by themselves");
            }
        }
        self.engine.close().await;
    }

    pub(crate) fn engine(&self) -> &dyn Engine {
        self.engine.as_ref()
    }

    pub(crate) fn bells(&self) -> &Bells {
        &self.shared.bells
    }

    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// A session that may write, each statement a transaction of its own.
    pub(crate) async fn writing(&self) -> Result<Session, StoreError> {
        Ok(Session::new(self.engine.writer().await?, self.engine.dialect(), self.shared.clone()))
    }

    /// A session in a transaction.
    pub(crate) async fn transaction(&self) -> Result<Session, StoreError> {
        let asked = Instant::now();
        loop {
            let mut session = self.writing().await?;
            match session.begin().await {
                Ok(()) => return Ok(session),
                // A connection that was cut while it lay idle. Nothing was begun, so another will do.
                Err(StoreError::Unavailable(cause)) if asked.elapsed() < STALE_WITHIN => {
                    tracing::debug!(%cause, "an idle connection was lost; taking another");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A session that reads what is committed.
    pub(crate) async fn reading(&self) -> Result<Session, StoreError> {
        Ok(Session::new(self.engine.reader().await?, self.engine.dialect(), self.shared.clone()))
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
}
