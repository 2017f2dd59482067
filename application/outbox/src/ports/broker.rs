//! The broker delivers events to queues. The database is authoritative; the broker is only the transport.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU16;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use handover_events::EventId;

use crate::topology::Topology;

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Broker errors, classified by how the caller can react.
#[derive(Debug, thiserror::Error)]
pub enum BrokerError {
    /// The broker is unreachable. The caller counts no attempt and probes the broker with backoff.
    #[error("broker unreachable: {0}")]
    Unreachable(#[source] Cause),
    /// The subscription ended; its unsettled messages return to the queue. Subscribe again.
    #[error("subscription to queue {queue} closed")]
    Closed {
        /// Name of the queue.
        queue: String,
    },
    /// The broker rejects the request, and a repeated request would also be rejected. An operator has to act.
    #[error("broker rejected the request: {what}")]
    Refused {
        /// The rejected request, the reason, and how to resolve the problem.
        what: String,
    },
}

/// A message: an envelope and its properties.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Message {
    /// `message_id`: the event id. Messages from other publishers may have none.
    pub message_id: Option<String>,
    /// `type`: the event type.
    pub kind: Option<String>,
    /// `correlation_id`: the trace id.
    pub correlation_id: Option<String>,
    /// The headers `tenantId`, `traceparent`, `requestId`, `aggregateType`, `aggregateId` and `aggregateSeq`.
    pub headers: BTreeMap<String, String>,
    /// The envelope.
    pub body: String,
}

/// A message to be published. A [`Confirmed`] can be created only from the message that was published.
#[derive(Debug, PartialEq, Eq)]
pub struct Outgoing {
    event_id: EventId,
    route: Route,
    excluded: BTreeSet<String>,
    message: Message,
}

/// Destination of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// The message is published to the topic exchange with this routing key.
    Topic(String),
    /// The message is published directly to this queue, without the bindings. Used to replay a dead letter.
    Queue(String),
}

impl Outgoing {
    /// A message for the topic exchange with this routing key.
    pub fn new(event_id: EventId, routing_key: String, message: Message) -> Outgoing {
        Outgoing { event_id, route: Route::Topic(routing_key), excluded: BTreeSet::new(), message }
    }

    /// A message for one queue only.
    pub fn to_queue(event_id: EventId, queue: String, message: Message) -> Outgoing {
        Outgoing { event_id, route: Route::Queue(queue), excluded: BTreeSet::new(), message }
    }

    /// The same message for all matching queues except these, which MUST be selective
    /// ([`QueueSpec::is_selective`](crate::topology::QueueSpec::is_selective)).
    pub fn excluding(self, queues: BTreeSet<String>) -> Outgoing {
        Outgoing { excluded: queues, ..self }
    }

    /// The queues that the message does not enter although their bindings match.
    pub fn excluded(&self) -> &BTreeSet<String> {
        &self.excluded
    }

    /// Id of the event in the message.
    pub fn event_id(&self) -> &EventId {
        &self.event_id
    }

    /// Destination of the message.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// The message.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// The broker stored the message *and* routed it to a queue. Only broker adapters may call this method.
    pub fn confirmed(self) -> PublishOutcome {
        PublishOutcome::Confirmed(Confirmed { event_id: self.event_id })
    }

    /// No queue matched the message.
    pub fn returned(self, reason: impl Into<String>) -> PublishOutcome {
        PublishOutcome::Returned { event_id: self.event_id, reason: reason.into() }
    }

    /// The broker nacked the message.
    pub fn nacked(self, reason: impl Into<String>) -> PublishOutcome {
        PublishOutcome::Nacked { event_id: self.event_id, reason: reason.into() }
    }

    /// The connection was lost before the broker replied: the message may be stored or not.
    pub fn unknown(self, reason: impl Into<String>) -> PublishOutcome {
        PublishOutcome::Unknown { event_id: self.event_id, reason: reason.into() }
    }
}

/// Proof that the broker stored an event; `mark_sent` requires it. Only [`Outgoing::confirmed`] creates it.
#[derive(Debug, PartialEq, Eq)]
pub struct Confirmed {
    event_id: EventId,
}

impl Confirmed {
    /// Id of the confirmed event.
    pub fn event_id(&self) -> &EventId {
        &self.event_id
    }
}

/// Result of publishing one message.
#[derive(Debug, PartialEq, Eq)]
pub enum PublishOutcome {
    /// The message is durably stored in every queue that matches it.
    Confirmed(Confirmed),
    /// No queue matched; the message is stored nowhere.
    Returned {
        /// Event id.
        event_id: EventId,
        /// Reason given by the broker.
        reason: String,
    },
    /// The broker could not store the message.
    Nacked {
        /// Event id.
        event_id: EventId,
        /// Reason given by the broker.
        reason: String,
    },
    /// The outcome is unknown; publish the message again.
    Unknown {
        /// Event id.
        event_id: EventId,
        /// Reason why the outcome is unknown.
        reason: String,
    },
}

impl PublishOutcome {
    /// Id of the published event.
    pub fn event_id(&self) -> &EventId {
        match self {
            PublishOutcome::Confirmed(confirmed) => &confirmed.event_id,
            PublishOutcome::Returned { event_id, .. }
            | PublishOutcome::Nacked { event_id, .. }
            | PublishOutcome::Unknown { event_id, .. } => event_id,
        }
    }
}

/// Identifies a delivery within its subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeliveryTag(pub u64);

/// A message delivered to a consumer; unsettled until it is acked or nacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Tag for ack and nack.
    pub tag: DeliveryTag,
    /// Whether the message was, or may have been, delivered before.
    pub redelivered: bool,
    /// In a dead-letter queue: the queue from which the message was last dead-lettered.
    pub died_in: Option<String>,
    /// The message.
    pub message: Message,
}

/// Handling of a nacked message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Requeue {
    /// The message is delivered again, marked as redelivered.
    Yes,
    /// The message is moved to the dead-letter target of its queue, or dropped if the queue has none.
    No,
}

/// Message and consumer counts of a queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueDepth {
    /// Name of the queue.
    pub name: String,
    /// Messages waiting for delivery (in a delay queue: for expiry).
    pub ready: u64,
    /// Messages that are delivered and not settled.
    pub unacked: u64,
    /// Active subscriptions.
    pub consumers: u64,
    /// Time at which the first ready message entered the queue; `None` without one, and if the broker does not show it.
    pub oldest_ready: Option<DateTime<Utc>>,
}

/// Ready messages and consumers of a queue, as [`Broker::load`] counts them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueLoad {
    /// Name of the queue.
    pub name: String,
    /// Messages waiting for delivery.
    pub ready: u64,
    /// Active subscriptions.
    pub consumers: u64,
}

/// Publishes to the broker and subscribes to queues.
#[async_trait]
pub trait Broker: Send + Sync {
    /// Declares exchange, queues and bindings.
    ///
    /// - Repeating the call with the same arguments MUST change nothing.
    /// - If a queue exists with other arguments, the result MUST be `Refused` with queue, argument and both values,
    ///   and nothing is deleted.
    /// - A queue that receives from the exchange of another outbox MUST be bound to it as well, and MUST deliver to one
    ///   subscription at a time. That exchange MUST NOT be declared. While it is missing, the rest MUST be declared all the
    ///   same, and the adapter MUST bind the queue when the exchange exists. A broker to which no other outbox publishes, such as the
    ///   tables of a database, MUST refuse.
    /// - If the broker can be `Unreachable` while the store is available, the adapter MUST declare the topology after
    ///   it has reconnected.
    async fn declare(&self, topology: &Topology) -> Result<(), BrokerError>;

    /// Publishes a window with `mandatory` and waits for all confirms. Returns one outcome per message, in the order
    /// given. Before a topology is declared, a message for the exchange is `Returned`, or the result is `Unreachable`: the
    /// declaration may still be in progress.
    ///
    /// - `Confirmed` MUST mean: durably stored in every bound queue, and routed to at least one.
    /// - A message that no queue matches MUST be `Returned`, and only that message.
    /// - A message MUST NOT enter a selective queue that it excludes, unless the topology was declared with older relays. If it
    ///   excludes every queue that matches it, it MUST be `Confirmed`: nobody needs it.
    /// - A message for [`Route::Queue`] MUST enter that queue and no other, regardless of bindings; `Returned` if the
    ///   queue does not exist.
    /// - `Err` MUST mean that no outcome is known (as if all were `Unknown`).
    /// - Messages of one window MUST enter a queue in their order.
    /// - The relay publishes up to two windows at the same time. The broker may publish one after the other.
    async fn publish(&self, window: Vec<Outgoing>) -> Result<Vec<PublishOutcome>, BrokerError>;

    /// Subscribes to a queue with manual acks. At most `prefetch` deliveries are unsettled at any time.
    async fn subscribe(
        &self,
        queue: &str,
        prefetch: NonZeroU16,
    ) -> Result<Box<dyn Subscription>, BrokerError>;

    /// Every declared queue, ordered by name.
    async fn queues(&self) -> Result<Vec<QueueDepth>, BrokerError>;

    /// Ready messages and consumers of these queues, in any order; missing queues are omitted.
    ///
    /// - If more than `up_to` messages are ready, the count MAY be smaller than their number, but MUST NOT be smaller than
    ///   `up_to`.
    /// - The relay calls it often while a backlog waits, and otherwise after every 50 events, for at most a twentieth of its
    ///   time: it SHOULD cost little, whatever the length of the queues.
    async fn load(&self, queues: &[String], up_to: u32) -> Result<Vec<QueueLoad>, BrokerError> {
        let _ = up_to;
        let all = self.queues().await?.into_iter();
        let asked = all.filter(|depth| queues.contains(&depth.name));
        let load = |QueueDepth { name, ready, consumers, .. }| QueueLoad { name, ready, consumers };
        Ok(asked.map(load).collect())
    }

    /// Whether the queue has a message that is ready or unsettled; `false` for a missing queue. Of unsettled messages, only those
    /// of this process have to count. Each consumer calls it every few seconds: it SHOULD cost little, whatever the length of the
    /// queues.
    async fn has_messages(&self, queue: &str) -> Result<bool, BrokerError> {
        let all = self.queues().await?;
        Ok(all.iter().any(|depth| depth.name == queue && depth.ready + depth.unacked > 0))
    }

    /// Reason why the broker currently accepts no messages, for example low memory or disk space; `None` if
    /// it accepts messages or does not report this. A publish would only wait; consumers continue to work.
    async fn blocked(&self) -> Option<String>;
}

/// A consumer's subscription to a queue. Dropping it MUST return unsettled messages to the queue, marked as
/// redelivered.
#[async_trait]
pub trait Subscription: Send + Sync {
    /// Waits for the next deliveries: at least one, at most as many as the prefetch allows. Messages arrive in queue
    /// order; requeued messages are near the head of the queue. A cancelled call MUST NOT lose a message: the message
    /// arrives with the next call or after the subscription is closed.
    async fn next(&self) -> Result<Vec<Delivery>, BrokerError>;

    /// Confirms processing: after `Ok` the messages are deleted. Tags that are already settled are ignored.
    async fn ack(&self, tags: &[DeliveryTag]) -> Result<(), BrokerError>;

    /// Rejects messages. `Requeue::No` MUST move a message to the queue's dead-letter target in one step.
    async fn nack(&self, tags: &[DeliveryTag], requeue: Requeue) -> Result<(), BrokerError>;

    /// Ends the subscription and returns unsettled messages to the queue.
    async fn close(&self) -> Result<(), BrokerError>;
}
