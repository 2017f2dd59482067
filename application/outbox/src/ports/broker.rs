//! The broker: carries events to queues. It is a carrier only; the database alone is the truth.

use std::collections::BTreeMap;
use std::num::NonZeroU16;

use async_trait::async_trait;
use handover_events::EventId;

use crate::topology::Topology;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What a caller can do about a failed broker.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// It cannot be reached: an outage, nobody's fault. Probe again with backoff.
    #[error("the broker is away: {0}")]
    Unreachable(#[source] Cause),
    /// The subscription is over; what it had not settled is returned to the queue. Subscribe again.
    #[error("the subscription to {queue} is closed")]
    Closed {
        /// The queue.
        queue: String,
    },
    /// The broker refuses what we ask, and will again: a person has to look.
    #[error("the broker refuses: {what}")]
    Refused {
        /// What, why and the way out.
        what: String,
    },
}

/// A message: an envelope and its properties (spec §3).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// `message_id`: the event id. A message from elsewhere may have none.
    pub message_id: Option<String>,
    /// `type`: the event type.
    pub kind: Option<String>,
    /// `correlation_id`: the trace id.
    pub correlation_id: Option<String>,
    /// `tenantId`, `traceparent`, `aggregateType`, `aggregateId`.
    pub headers: BTreeMap<String, String>,
    /// The envelope.
    pub body: String,
}

/// A message on its way to the broker. Only who was handed it can say what became of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Outgoing {
    event_id: EventId,
    route: Route,
    message: Message,
}

/// Which way a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// Through the topic exchange, with this routing key.
    Topic(String),
    /// To this queue alone, past every binding: a replayed dead letter.
    Queue(String),
}

impl Outgoing {
    /// A message to be published to the topic exchange with this key.
    pub fn new(event_id: EventId, routing_key: String, message: Message) -> Outgoing {
        Outgoing { event_id, route: Route::Topic(routing_key), message }
    }

    /// A message for one queue alone.
    pub fn to_queue(event_id: EventId, queue: String, message: Message) -> Outgoing {
        Outgoing { event_id, route: Route::Queue(queue), message }
    }

    /// The event it carries.
    pub fn event_id(&self) -> &EventId {
        &self.event_id
    }

    /// Which way it goes.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// The message.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// The broker took responsibility for it *and* routed it to a queue. For broker adapters alone.
    pub fn confirmed(self) -> PublishOutcome {
        PublishOutcome::Confirmed(Confirmed { event_id: self.event_id })
    }

    /// No queue takes it.
    pub fn returned(self, reason: impl Into<String>) -> PublishOutcome {
        PublishOutcome::Returned { event_id: self.event_id, reason: reason.into() }
    }

    /// The broker refused it.
    pub fn nacked(self, reason: impl Into<String>) -> PublishOutcome {
        PublishOutcome::Nacked { event_id: self.event_id, reason: reason.into() }
    }

    /// The connection was lost before the broker answered: it may be there, or not.
    pub fn unknown(self, reason: impl Into<String>) -> PublishOutcome {
        PublishOutcome::Unknown { event_id: self.event_id, reason: reason.into() }
    }
}

/// Proof that the broker has an event: what `mark_sent` asks for. Made by [`Outgoing::confirmed`] alone.
#[derive(Debug, PartialEq, Eq)]
pub struct Confirmed {
    event_id: EventId,
}

impl Confirmed {
    /// The event that is confirmed.
    pub fn event_id(&self) -> &EventId {
        &self.event_id
    }
}

/// What became of one published message.
#[derive(Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// It is in every queue that takes it, durably.
    Confirmed(Confirmed),
    /// No queue takes it; it is nowhere.
    Returned {
        /// Which event.
        event_id: EventId,
        /// What the broker said.
        reason: String,
    },
    /// The broker could not take it.
    Nacked {
        /// Which event.
        event_id: EventId,
        /// What the broker said.
        reason: String,
    },
    /// Nobody knows; publish it again.
    Unknown {
        /// Which event.
        event_id: EventId,
        /// What happened.
        reason: String,
    },
}

impl PublishOutcome {
    /// Which event.
    pub fn event_id(&self) -> &EventId {
        match self {
            PublishOutcome::Confirmed(confirmed) => &confirmed.event_id,
            PublishOutcome::Returned { event_id, .. }
            | PublishOutcome::Nacked { event_id, .. }
            | PublishOutcome::Unknown { event_id, .. } => event_id,
        }
    }
}

/// A delivery's handle within its subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryTag(pub u64);

/// A message handed to a consumer, unsettled until it is acked or nacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Its handle.
    pub tag: DeliveryTag,
    /// Whether it was, or may have been, handed to someone before.
    pub redelivered: bool,
    /// In a dead-letter queue: the queue at whose consumer it died last.
    pub died_in: Option<String>,
    /// The message.
    pub message: Message,
}

/// What happens to a message that is nacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// It is delivered again, marked as redelivered.
    Yes,
    /// It is dead-lettered as its queue says, or dropped where the queue says nothing.
    No,
}

/// How full a queue is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueDepth {
    /// The queue.
    pub name: String,
    /// Waiting to be delivered (in a delay queue: or to expire).
    pub ready: u64,
    /// Delivered, not settled.
    pub unacked: u64,
    /// Live subscriptions.
    pub consumers: u64,
}

/// Publishes and subscribes.
#[async_trait]
pub trait Broker: Send + Sync {
    /// Declares exchange, queues and bindings. Again with the same arguments MUST change nothing; a queue that exists
    /// with other arguments MUST be `Refused` with queue, argument and both values, and nothing deleted. A
    /// broker that can be away (`Unreachable`) while the store is there MUST declare what was asked for once it is back.
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError>;

    /// Publishes a window with `mandatory` and waits for every confirm. Answers in the order given, one per message. Before
    /// anything was declared, a message for the exchange may be `Refused`.
    ///
    /// - `Confirmed` MUST mean: durably in every bound queue, and routed to at least one.
    /// - A message that no queue takes MUST be `Returned`, and only that message.
    /// - One for [`Route::Queue`] MUST enter that queue and no other, whatever is bound; `Returned` if there is none.
    /// - `Err` MUST mean that nothing is known of any of them (as if all were `Unknown`).
    /// - Messages of one window MUST enter a queue in their order.
    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError>;

    /// Subscribes to a queue with manual acks. At most `prefetch` deliveries are ever unsettled.
    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError>;

    /// Every declared queue in order of names.
    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError>;

    /// Why the broker takes no messages at the moment, if it says so: it is short of memory or disk. Publishing would
    /// only wait; what consumers do goes on.
    async fn blocked(&self) -> Option<String>;
}

/// A consumer's end of a queue. Dropping it MUST return what is unsettled, marked as redelivered, to the queue.
#[async_trait]
pub trait Subscription: Send + Sync {
    /// Waits for the next deliveries: at least one, as many as the prefetch allows. Messages come in the order of the
    /// queue, those returned to it near its head. A dropped call MUST NOT lose a message: it comes with the next call
    /// or after the subscription is closed.
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError>;

    /// Done: the messages are gone for good once this returned `Ok`. Tags already settled are ignored.
    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError>;

    /// Not done. `Requeue::No` MUST move the message to the queue's dead-letter target in one step.
    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError>;

    /// Ends the subscription and returns what is unsettled to the queue.
    async fn close(&self) -> Result<(), BrokerError>;
}
