//! The outbox of one process: what its relay, its consumers, its drainer and its operators work with.

use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::consumers::Subscriber;
use crate::ports::{Broker, OnFailed, StoreError, View};
use crate::topology::Topology;
use crate::{EventRegistry, EventSpec, Transactor};

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
    /// An outbox that knows no event type and no consumer, with the exchange and the queue of dead letters of this topology.
    pub fn new(tx: Transactor, broker: Arc<dyn Broker>, topology: Topology) -> Outbox {
        Outbox {
            tx,
            broker,
            registry: Arc::default(),
            topology: Arc::new(topology),
            consumers: Arc::new([]),
            on_failed: OnFailed::default(),
        }
    }

    /// With one more event type. A name that is registered keeps what it was registered with.
    pub fn with_event(self, spec: EventSpec) -> Outbox {
        let registry = EventRegistry::clone(&self.registry).with(spec);
        Outbox { registry: Arc::new(registry), ..self }
    }

    /// With one more consumer, and the routing keys its queue is bound to (`*` is one word, `#` any number). The queue is
    /// declared with it and dead-letters as all others do.
    pub fn with_consumer<U: ?Sized + 'static>(self, subscriber: &Subscriber<U>, bindings: &[&str]) -> Outbox {
        let topology = Topology::clone(&self.topology).with(subscriber.queue, bindings);
        Outbox { topology: Arc::new(topology), ..self }.with_handler_of(subscriber)
    }

    /// With the consumer of a queue that the topology has already.
    pub fn with_handler_of<U: ?Sized + 'static>(self, subscriber: &Subscriber<U>) -> Outbox {
        let added = (subscriber.queue, subscriber.handler.name());
        Outbox { consumers: self.consumers.iter().copied().chain([added]).collect(), ..self }
    }

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
