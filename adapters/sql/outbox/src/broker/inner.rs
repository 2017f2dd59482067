//! State of the database broker, shared by its clones and subscriptions, with a cache of the bindings.
//!
//! **Invariant:** a message is returned as unroutable only after the bindings were reloaded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Duration, Utc};
use handover_outbox::ports::{BrokerError, QueueDepth, QueueLoad, StoreError};

use super::routes::{QueueTable, Routes};
use super::subscription_state::SubscriptionState;
use super::upkeep_state::UpkeepState;
use crate::row::Row;
use crate::store::SqlStore;
use crate::table::Table as _;
use crate::value::values;

/// Maximum age of cached bindings; another process may declare more.
const CACHE_TTL: Duration = Duration::seconds(5);

pub(super) struct Inner {
    pub(super) store: SqlStore,
    /// See [`DatabaseBroker::with_slow_search`](super::DatabaseBroker::with_slow_search).
    pub(super) slow_search: std::time::Duration,
    pub(super) routes: Mutex<Option<Arc<Routes>>>,
    /// The open subscriptions of this process, by session id.
    pub(super) live: Mutex<BTreeMap<i64, Arc<SubscriptionState>>>,
    /// Sessions of dropped or closed subscriptions whose messages have not been returned to the queue yet.
    pub(super) ended: Mutex<Vec<i64>>,
    /// The earliest expiry of all messages that this process knows of.
    pub(super) next_expiry: Mutex<Option<DateTime<Utc>>>,
    /// The lock prevents concurrent maintenance runs.
    pub(super) upkeep_state: tokio::sync::Mutex<UpkeepState>,
}

impl Inner {
    pub(super) fn now(&self) -> DateTime<Utc> {
        self.store.clock().now()
    }

    pub(super) fn notify_queue(&self, queue: &str) {
        self.store.notifier().notify_queue(queue);
    }

    pub(super) async fn depths(&self) -> Result<Vec<QueueDepth>, StoreError> {
        self.return_ended().await?;
        let mut session = self.store.reading().await?;
        let sql = format!(
            "SELECT q.queue, ({oldest}) AS oldest_ready, \
             (SELECT count(*) FROM outbox_broker_messages m WHERE m.queue = q.queue AND m.session_id IS NULL) AS ready, \
             (SELECT count(*) FROM outbox_broker_messages m JOIN outbox_broker_sessions s ON s.session_id = m.session_id \
              WHERE s.queue = q.queue AND m.session_id IS NOT NULL) AS unacked, \
             (SELECT count(*) FROM outbox_broker_sessions s WHERE s.queue = q.queue) AS consumers \
             FROM outbox_broker_queues q ORDER BY q.queue",
            oldest = session.dialect.oldest_ready(),
        );
        let rows = session.fetch(&sql, values![]).await?;
        rows.iter()
            .map(|row| {
                let row = row.of("outbox_broker_queues", "queue");
                Ok(QueueDepth {
                    name: row.string("queue")?,
                    ready: row.id("ready")?,
                    unacked: row.id("unacked")?,
                    consumers: row.id("consumers")?,
                    oldest_ready: row.opt_time("oldest_ready")?,
                })
            })
            .collect()
    }

    /// See [`Broker::load`](handover_outbox::ports::Broker::load). Reads at most `up_to` index entries per queue.
    pub(super) async fn load(&self, queues: &[String], up_to: u32) -> Result<Vec<QueueLoad>, StoreError> {
        if queues.is_empty() {
            return Ok(Vec::new());
        }
        let mut session = self.store.reading().await?;
        let one = format!(
            "SELECT q.queue, (SELECT count(*) FROM (SELECT m.id FROM outbox_broker_messages m {index} \
             WHERE m.queue = ? AND m.session_id IS NULL LIMIT ?) r) AS ready, \
             (SELECT count(*) FROM outbox_broker_sessions s WHERE s.queue = q.queue) AS consumers \
             FROM outbox_broker_queues q WHERE q.queue = ?",
            index = session.dialect.index("idx_outbox_broker_ready"),
        );
        let sql = vec![one; queues.len()].join(" UNION ALL ");
        let values = queues.iter().flat_map(|queue| values![queue, up_to, queue]).collect();
        let load = |row: &Row| {
            let row = row.of("outbox_broker_queues", "queue");
            Ok(QueueLoad {
                name: row.string("queue")?,
                ready: row.id("ready")?,
                consumers: row.id("consumers")?,
            })
        };
        session.fetch(&sql, values).await?.iter().map(load).collect()
    }

    /// See [`Broker::has_messages`](handover_outbox::ports::Broker::has_messages). Reads one ready message and those of the
    /// queue's sessions, which their prefetch limits.
    pub(super) async fn has_messages(&self, queue: &str) -> Result<bool, StoreError> {
        let mut session = self.store.reading().await?;
        let sql = format!(
            "SELECT (SELECT count(*) FROM (SELECT m.id FROM outbox_broker_messages m {index} \
             WHERE m.queue = ? AND m.session_id IS NULL LIMIT 1) r) \
             + (SELECT count(*) FROM outbox_broker_messages m JOIN outbox_broker_sessions s ON s.session_id = m.session_id \
             WHERE s.queue = ? AND m.session_id IS NOT NULL) AS found",
            index = session.dialect.index("idx_outbox_broker_ready"),
        );
        let row = session.fetch_one(&sql, values![queue, queue]).await?;
        let found =
            row.map(|row| row.of("outbox_broker_messages", "queue").id::<u64>("found")).transpose()?;
        Ok(found.unwrap_or(0) > 0)
    }

    /// The queues and bindings, from the cache unless it is older than [`CACHE_TTL`].
    pub(super) async fn routes(&self) -> Result<Arc<Routes>, StoreError> {
        let cached = lock(&self.routes).clone();
        match cached {
            Some(routes) if (self.now() - routes.read_at).abs() < CACHE_TTL => Ok(routes),
            Some(_) | None => self.read_routes().await,
        }
    }

    /// Reloads the queues and bindings from the database.
    pub(super) async fn read_routes(&self) -> Result<Arc<Routes>, StoreError> {
        let read_at = self.now();
        let mut session = self.store.reading().await?;
        let mut queues = BTreeMap::new();
        let sql = format!("SELECT {} FROM outbox_broker_queues", QueueTable::COLUMNS);
        for row in session.fetch(&sql, values![]).await? {
            queues.insert(QueueTable::fields(&row).string("queue")?, QueueTable::read(&row)?);
        }
        let mut bindings = Vec::new();
        let sql = "SELECT queue, pattern FROM outbox_broker_bindings ORDER BY queue, pattern";
        for row in session.fetch(sql, values![]).await? {
            let row = row.of("outbox_broker_bindings", "queue");
            bindings.push((row.string("queue")?, row.string("pattern")?));
        }
        let routes = Arc::new(Routes { read_at, queues, bindings });
        *lock(&self.routes) = Some(routes.clone());
        Ok(routes)
    }
}

pub(super) fn broker_error(error: StoreError) -> BrokerError {
    match error {
        StoreError::Transient(_) | StoreError::Unavailable(_) | StoreError::CommitUnknown(_) => {
            BrokerError::Unreachable(Box::new(error))
        }
        // Only concurrent declarations of a queue or binding can conflict; a retry finds the existing row.
        StoreError::Conflict { .. } => BrokerError::Unreachable(Box::new(error)),
        StoreError::Corrupt { .. } | StoreError::IdInUse { .. } | StoreError::Backend(_) => {
            BrokerError::Refused { what: error.to_string() }
        }
    }
}

/// Locks a mutex. No code panics while it holds these locks, and the data would be consistent even then, so poisoning
/// is ignored.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
