//! The database broker: queues as tables of the same database.
//!
//! A message is one row per queue it was routed to. A subscription is a session with a heartbeat; what it claims is
//! its own until it settles it, ends, or its heartbeat runs out. Within a process waiting consumers are woken by a
//! bell per queue; between processes they look once a second.
//!
//! **Invariant:** `Confirmed`, `ack` and `nack` answer only after the commit.
//!
//! **Invariant:** a message is in exactly one queue row per queue at any time: moving one is one transaction.

mod claim;
mod declare;
mod messages;
mod publish;
mod routes;
mod subscription;
mod upkeep;

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_outbox::ports::{
    Broker, BrokerError, Outgoing, PublishOutcome, QueueDepth, StoreError, Subscription,
};
use handover_outbox::topology::Topology;

use crate::SqlStore;
use crate::value::values;
use routes::Routes;
use subscription::{DatabaseSubscription, Ticket};
use upkeep::Upkept;

/// A broker on the tables of a store. Clones share it.
#[derive(Clone)]
pub struct DatabaseBroker {
    inner: Arc<Inner>,
}

struct Inner {
    store: SqlStore,
    routes: Mutex<Option<Arc<Routes>>>,
    /// The open subscriptions of this process.
    live: Mutex<BTreeMap<i64, Arc<Ticket>>>,
    /// Sessions whose subscriptions were dropped: whoever comes next returns what they held.
    ended: Mutex<Vec<i64>>,
    /// When a message expires next, as far as is known.
    next_expiry: Mutex<Option<DateTime<Utc>>>,
    /// The lock keeps upkeep to one at a time.
    upkept: tokio::sync::Mutex<Upkept>,
}

impl DatabaseBroker {
    /// A broker on the tables of this store.
    pub fn new(store: &SqlStore) -> DatabaseBroker {
        DatabaseBroker {
            inner: Arc::new(Inner {
                store: store.clone(),
                routes: Mutex::default(),
                live: Mutex::default(),
                ended: Mutex::default(),
                next_expiry: Mutex::default(),
                upkept: tokio::sync::Mutex::new(Upkept::new()),
            }),
        }
    }

    /// Ends every session and returns what they hold: for a process that knows it is alone (SQLite, under the lock
    /// file), before its first subscription.
    pub async fn end_all_sessions(&self) -> Result<(), BrokerError> {
        self.inner.end_all_sessions().await.map_err(broker_error)
    }
}

impl Inner {
    fn now(&self) -> DateTime<Utc> {
        self.store.clock().now()
    }

    /// Wakes who waits for this queue.
    fn ring(&self, queue: &str) {
        self.store.bells().queue(queue);
    }

    async fn depths(&self) -> Result<Vec<QueueDepth>, StoreError> {
        self.return_ended().await?;
        let sql = "SELECT q.queue, \
                   (SELECT count(*) FROM outbox_broker_messages m WHERE m.queue = q.queue AND m.session_id IS NULL) AS ready, \
                   (SELECT count(*) FROM outbox_broker_messages m JOIN outbox_broker_sessions s ON s.session_id = m.session_id \
                    WHERE s.queue = q.queue AND m.session_id IS NOT NULL) AS unacked, \
                   (SELECT count(*) FROM outbox_broker_sessions s WHERE s.queue = q.queue) AS consumers \
                   FROM outbox_broker_queues q ORDER BY q.queue";
        let rows = self.store.reading().await?.fetch(sql, values![]).await?;
        rows.iter()
            .map(|row| {
                let row = row.of("outbox_broker_queues", "queue");
                Ok(QueueDepth {
                    name: row.string("queue")?,
                    ready: row.id("ready")?,
                    unacked: row.id("unacked")?,
                    consumers: row.id("consumers")?,
                })
            })
            .collect()
    }
}

#[async_trait]
impl Broker for DatabaseBroker {
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        self.inner.declare(topology).await
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        self.inner.publish(window).await
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        Ok(Box::new(DatabaseSubscription::open(self.inner.clone(), queue, prefetch).await?))
    }

    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        self.inner.depths().await.map_err(broker_error)
    }

    /// It is in the store: what takes no messages takes no orders either.
    async fn blocked(&self) -> Option<String> {
        None
    }
}

/// What a failed store means to who uses the broker on it.
fn broker_error(error: StoreError) -> BrokerError {
    match error {
        StoreError::Transient(_) | StoreError::Unavailable(_) | StoreError::CommitUnknown(_) => {
            BrokerError::Unreachable(Box::new(error))
        }
        // Keys are made by the database: a conflict is two at once, and over when tried again.
        StoreError::Conflict { .. } => BrokerError::Unreachable(Box::new(error)),
        StoreError::Corrupt { .. } | StoreError::Backend(_) => {
            BrokerError::Refused { what: error.to_string() }
        }
    }
}

/// Nothing panics while holding these locks; if it did, what they hold would still be whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
