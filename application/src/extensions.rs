//! What a service adds that is built on these crates: event types and consumers of its own.

use std::collections::BTreeMap;
use std::fmt;

use crate::consumers::{Subscriber, standard};
use crate::topology::{QueueSpec, Topology};
use crate::{App, topology};

/// Whether the marketplace itself runs beside the extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Marketplace {
    /// Its queues are declared and its consumers run.
    #[default]
    Runs,
    /// Only the outbox, the relay and the dead letters do: the toolkit without the order service.
    Absent,
}

/// Event types and consumers beside the marketplace's own, or instead of them.
#[derive(Clone, Default)]
pub struct Extensions {
    marketplace: Marketplace,
    routes: BTreeMap<String, String>,
    consumers: Vec<(Subscriber, Vec<String>)>,
}

impl Extensions {
    /// Nothing beyond the marketplace, or not even that.
    pub fn new(marketplace: Marketplace) -> Extensions {
        Extensions { marketplace, ..Extensions::default() }
    }

    /// Whether the marketplace runs too.
    pub(crate) fn marketplace(&self) -> Marketplace {
        self.marketplace
    }

    /// Events of this type are published with this routing key. A type of the marketplace keeps its own.
    pub fn route(mut self, event_type: &str, routing_key: &str) -> Extensions {
        self.routes.insert(event_type.to_owned(), routing_key.to_owned());
        self
    }

    /// A consumer, and the routing keys its queue is bound to (`*` is one word, `#` any number). The queue is declared
    /// with it and dead-letters as all others do.
    pub fn consumer(mut self, subscriber: Subscriber, bindings: &[&str]) -> Extensions {
        self.consumers.push((subscriber, bindings.iter().map(|key| (*key).to_owned()).collect()));
        self
    }

    /// The key of an added event type.
    pub(crate) fn routing_key(&self, event_type: &str) -> Option<&str> {
        self.routes.get(event_type).map(String::as_str)
    }
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let consumers: Vec<_> = self.consumers.iter().map(|(added, keys)| (added.queue, keys)).collect();
        f.debug_struct("Extensions")
            .field("marketplace", &self.marketplace)
            .field("routes", &self.routes)
            .field("consumers", &consumers)
            .finish()
    }
}

impl App {
    /// Every consumer of this application with its queue.
    pub fn subscribers(&self) -> Vec<Subscriber> {
        let own = match self.extensions.marketplace {
            Marketplace::Runs => standard(self),
            Marketplace::Absent => Vec::new(),
        };
        let added = self.extensions.consumers.iter().map(|(subscriber, _)| subscriber.clone());
        own.into_iter().chain(added).collect()
    }

    /// What the broker must offer to this application.
    pub fn topology(&self) -> Topology {
        let mut topology = match self.extensions.marketplace {
            Marketplace::Runs => Topology::standard(self.rules.pending_timeout),
            Marketplace::Absent => Topology::bare(),
        };
        topology.queues.extend(self.extensions.consumers.iter().map(|(added, keys)| QueueSpec {
            name: added.queue.to_owned(),
            bindings: keys.clone(),
            ttl: None,
            dead_letter_key: Some(topology::DEAD_LETTER_KEY.to_owned()),
        }));
        topology
    }
}
