//! What a service adds that is built on these crates: event types and consumers of its own.

use std::fmt;
use std::time::Duration;

use handover_domain::{AggregateType, EventType};

use crate::App;
use crate::handlers::standard;
use crate::ports::Work;
use crate::privacy::VISIBLE;
use crate::queues::{self, timeout_delay_key};
use handover_outbox::consumers::{Bound, Subscriber};
use handover_outbox::topology::Topology;
use handover_outbox::{EventRegistry, EventSpec};
use tracing::info_span;

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
    events: Vec<EventSpec>,
    consumers: Vec<(Subscriber<Work>, Vec<String>)>,
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

    /// Adds an event type. A type of the marketplace keeps its own routing key as long as the marketplace runs.
    pub fn event(mut self, spec: EventSpec) -> Extensions {
        self.events.push(spec);
        self
    }

    /// A consumer, and the routing keys its queue is bound to (`*` is one word, `#` any number). The queue is declared
    /// with it and dead-letters as all others do.
    pub fn consumer(mut self, subscriber: Subscriber<Work>, bindings: &[&str]) -> Extensions {
        self.consumers.push((subscriber, bindings.iter().map(|key| (*key).to_owned()).collect()));
        self
    }

    /// Every event type of the application; the deadline of an order decides where ORDER_TIMEOUT waits.
    pub(crate) fn registry(&self, pending_timeout: Duration) -> EventRegistry {
        let own = match self.marketplace {
            Marketplace::Runs => marketplace_events(pending_timeout),
            Marketplace::Absent => EventRegistry::default(),
        };
        self.events.iter().cloned().fold(own, EventRegistry::with)
    }

    /// What the broker must offer to the application.
    pub(crate) fn topology(&self, pending_timeout: Duration) -> Topology {
        let own = match self.marketplace {
            Marketplace::Runs => queues::topology(pending_timeout),
            Marketplace::Absent => queues::bare(),
        };
        self.consumers.iter().fold(own, |topology, (added, keys)| topology.with(added.queue, keys))
    }
}

/// The event types of the marketplace (spec §3).
fn marketplace_events(pending_timeout: Duration) -> EventRegistry {
    let spec = |event_type: &EventType| {
        let routing_key = if *event_type == EventType::OrderTimeout {
            timeout_delay_key(pending_timeout)
        } else {
            event_type.routing_key().to_owned()
        };
        let aggregate = event_type.aggregate();
        let id_field = match aggregate {
            AggregateType::Order => "orderId",
            AggregateType::Payment => "paymentId",
            AggregateType::Refund => "refundId",
            AggregateType::Invoice => "invoiceId",
        };
        let spec = EventSpec::new(event_type.as_str(), routing_key)
            .about(aggregate.as_str(), id_field)
            .visible(&VISIBLE);
        let spec = match aggregate {
            AggregateType::Order => spec.logged_in(|id| info_span!("order", orderId = id)),
            AggregateType::Payment | AggregateType::Refund | AggregateType::Invoice => spec,
        };
        if event_type.is_ordered() { spec } else { spec.unordered() }
    };
    EventType::ALL.iter().map(spec).fold(EventRegistry::default(), EventRegistry::with)
}

impl fmt::Debug for Extensions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let consumers: Vec<_> = self.consumers.iter().map(|(added, keys)| (added.queue, keys)).collect();
        f.debug_struct("Extensions")
            .field("marketplace", &self.marketplace)
            .field("events", &self.events)
            .field("consumers", &consumers)
            .finish()
    }
}

impl App {
    /// Every consumer of this application with its queue.
    pub fn subscribers(&self) -> Vec<Subscriber<Work>> {
        let own = match self.extensions.marketplace {
            Marketplace::Runs => standard(self),
            Marketplace::Absent => Vec::new(),
        };
        let added = self.extensions.consumers.iter().map(|(subscriber, _)| subscriber.clone());
        own.into_iter().chain(added).collect()
    }

    /// The same consumers, at work in this application's store.
    pub(crate) fn bound(&self) -> Vec<Bound> {
        self.subscribers().iter().map(|subscriber| subscriber.bind(&self.tx.store)).collect()
    }
}
