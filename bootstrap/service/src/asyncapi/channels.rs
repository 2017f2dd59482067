//! Channels (routing keys of the exchange, and queues) and operations (publishing and consuming).

use std::time::Duration;

use handover_events::EventDescription;
use handover_outbox::topology::{QueueSpec, Topology, topic_matches};
use marketplace::event_types::{descriptions, routing_key};
use marketplace::queues::DEAD_LETTER_KEY;
use serde_json::{Map, Value, json};

const BINDING: &str = "0.3.0";

/// One channel per routing key and one per queue.
pub(super) fn channels(topology: &Topology, timeout: Duration) -> Map<String, Value> {
    let keys = descriptions().into_iter().map(|event_type| {
        let key = routing_key(&event_type, timeout);
        let channel = json!({
            "address": key,
            "description": format!("Publishes {} to the exchange `{}`.", event_type.name, topology.exchange),
            "servers": every_server(),
            "messages": { (event_type.name): message(&event_type) },
            "bindings": { "amqp": {
                "is": "routingKey",
                "exchange": {
                    "name": topology.exchange, "type": "topic", "durable": true, "autoDelete": false, "vhost": "/",
                },
                "bindingVersion": BINDING,
            } },
        });
        (key, channel)
    });
    let queues = topology.queues.iter().map(|queue| (queue.name.clone(), of_queue(queue, topology, timeout)));
    keys.chain(queues).collect()
}

/// One `send` operation per event type, one `receive` operation per queue with a consumer.
pub(super) fn operations(topology: &Topology, timeout: Duration) -> Map<String, Value> {
    let sent = descriptions().into_iter().map(|event_type| {
        let channel = routing_key(&event_type, timeout);
        let operation = json!({
            "action": "send",
            "channel": channel_named(&channel),
            "summary": "The relay publishes an event after its transaction has committed, and repeats that until the broker confirms it.",
            "messages": [message_in(&channel, &event_type)],
            "bindings": { "amqp": { "deliveryMode": 2, "mandatory": true, "bindingVersion": BINDING } },
        });
        (format!("send.{}", event_type.name), operation)
    });
    let received = topology.queues.iter().filter(|queue| queue.ttl.is_none()).map(|queue| {
        let messages: Vec<Value> = carried(queue, topology, timeout)
            .map(|event_type| message_in(&queue.name, &event_type))
            .collect();
        let operation = json!({
            "action": "receive",
            "channel": channel_named(&queue.name),
            "summary": "A consumer applies each event once and acknowledges it after the commit.",
            "messages": messages,
            "bindings": { "amqp": { "ack": true, "bindingVersion": BINDING } },
        });
        (format!("receive.{}", queue.name), operation)
    });
    sent.chain(received).collect()
}

fn of_queue(queue: &QueueSpec, topology: &Topology, timeout: Duration) -> Value {
    let messages: Map<String, Value> = carried(queue, topology, timeout)
        .map(|event_type| (event_type.name.to_owned(), message(&event_type)))
        .collect();
    let mut channel = json!({
        "address": queue.name,
        "description": description(queue),
        "servers": every_server(),
        "messages": messages,
        "bindings": { "amqp": {
            "is": "queue",
            "queue": { "name": queue.name, "durable": true, "exclusive": false, "autoDelete": false, "vhost": "/" },
            "bindingVersion": BINDING,
        } },
        "x-exchange": topology.exchange,
        "x-routing-keys": queue.bindings,
    });
    if let Some(ttl) = queue.ttl {
        channel["x-message-ttl-ms"] = json!(u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX));
    }
    if let Some(key) = &queue.dead_letter_key {
        channel["x-dead-letter-exchange"] = json!(topology.exchange);
        channel["x-dead-letter-routing-key"] = json!(key);
    }
    channel
}

fn description(queue: &QueueSpec) -> String {
    let keys = queue.bindings.join("`, `");
    let messages = if queue.is_selective {
        format!(
            "Selective: gets a message with the routing key `{keys}` only if its consumer has work with the event. In RabbitMQ it is bound to `to.{}`, which the relay adds in the header `CC`.",
            queue.name
        )
    } else {
        format!("Bound to `{keys}`.")
    };
    match (&queue.ttl, &queue.dead_letter_key) {
        (Some(_), Some(to)) => {
            format!("{messages} An expired message is dead-lettered with the routing key `{to}`.")
        }
        (_, Some(to)) => format!(
            "{messages} A message that no consumer can process is dead-lettered with the routing key `{to}`."
        ),
        (_, None) => messages,
    }
}

/// The event types that reach a queue: by their own routing key, by the dead-letter key of an expired delay message, or
/// as dead letters of other queues.
fn carried<'a>(
    queue: &'a QueueSpec,
    topology: &'a Topology,
    timeout: Duration,
) -> impl Iterator<Item = EventDescription> + 'a {
    let is_bound_to = |key: &str| queue.bindings.iter().any(|pattern| topic_matches(pattern, key));
    descriptions().into_iter().filter(move |event_type| {
        let first_key = routing_key(event_type, timeout);
        let waits_in = |waiting: &&QueueSpec| waiting.ttl.is_some() && waiting.bindings.contains(&first_key);
        let later_key =
            topology.queues.iter().find(waits_in).and_then(|waiting| waiting.dead_letter_key.as_deref());
        is_bound_to(&first_key) || later_key.is_some_and(is_bound_to) || is_bound_to(DEAD_LETTER_KEY)
    })
}

fn every_server() -> Value {
    json!([{ "$ref": "#/servers/rabbitmq" }, { "$ref": "#/servers/database" }])
}

fn message(event_type: &EventDescription) -> Value {
    json!({ "$ref": format!("#/components/messages/{}", event_type.name) })
}

fn message_in(channel: &str, event_type: &EventDescription) -> Value {
    json!({ "$ref": format!("#/channels/{channel}/messages/{}", event_type.name) })
}

fn channel_named(name: &str) -> Value {
    json!({ "$ref": format!("#/channels/{name}") })
}
