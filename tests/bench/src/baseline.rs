//! The baseline: the same work directly with the drivers, timed step by step.
//!
//! It uses prepared statements with several rows each, one transaction per batch, and confirms awaited together. It has
//! no ordering, leases, detection of duplicates or repair, and stops at the first error, so no other code may use it.

mod connection;
mod consume;
mod drain;
mod error;
mod event;
mod latency;
mod orders;
mod rabbitmq;
mod statements;
mod tables;

use std::time::Duration;

use handover_outbox::topology::{QueueSpec, topic_matches};
use marketplace::queues::timeout_delay_key;
use marketplace_domain::EventType;

use crate::error::{BenchError, service_error};
use crate::fixture::Fixture;

pub(crate) use connection::Connection;
pub(crate) use consume::consume;
pub(crate) use drain::drain;
pub use error::BaselineError;
pub use event::Event;
pub(crate) use latency::LatencyRun;
pub(crate) use orders::orders;
pub(crate) use rabbitmq::RabbitConnection;
pub(crate) use tables::Description;

fn routing_key(fixture: &Fixture, event_type: &str) -> Result<String, BenchError> {
    let event_type: EventType = event_type.parse().map_err(service_error)?;
    Ok(if event_type == EventType::OrderTimeout {
        timeout_delay_key(fixture.config.rules.pending_timeout)
    } else {
        event_type.routing_key().to_owned()
    })
}

/// The queues bound to a routing key, each with its TTL.
fn queues<'f>(fixture: &'f Fixture, key: &str) -> Vec<(&'f str, Option<Duration>)> {
    let is_bound = |spec: &&QueueSpec| spec.bindings.iter().any(|pattern| topic_matches(pattern, key));
    let specs = fixture.topology.queues.iter().filter(is_bound);
    specs.map(|spec| (spec.name.as_str(), spec.ttl)).collect()
}
