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
mod inner;
mod messages;
mod publish;
mod routes;
mod subscription;
mod subscription_state;
mod upkeep;
mod upkeep_state;

use std::num::NonZeroU16;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
#[cfg(doc)]
use handover_outbox::LowWaterMark;
use handover_outbox::ports::{
    Broker, BrokerError, Outgoing, PublishOutcome, QueueDepth, QueueLoad, Subscription,
};
use handover_outbox::topology::Topology;

use crate::store::SqlStore;
use inner::{Inner, broker_error};
use subscription::DatabaseSubscription;
use upkeep_state::UpkeepState;

/// Time after which a search for ready messages counts as slow: it reads the dead versions of settled messages, which the
/// database keeps while another transaction is open.
const SLOW_SEARCH: Duration = Duration::from_millis(10);

/// A message broker on the tables of a store. Cheap to clone: clones share the state.
#[derive(Clone)]
pub struct DatabaseBroker {
    inner: Arc<Inner>,
}

impl DatabaseBroker {
    /// Creates a broker on the tables of this store.
    pub fn new(store: &SqlStore) -> DatabaseBroker {
        DatabaseBroker::with_slow_search(store, SLOW_SEARCH)
    }

    /// The same, with another time after which a search for ready messages counts as slow. While the last search of a whole
    /// queue was slow, a claim begins at a mark, and a concurrent search reads the whole queue in slices ([`LowWaterMark`]).
    pub fn with_slow_search(store: &SqlStore, slow_search: Duration) -> DatabaseBroker {
        DatabaseBroker {
            inner: Arc::new(Inner {
                store: store.clone(),
                slow_search,
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

    async fn load(&self, queues: &[String], up_to: u32) -> Result<Vec<QueueLoad>, BrokerError> {
        self.inner.load(queues, up_to).await.map_err(broker_error)
    }

    async fn has_messages(&self, queue: &str) -> Result<bool, BrokerError> {
        self.inner.has_messages(queue).await.map_err(broker_error)
    }

    /// Always `None`: publishing is never blocked. The broker shares the database with the store, so a full database
    /// also rejects new events.
    async fn blocked(&self) -> Option<String> {
        None
    }
}
