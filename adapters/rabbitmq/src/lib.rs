//! The broker on RabbitMQ, 3.10 or later.
//!
//! Publishing and consuming have a connection each: RabbitMQ stops reading a connection that publishes when it is short
//! of memory or disk, and acks must go on. Nothing recovers by itself inside lapin; connections are made when they are
//! needed, and what disappears from the server is declared again.
//!
//! TLS is ours, not lapin's: lapin's features for it always bring a reader of PKCS#12 client certificates, over 30 crates
//! that nothing uses. lapin gets a runtime kit whose stream is plain or TLS (`transport.rs`).

mod connector;
mod fault;
mod inbox;
mod link;
mod message;
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
use handover_outbox::ports::{Broker, BrokerError, Outgoing, PublishOutcome, QueueDepth, Subscription};
use handover_outbox::topology::Topology;
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use fault::Fault;
use publisher::Job;
use shared::Shared;
use subscription::RabbitSubscription;

pub use settings::{InvalidSettings, QueueType, RabbitSettings};

/// Windows that wait for the publisher; who comes after them waits outside.
const WAITING_WINDOWS: usize = 64;

/// Connects to the first node and leaves the rest to the caller: for a program that measures the driver alone, over the
/// same transport. To be called within a Tokio runtime.
pub async fn unsupervised_connection(settings: RabbitSettings) -> Result<lapin::Connection, BrokerError> {
    let settings = Arc::new(settings);
    let Some(host) = settings.hosts.first() else {
        return Err(Fault::Broken("no node is named".to_owned()).away());
    };
    let (connection, _) =
        link::open(&settings, host, "unsupervised").await.map_err(Fault::refused_or_away)?;
    Ok(connection)
}

/// The broker on RabbitMQ. Clones are the same broker.
#[derive(Clone)]
pub struct RabbitBroker {
    shared: Arc<Shared>,
    publisher: mpsc::Sender<Job>,
    _watch: Arc<AbortOnDropHandle<()>>,
}

impl RabbitBroker {
    /// A broker that connects when it is first needed. To be called within a Tokio runtime.
    #[allow(clippy::disallowed_methods, reason = "the tasks end with the broker")]
    pub fn new(settings: RabbitSettings) -> RabbitBroker {
        let shared = Arc::new(Shared::new(settings));
        let (publisher, jobs) = mpsc::channel(WAITING_WINDOWS);
        // It ends when the last handle of the broker is gone and the last window is published.
        drop(tokio::spawn(publisher::run(jobs, Arc::clone(&shared))));
        let watch = AbortOnDropHandle::new(tokio::spawn(watch::run(Arc::clone(&shared))));
        RabbitBroker { shared, publisher, _watch: Arc::new(watch) }
    }

    /// Which RabbitMQ it is: `3.10`.
    pub async fn version(&self) -> Result<String, BrokerError> {
        let link = self.shared.consuming.link().await.map_err(Fault::refused_or_away)?;
        Ok(link.version().await.map_err(Fault::refused_or_away)?.to_string())
    }

    /// How full these queues are, for a process that declares nothing. A queue that does not exist is left out.
    pub async fn depths(&self, topology: &Topology) -> Result<Vec<QueueDepth>, BrokerError> {
        let link = self.shared.consuming.link().await.map_err(Fault::refused_or_away)?;
        let mut names: Vec<String> = topology.queues.iter().map(|spec| spec.name.clone()).collect();
        names.sort_unstable();
        // Counted first: what the server hands over meanwhile is then counted once, or for a moment not at all.
        let mut own: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for inbox in self.shared.inboxes() {
            let (waiting, unsettled) = inbox.counts();
            let counts = own.entry(inbox.queue().to_owned()).or_default();
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
                    name: queue.name,
                }
            })
            .collect())
    }
}

#[async_trait]
impl Broker for RabbitBroker {
    /// What was asked for is kept up from now on, also if the server is away: it is declared when it comes.
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError> {
        let declaring = async {
            let link = self.shared.consuming.link().await.map_err(Fault::refused_or_away)?;
            topology::declare(&link, topology, &self.shared.settings).await
        };
        let declared = declaring.await;
        match &declared {
            Ok(_) | Err(BrokerError::Unreachable(_) | BrokerError::Closed { .. }) => {
                self.shared.keep(topology)
            }
            Err(BrokerError::Refused { .. }) => {}
        }
        declared.map(drop)
    }

    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError> {
        let gone = || BrokerError::Unreachable("the publisher has ended".into());
        let (answer, answered) = oneshot::channel();
        self.publisher.send(Job { window, answer }).await.map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }

    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError> {
        Ok(Box::new(RabbitSubscription::open(&self.shared, queue, prefetch).await?))
    }

    /// Counts what the server has ready, and of what is delivered that of this process: RabbitMQ tells the rest only
    /// through its management API, which is not required to run.
    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError> {
        match self.shared.topology() {
            Some(topology) => self.depths(&topology).await,
            None => Ok(Vec::new()),
        }
    }
    async fn blocked(&self) -> Option<String> {
        self.shared.publishing.established()?.blocked()
    }
}
