//! What publisher, subscriptions and watch have in common.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use handover_outbox::topology::Topology;
use tokio::sync::Notify;

use crate::connector::Connector;
use crate::inbox::Inbox;
use crate::settings::RabbitSettings;

pub(crate) struct Shared {
    pub(crate) settings: Arc<RabbitSettings>,
    /// Blocked by the server when it takes no messages, so nothing else goes over it.
    pub(crate) publishing: Arc<Connector>,
    /// For consumers, declarations and counts.
    pub(crate) consuming: Arc<Connector>,
    /// Rung when something may have disappeared from the server.
    pub(crate) look_again: Arc<Notify>,
    topology: Mutex<Option<Arc<Topology>>>,
    inboxes: Mutex<BTreeMap<u64, Weak<Inbox>>>,
    last_inbox: AtomicU64,
}

impl Shared {
    pub(crate) fn new(settings: RabbitSettings) -> Shared {
        let (settings, look_again) = (Arc::new(settings), Arc::new(Notify::new()));
        let connector = |purpose| Connector::new(purpose, Arc::clone(&settings), Arc::clone(&look_again));
        Shared {
            publishing: connector("publishing"),
            consuming: connector("consuming"),
            settings: Arc::clone(&settings),
            look_again,
            topology: Mutex::default(),
            inboxes: Mutex::default(),
            last_inbox: AtomicU64::new(0),
        }
    }

    /// The exchange that is published to; `None` before anything was declared.
    pub(crate) fn exchange(&self) -> Option<String> {
        lock(&self.topology).as_ref().map(|topology| topology.exchange.clone())
    }

    /// What is to be kept on the server.
    pub(crate) fn topology(&self) -> Option<Arc<Topology>> {
        lock(&self.topology).clone()
    }

    /// Adds to what is to be kept: a queue that is left out of a later declaration stays.
    pub(crate) fn keep(&self, wanted: &Topology) {
        let mut topology = lock(&self.topology);
        let mut kept = wanted.clone();
        if let Some(earlier) = topology.as_ref().filter(|earlier| earlier.exchange == wanted.exchange) {
            let new = |name: &str| !wanted.queues.iter().any(|spec| spec.name == name);
            kept.queues.extend(earlier.queues.iter().filter(|spec| new(&spec.name)).cloned());
        }
        *topology = Some(Arc::new(kept));
    }

    /// A new inbox for deliveries of a queue.
    pub(crate) fn inbox(&self, queue: &str) -> Arc<Inbox> {
        let inbox = Arc::new(Inbox::new(queue));
        let mut inboxes = lock(&self.inboxes);
        inboxes.retain(|_, inbox| inbox.strong_count() > 0);
        inboxes.insert(self.last_inbox.fetch_add(1, Ordering::Relaxed), Arc::downgrade(&inbox));
        inbox
    }

    /// The inboxes of live subscriptions.
    pub(crate) fn inboxes(&self) -> Vec<Arc<Inbox>> {
        let inboxes: Vec<_> = lock(&self.inboxes).values().filter_map(Weak::upgrade).collect();
        inboxes.into_iter().filter(|inbox| !inbox.has_ended()).collect()
    }
}

/// The lock, also after a panic elsewhere: every state under it is whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
