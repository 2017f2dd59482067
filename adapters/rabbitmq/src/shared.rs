//! State shared by publisher, subscriptions and watch task.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use handover_outbox::ports::BrokerError;
use handover_outbox::topology::Topology;
use lapin::Channel;
use tokio::sync::Notify;

use crate::connector::Connector;
use crate::delivery_buffer::DeliveryBuffer;
use crate::error::RabbitError;
use crate::link::Link;
use crate::mutex::lock;
use crate::settings::RabbitSettings;
use crate::topology::{ExistingLimits, QueueCounts, count_on};

pub(crate) struct Shared {
    pub(crate) settings: Arc<RabbitSettings>,
    /// Connection for publishing only, because the server blocks it when it accepts no messages.
    pub(crate) publishing: Arc<Connector>,
    /// Connection for consumers, declarations and counts.
    pub(crate) consuming: Arc<Connector>,
    /// Wakes the watch task when a connection was opened or an object may have disappeared from the server.
    pub(crate) recheck: Arc<Notify>,
    /// Held during a declaration, so that no earlier topology is declared after a later one.
    pub(crate) declaring: tokio::sync::Mutex<ExistingLimits>,
    /// The channel on which the load of queues is counted, which happens often, and its connection.
    counting: tokio::sync::Mutex<Option<(Arc<Link>, Channel)>>,
    topology: Mutex<Option<Maintained>>,
    buffers: Mutex<BTreeMap<u64, Weak<DeliveryBuffer>>>,
    last_buffer_id: AtomicU64,
}

struct Maintained {
    topology: Arc<Topology>,
    /// Whether the server has accepted the whole topology. Before that, a queue of a message may not exist yet.
    is_declared: bool,
}

impl Shared {
    pub(crate) fn new(settings: RabbitSettings) -> Shared {
        let settings = Arc::new(settings);
        let recheck = Arc::new(Notify::new());
        let connector = |purpose| Connector::new(purpose, Arc::clone(&settings), Arc::clone(&recheck));
        Shared {
            publishing: connector("publishing"),
            consuming: connector("consuming"),
            settings: Arc::clone(&settings),
            recheck,
            declaring: tokio::sync::Mutex::default(),
            counting: tokio::sync::Mutex::default(),
            topology: Mutex::default(),
            buffers: Mutex::default(),
            last_buffer_id: AtomicU64::new(0),
        }
    }

    /// Counts of these queues as reported by the server. Missing queues are omitted.
    pub(crate) async fn count(&self, queues: &[String]) -> Result<Vec<QueueCounts>, BrokerError> {
        let mut counting = self.counting.lock().await;
        // Without its place in `counting`, the channel is closed if an error or a cancelled call leaves it in an unknown state.
        let open = counting.take().filter(|(link, channel)| link.is_up() && channel.status().connected());
        let (link, mut channel) = match open {
            Some(open) => open,
            None => {
                let link = self.consuming.link().await.map_err(RabbitError::into_refused_or_unreachable)?;
                let channel = link.channel().await.map_err(RabbitError::into_refused_or_unreachable)?;
                (link, channel)
            }
        };
        let counted = count_on(&link, &mut channel, queues, &self.settings).await?;
        *counting = Some((link, channel));
        Ok(counted)
    }

    /// Topology for publishing; `None` before it is declared.
    pub(crate) fn declared(&self) -> Option<Arc<Topology>> {
        let maintained = lock(&self.topology);
        let declared = maintained.as_ref().filter(|maintained| maintained.is_declared)?;
        Some(Arc::clone(&declared.topology))
    }

    /// Topology to maintain on the server.
    pub(crate) fn topology(&self) -> Option<Arc<Topology>> {
        lock(&self.topology).as_ref().map(|maintained| Arc::clone(&maintained.topology))
    }

    /// Adds a topology to maintain. Queues of earlier topologies with the same exchange are kept. If the server has accepted each
    /// queue before, messages are published also after a declaration that was not answered.
    pub(crate) fn add_topology(&self, added: &Topology, mut is_declared: bool) {
        let mut maintained = lock(&self.topology);
        let mut merged = added.clone();
        if let Some(earlier) = maintained.as_ref().filter(|it| it.topology.exchange == added.exchange) {
            let earlier_queues = &earlier.topology.queues;
            is_declared |=
                earlier.is_declared && added.queues.iter().all(|spec| earlier_queues.contains(spec));
            let new = |name: &str| !added.queues.iter().any(|spec| spec.name == name);
            merged.queues.extend(earlier_queues.iter().filter(|spec| new(&spec.name)).cloned());
        }
        *maintained = Some(Maintained { topology: Arc::new(merged), is_declared });
    }

    /// Marks `topology` as declared, unless another one has been added since it was read.
    pub(crate) fn set_declared(&self, topology: &Arc<Topology>) {
        if let Some(maintained) = lock(&self.topology).as_mut() {
            maintained.is_declared |= Arc::ptr_eq(&maintained.topology, topology);
        }
    }

    pub(crate) fn new_buffer(&self, queue: &str) -> Arc<DeliveryBuffer> {
        let buffer = Arc::new(DeliveryBuffer::new(queue));
        let mut buffers = lock(&self.buffers);
        buffers.retain(|_, buffer| buffer.strong_count() > 0);
        buffers.insert(self.last_buffer_id.fetch_add(1, Ordering::Relaxed), Arc::downgrade(&buffer));
        buffer
    }

    /// Buffers of active subscriptions.
    pub(crate) fn buffers(&self) -> Vec<Arc<DeliveryBuffer>> {
        let buffers: Vec<_> = lock(&self.buffers).values().filter_map(Weak::upgrade).collect();
        buffers.into_iter().filter(|buffer| !buffer.has_ended()).collect()
    }
}
