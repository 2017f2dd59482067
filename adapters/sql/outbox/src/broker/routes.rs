//! Which queues take a message: the bindings, kept in memory.
//!
//! **Invariant:** a message is returned as unroutable only after the bindings were read anew.

use std::collections::BTreeMap;
use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use handover_outbox::ports::{Route, StoreError};
use handover_outbox::topology::topic_matches;

use super::{Inner, lock};
use crate::value::values;

/// How long bindings are believed; another process may have declared more.
const BELIEVED: Duration = Duration::seconds(5);

/// What a queue does with its messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueueArguments {
    pub(super) ttl_ms: Option<i64>,
    pub(super) dead_letter_key: Option<String>,
}

/// The queues and their bindings as they were read.
#[derive(Debug)]
pub(super) struct Routes {
    read_at: DateTime<Utc>,
    pub(super) queues: BTreeMap<String, QueueArguments>,
    bindings: Vec<(String, String)>,
}

impl Routes {
    /// The queues that take a message which goes this way.
    pub(super) fn takers<'r>(&'r self, route: &'r Route) -> Vec<&'r str> {
        match route {
            Route::Topic(key) => self.targets(key),
            Route::Queue(queue) => {
                self.queues.get_key_value(queue).map(|(name, _)| name.as_str()).into_iter().collect()
            }
        }
    }

    /// The queues that take a message with this key, each once.
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

    /// When a message that enters this queue now expires there.
    pub(super) fn expiry(&self, queue: &str, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let ttl = self.queues.get(queue)?.ttl_ms?;
        now.checked_add_signed(Duration::milliseconds(ttl))
    }

    /// The key that what dies in this queue is routed with.
    pub(super) fn dead_letter_key(&self, queue: &str) -> Option<&str> {
        self.queues.get(queue)?.dead_letter_key.as_deref()
    }
}

impl Inner {
    /// The bindings, not older than they are believed.
    pub(super) async fn routes(&self) -> Result<Arc<Routes>, StoreError> {
        let known = lock(&self.routes).clone();
        match known {
            Some(routes) if (self.now() - routes.read_at).abs() < BELIEVED => Ok(routes),
            Some(_) | None => self.read_routes().await,
        }
    }

    /// The bindings as they are.
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
