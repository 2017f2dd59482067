//! Which consumer takes which event type.

use tracing::{info, warn};

use crate::handler::Guarantee;
use crate::outbox::{ConsumerQueue, Outbox};

/// An event type and one of its consumers, or an event type without a consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventFlow {
    /// Name of the event type.
    pub event_type: String,
    /// Routing key with which it is published.
    pub routing_key: String,
    /// Whether the consumer applies the events of this type in the order of their aggregate; without a consumer, whether
    /// they are published in that order.
    pub is_ordered: bool,
    /// Name of the consumer.
    pub consumer: Option<String>,
    /// Queue of the consumer.
    pub queue: Option<String>,
    /// How often an event takes effect at the consumer.
    pub guarantee: Option<Guarantee>,
    /// Whether the queue is selective: it gets only events with which the consumer has work.
    pub is_selective: bool,
}

impl Outbox {
    /// Every registered event type with each of its consumers, ordered by type; a type without a consumer occurs once.
    pub fn event_flows(&self) -> Vec<EventFlow> {
        let mut flows = Vec::new();
        for (event_type, routing_key, is_ordered) in self.registry.types() {
            let flow = |consumer: Option<&ConsumerQueue>| EventFlow {
                event_type: event_type.to_owned(),
                routing_key: routing_key.to_owned(),
                is_ordered: is_ordered && consumer.is_none_or(|consumer| consumer.is_ordered),
                consumer: consumer.map(|consumer| consumer.consumer.clone()),
                queue: consumer.map(|consumer| consumer.queue.clone()),
                guarantee: consumer.map(|consumer| consumer.guarantee),
                is_selective: consumer.is_some_and(|consumer| self.is_selective(&consumer.queue)),
            };
            let takes =
                |consumer: &&ConsumerQueue| consumer.event_types.iter().any(|taken| taken == event_type);
            let before = flows.len();
            flows.extend(self.consumers.iter().filter(takes).map(|consumer| flow(Some(consumer))));
            if flows.len() == before {
                flows.push(flow(None));
            }
        }
        flows
    }

    /// The queues whose messages no consumer takes, without those that hold messages for a time and that of dead letters.
    pub fn queues_without_consumer(&self) -> Vec<&str> {
        let is_for_consumer = |name: &str| name != self.topology.dead_letter_queue;
        let queues = self.topology.queues.iter().filter(|queue| queue.ttl.is_none());
        let names = queues.map(|queue| queue.name.as_str());
        names.filter(|name| is_for_consumer(name) && self.consumer_of(name).is_none()).collect()
    }

    /// Logs a line for each consumer, and warnings about event types and queues without a consumer.
    pub fn log_event_flows(&self) {
        for ConsumerQueue { queue, consumer, event_types, guarantee, is_ordered } in self.consumers.iter() {
            info!(
                code = "topology.consumer",
                consumer,
                queue,
                eventTypes = event_types.join(","),
                ordered = is_ordered,
                guarantee = guarantee.as_str(),
                selective = self.is_selective(queue),
                receivesFrom = self.receives_from(queue),
                "[Outbox] consumer"
            );
        }
        for flow in self.event_flows().iter().filter(|flow| flow.consumer.is_none()) {
            warn!(code = "topology.event-type-without-consumer", eventType = %flow.event_type, routingKey = %flow.routing_key,
                "[Outbox] no consumer of this program takes events of this type; they are published all the same");
        }
        for queue in self.queues_without_consumer() {
            warn!(
                code = "topology.queue-without-consumer",
                queue, "[Outbox] no consumer of this program takes messages of this queue; they stay in it"
            );
        }
    }
}
