//! The AsyncAPI document of the events (`handover asyncapi`), built from the definitions that publish and route them.
//!
//! **Invariant:** exchange, queues and bindings come from the consumers, event types, routing keys and payload schemas from
//! the descriptions that the registry of the outbox is made of.

mod channels;
mod messages;
mod payloads;

use std::time::Duration;

use marketplace::consumers;
use serde_json::{Value, json};

const DESCRIPTION: &str = "Every change of state is committed together with the events that announce it. Each is published to a \
topic exchange under its routing key, and every bound queue gets a copy, at least once. Events of one aggregate are \
published in the order of their changes. `eventId` is the idempotency key. Consumers must ignore unknown fields.";

/// Builds the document for a deployment. `timeout` is the payment deadline of orders; unless it is
/// the default, it is part of a queue's name.
pub fn document(timeout: Duration) -> Value {
    let topology = consumers::topology(timeout);
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "handover",
            "version": env!("CARGO_PKG_VERSION"),
            "description": DESCRIPTION,
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "defaultContentType": "application/json",
        "servers": servers(),
        "channels": channels::channels(&topology, timeout),
        "operations": channels::operations(&topology, timeout),
        "components": { "messages": messages::messages(), "schemas": payloads::schemas() },
    })
}

/// One server per kind of broker; both carry the same messages with the same routing.
fn servers() -> Value {
    json!({
        "rabbitmq": {
            "host": "localhost:5672",
            "protocol": "amqp",
            "protocolVersion": "0.9.1",
            "description": "RabbitMQ, at `broker.url = \"amqp://...\"`; replace the address by that of the deployment.",
        },
        "database": {
            "host": "localhost",
            "protocol": "sql",
            "description": "Tables in the database of the service, at `broker.url = \"database:\"` (the default).",
        },
    })
}
