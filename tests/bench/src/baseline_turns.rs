//! The turns of the baseline, one module per mode, and the routing keys and queues of its events.

mod consume;
mod drain;
mod latency;
mod orders;
mod webhooks;

use std::time::Duration;

use handover_outbox::topology::{QueueSpec, topic_matches};
use marketplace::queues::timeout_delay_key;
use marketplace_domain::EventKind;

use crate::error::{BenchError, service_error};
use crate::fixture::Fixture;

pub(crate) use consume::consume;
pub(crate) use drain::drain;
pub(crate) use latency::LatencyRun;
pub(crate) use orders::orders;
pub(crate) use webhooks::webhooks;

fn routing_key(fixture: &Fixture, event_type: &str) -> Result<String, BenchError> {
    let event_type: EventKind = event_type.parse().map_err(service_error)?;
    Ok(if event_type == EventKind::OrderTimeout {
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
