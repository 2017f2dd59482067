//! The AsyncAPI document of the events (`handover asyncapi`): from the same tables that publish and route them.
//!
//! **Invariant:** exchange, queues and keys are those of `topology`, types and their keys those of the domain; only what a
//! payload looks like is said again, in `payloads.rs`, and tests hold it to what the domain writes and reads.

mod channels;
mod messages;
mod payloads;

use std::time::Duration;

use marketplace::queues;
use serde_json::{Value, json};

const ABOUT: &str = "Every change of state is committed together with the events that announce it. Each is published to a \
topic exchange under its routing key, and every bound queue gets a copy, at least once. Events of one aggregate are \
published in the order of their changes. `eventId` is the key of idempotence. Readers ignore fields they do not know.";

/// The document of a deployment whose orders are to be paid within `timeout`, which is part of a queue's name.
pub fn document(timeout: Duration) -> Value {
    let topology = queues::topology(timeout);
    json!({
        "asyncapi": "3.0.0",
        "info": {
            "title": "handover",
            "version": env!("CARGO_PKG_VERSION"),
            "description": ABOUT,
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "defaultContentType": "application/json",
        "servers": servers(),
        "channels": channels::channels(&topology, timeout),
        "operations": channels::operations(&topology, timeout),
        "components": { "messages": messages::messages(), "schemas": payloads::schemas() },
    })
}

/// One for each kind of broker: it carries the same messages by the same rules.
fn servers() -> Value {
    json!({
        "rabbitmq": {
            "host": "localhost:5672",
            "protocol": "amqp",
            "protocolVersion": "0.9.1",
            "description": "RabbitMQ, at `broker.url = \"amqp://...\"`; the address is that of the deployment.",
        },
        "database": {
            "host": "localhost",
            "protocol": "sql",
            "description": "Tables of the service's own database, at `broker.url = \"database:\"` (the default).",
        },
    })
}
