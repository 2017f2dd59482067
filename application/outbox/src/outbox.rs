//! The outbox of one process: what its relay, its consumers, its drainer and its operators work with.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::ports::{Broker, OnFailed, StoreError, View};
use crate::topology::Topology;
use crate::{EventRegistry, Transactor};

/// The outbox of one process. Clones share it.
#[derive(Clone)]
pub struct Outbox {
    /// The way into a transaction.
    pub tx: Transactor,
    /// The carrier.
    pub broker: Arc<dyn Broker>,
    /// Every event type that can be sent.
    pub registry: Arc<EventRegistry>,
    /// What the broker must offer.
    pub topology: Arc<Topology>,
    /// The queue and the name of each consumer.
    pub consumers: Arc<[(&'static str, &'static str)]>,
    /// What a given-up event means for later ones of its aggregate.
    pub on_failed: OnFailed,
}

impl Outbox {
    /// The same outbox for what runs by itself: not in the queue of its callers.
    pub fn of_its_own(&self) -> Outbox {
        Outbox { tx: self.tx.of_its_own(), ..self.clone() }
    }

    /// The name of the consumer of a queue.
    pub fn consumer_of(&self, queue: &str) -> Option<&'static str> {
        self.consumers.iter().rfind(|(its, _)| *its == queue).map(|(_, name)| *name)
    }

    /// Now, by the deployment's clock.
    pub fn now(&self) -> DateTime<Utc> {
        self.tx.clock.now()
    }

    /// A view for reading.
    pub async fn view(&self) -> Result<Box<dyn View>, StoreError> {
        self.tx.store.view().await
    }
}
