//! The database broker: queues as tables of the same database.
//!
//! A message is one row per queue to which it is routed. A subscription is a session with a heartbeat; the messages
//! that it claims are assigned to it until it settles them or ends, or until its heartbeat expires. Wake-up
//! notifications end the wait of consumers; without a notification, a waiting consumer polls once a second.
//!
//! **Invariant:** `publish` reports `Confirmed`, and `ack` and `nack` return `Ok`, only after the commit.
//!
//! **Invariant:** a message is moved between queues in one transaction: it is never visible in both queues or in
//! neither.

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

use crate::store::SqlStore;
use crate::value::values;
use routes::Routes;
use subscription::{DatabaseSubscription, SubscriptionState};
use upkeep::UpkeepState;

/// A message broker on the tables of a store. Cheap to clone: clones share the state.
#[derive(Clone)]
pub struct DatabaseBroker {
    inner: Arc<Inner>,
}

struct Inner {
    store: SqlStore,
    routes: Mutex<Option<Arc<Routes>>>,
    /// The open subscriptions of this process, by session id.
    live: Mutex<BTreeMap<i64, Arc<SubscriptionState>>>,
    /// Sessions of dropped or closed subscriptions whose messages have not been returned to the queue yet.
    ended: Mutex<Vec<i64>>,
    /// The earliest expiry of all messages that this process knows of.
    next_expiry: Mutex<Option<DateTime<Utc>>>,
    /// The lock prevents concurrent maintenance runs.
    upkeep_state: tokio::sync::Mutex<UpkeepState>,
}

impl DatabaseBroker {
    /// Creates a broker on the tables of this store.
    pub fn new(store: &SqlStore) -> DatabaseBroker {
        DatabaseBroker {
            inner: Arc::new(Inner {
                store: store.clone(),
                routes: Mutex::default(),
                live: Mutex::default(),
                ended: Mutex::default(),
                next_expiry: Mutex::default(),
                upkeep_state: tokio::sync::Mutex::new(UpkeepState::new()),
            }),
        }
    }

    /// Ends every session and returns its messages to the queue. Only for a process that uses the database exclusively
    /// (SQLite with the lock file), before its first subscription.
    pub async fn end_all_sessions(&self) -> Result<(), BrokerError> {
        self.inner.end_all_sessions().await.map_err(broker_error)
    }
}

impl Inner {
    fn now(&self) -> DateTime<Utc> {
        self.store.clock().now()
    }

    fn notify_queue(&self, queue: &str) {
        self.store.notifier().notify_queue(queue);
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

    /// Always `None`: publishing is never blocked. The broker shares the database with the store, so a full database
    /// also rejects new events.
    async fn blocked(&self) -> Option<String> {
        None
    }
}

fn broker_error(error: StoreError) -> BrokerError {
    match error {
        StoreError::Transient(_) | StoreError::Unavailable(_) | StoreError::CommitUnknown(_) => {
            BrokerError::Unreachable(Box::new(error))
        }
        // Only concurrent declarations of a queue or binding can conflict; a retry finds the existing row.
        StoreError::Conflict { .. } => BrokerError::Unreachable(Box::new(error)),
        StoreError::Corrupt { .. } | StoreError::Backend(_) => {
            BrokerError::Refused { what: error.to_string() }
        }
    }
}

/// Locks a mutex. No code panics while it holds these locks, and the data would be consistent even then, so poisoning
/// is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
