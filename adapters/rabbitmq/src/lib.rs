//! Broker adapter for RabbitMQ 3.10 or later.
//!
//! Publishing and consuming use separate connections: when RabbitMQ is short of memory or disk it stops reading from
//! connections that publish, and acks must still reach it. lapin's automatic recovery is not used: a connection is
//! opened when it is needed, and objects that disappear from the server are declared again.
//!
//! TLS is done here, not by lapin: lapin's TLS features always compile a reader of PKCS#12 client certificates and
//! over 30 unused crates. lapin gets a runtime kit whose stream is plain or TLS (`transport.rs`).

#![warn(missing_docs)]

mod connector;
mod delivery_buffer;
mod error;
mod link;
mod management;
mod message;
mod mutex;
mod publisher;
mod refusal;
mod settings;
mod shared;
mod subscription;
mod topology;
mod transport;
mod version;
mod watch;

use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;

use async_trait::async_trait;
use handover_outbox::ports::{
    Broker, BrokerError, Outgoing, PublishOutcome, QueueDepth, QueueLoad, Subscription,
};
use handover_outbox::topology::Topology;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use delivery_buffer::DeliveryBuffer;
use error::RabbitError;
use publisher::Job;
use shared::Shared;
use subscription::RabbitSubscription;
use topology::QueueCounts;

pub use management::{LimitingPolicy, ManagementError, limiting_policies};
pub use settings::{InvalidSettings, QueueType, RabbitSettings};

/// Capacity of the publisher's queue of windows; further callers wait.
const WAITING_WINDOWS: usize = 64;

/// Opens a connection to the first node, without reconnecting: for a program that measures the driver over the same
/// transport. MUST be called within a Tokio runtime.
pub async fn unsupervised_connection(settings: RabbitSettings) -> Result<lapin::Connection, BrokerError> {
    let settings = Arc::new(settings);
    let Some(host) = settings.hosts.first() else {
        return Err(RabbitError::Other("the URL names no node".to_owned()).into_unreachable());
    };
    let (connection, _) = link::open(&settings, host, "unsupervised")
        .await
        .map_err(RabbitError::into_refused_or_unreachable)?;
    Ok(connection)
}

/// RabbitMQ broker. Clones share connections and state.
#[derive(Clone)]
pub struct RabbitBroker {
    shared: Arc<Shared>,
    publisher: mpsc::Sender<Job>,
    /// See [`RabbitBroker::expecting`].
    expected: Option<Arc<Topology>>,
    _watch: Arc<AbortOnDropHandle<()>>,
}

impl RabbitBroker {
    /// Creates a broker that connects on first use. MUST be called within a Tokio runtime.
    #[allow(clippy::disallowed_methods, reason = "the tasks end when the broker is dropped")]
    pub fn new(settings: RabbitSettings) -> RabbitBroker {
        let shared = Arc::new(Shared::new(settings));
        let (publisher, jobs) = mpsc::channel(WAITING_WINDOWS);
        // This task ends when the last clone of the broker is dropped and the last window is published.
        drop(tokio::spawn(publisher::run(jobs, Arc::clone(&shared))));
        let watch = AbortOnDropHandle::new(tokio::spawn(watch::run(Arc::clone(&shared))));
        RabbitBroker { shared, publisher, expected: None, _watch: Arc::new(watch) }
    }

    /// Reports the queues of this topology until one is declared: for commands, which declare nothing.
    #[must_use]
    pub fn expecting(self, topology: &Topology) -> RabbitBroker {
        RabbitBroker { expected: Some(Arc::new(topology.clone())), ..self }
    }

    /// Version of the server, for example `3.10`.
    pub async fn version(&self) -> Result<String, BrokerError> {
        let link = self.shared.consuming.link().await.map_err(RabbitError::into_refused_or_unreachable)?;
        Ok(link.version().await.map_err(RabbitError::into_refused_or_unreachable)?.to_string())
    }

    /// Returns the depths of the queues of a topology. Declares nothing; missing queues are omitted.
    pub async fn depths(&self, topology: &Topology) -> Result<Vec<QueueDepth>, BrokerError> {
        let link = self.shared.consuming.link().await.map_err(RabbitError::into_refused_or_unreachable)?;
        let mut names: Vec<String> = topology.queues.iter().map(|spec| spec.name.clone()).collect();
        names.sort_unstable();
        // The counts of this process are read before those of the server: a message that the server delivers between
        // the two reads is omitted, not counted twice.
        let mut own: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for buffer in self.shared.buffers() {
            let (waiting, unsettled) = buffer.counts();
            let counts = own.entry(buffer.queue().to_owned()).or_default();
            *counts = (counts.0 + waiting, counts.1 + unsettled);
        }
        let counted = topology::count(&link, &names, &self.shared.settings).await?;
        Ok(counted
            .into_iter()
            .map(|queue| {
                let (waiting, unsettled) = own.get(&queue.name).copied().unwrap_or_default();
                QueueDepth {
                    ready: queue.ready + waiting,
                    unacked: unsettled,
                    consumers: queue.consumers,
                    // Neither AMQP nor the management API shows the age of a message of any type of queue.
                    oldest_ready: None,
                    name: queue.name,
                }
            })
            .collect())
    }
}

#[async_trait]
impl Broker for RabbitBroker {
    /// Stores the topology even if the server is unreachable: the watch task declares it when a connection is
    /// established.
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        // Held until the topology is the one that is maintained.
        let mut existing_limits = self.shared.declaring.lock().await;
        let declaring = async {
            let link =
                self.shared.consuming.link().await.map_err(RabbitError::into_refused_or_unreachable)?;
            topology::declare(&link, topology, &self.shared.settings, &mut existing_limits).await
        };
        let declared = declaring.await;
        match &declared {
            Ok(_) | Err(BrokerError::Unreachable(_) | BrokerError::Closed { .. }) => {
                self.shared.add_topology(topology, declared.is_ok())
            }
            Err(BrokerError::Refused { .. }) => {}
        }
        let declared = declared?;
        if !declared.missing_exchanges.is_empty() {
            // The watch task logs them, and binds their queues when they exist.
            self.shared.recheck.notify_one();
        }
        Ok(())
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let ended = || BrokerError::Unreachable("the publisher task has ended".into());
        let (reply, outcomes) = oneshot::channel();
        self.publisher.send(Job { window, reply }).await.map_err(|_| ended())?;
        outcomes.await.unwrap_or_else(|_| Err(ended()))
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        Ok(Box::new(RabbitSubscription::open(&self.shared, queue, prefetch).await?))
    }

    /// `unacked` counts only the unsettled deliveries of this process: RabbitMQ reports the total only through its
    /// management API, which is not required.
    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        match self.shared.topology().or_else(|| self.expected.clone()) {
            Some(topology) => self.depths(&topology).await,
            None => Ok(Vec::new()),
        }
    }

    /// The server always counts all messages. Messages that it has sent to a consumer are not ready.
    async fn load(&self, queues: &[String], _up_to: u32) -> Result<Vec<QueueLoad>, BrokerError> {
        let load = |queue: QueueCounts| QueueLoad {
            name: queue.name,
            ready: queue.ready,
            consumers: queue.consumers,
        };
        Ok(self.shared.count(queues).await?.into_iter().map(load).collect())
    }

    /// Reads the count of the server first, so that a message that is delivered between the two reads is counted.
    async fn has_messages(&self, queue: &str) -> Result<bool, BrokerError> {
        let counted = self.shared.count(&[queue.to_owned()]).await?;
        let is_ready = counted.iter().any(|queue| queue.ready > 0);
        let has_own = |buffer: &Arc<DeliveryBuffer>| buffer.queue() == queue && buffer.counts() != (0, 0);
        Ok(is_ready || self.shared.buffers().iter().any(has_own))
    }

    async fn blocked(&self) -> Option<String> {
        self.shared.publishing.established()?.blocked()
    }
}
