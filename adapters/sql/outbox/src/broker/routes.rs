//! Routing of messages to queues, with an in-memory cache of the bindings.
//!
//! **Invariant:** a message is returned as unroutable only after the bindings were reloaded.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use handover_outbox::ports::{Route, StoreError};
use handover_outbox::topology::topic_matches;

use super::{Inner, lock};
use crate::value::values;

/// Maximum age of cached bindings; another process may declare more.
const CACHE_TTL: Duration = Duration::seconds(5);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueueArguments {
    pub(super) ttl_ms: Option<i64>,
    pub(super) dead_letter_key: Option<String>,
}

/// A snapshot of the queues and bindings.
#[derive(Debug)]
pub(super) struct Routes {
    read_at: DateTime<Utc>,
    pub(super) queues: BTreeMap<String, QueueArguments>,
    bindings: Vec<(String, String)>,
}

impl Routes {
    /// The queues to which a message with this route is delivered.
    pub(super) fn target_queues<'r>(&'r self, route: &'r Route) -> Vec<&'r str> {
        match route {
            Route::Topic(key) => self.targets(key),
            Route::Queue(queue) => {
                self.queues.get_key_value(queue).map(|(name, _)| name.as_str()).into_iter().collect()
            }
        }
    }

    /// The queues bound to this routing key, each once.
    pub(super) fn targets(&self, key: &str) -> Vec<&str> {
        let mut targets: Vec<&str> = self
            .bindings
            .iter()
            .filter(|(_, pattern)| topic_matches(pattern, key))
            .map(|(queue, _)| queue.as_str())
            .collect();
        targets.dedup();
        targets
    }

    /// The expiry time of a message that is inserted into this queue now; `None` if the queue has no TTL.
    pub(super) fn expiry(&self, queue: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let ttl = self.queues.get(queue)?.ttl_ms?;
        now.checked_add_signed(Duration::milliseconds(ttl))
    }

    /// The routing key for rejected and expired messages of this queue.
    pub(super) fn dead_letter_key(&self, queue: &str) -> Option<&str> {
        self.queues.get(queue)?.dead_letter_key.as_deref()
    }
}

impl Inner {
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
        for row in session
            .fetch("SELECT queue, ttl_ms, dead_letter_key FROM outbox_broker_queues", values![])
            .await?
        {
            let row = row.of("outbox_broker_queues", "queue");
            let arguments = QueueArguments {
                ttl_ms: row.opt_int("ttl_ms")?,
                dead_letter_key: row.opt_string("dead_letter_key")?,
            };
            queues.insert(row.string("queue")?, arguments);
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
