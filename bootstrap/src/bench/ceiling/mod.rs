//! The ceilings: the same work by the plainest code, timed step by step.

mod consume;
mod drain;
mod latency;
mod orders;

use std::time::Duration;

use handover_application::topology::{QueueSpec, timeout_delay_key, topic_matches};
use handover_domain::EventType;

use super::ground::Ground;
use super::stop::odd;
use crate::Failure;

pub(super) use consume::consume;
pub(super) use drain::drain;
pub(super) use latency::Chain;
pub(super) use orders::orders;

/// The key that an event is routed with.
fn routing_key(ground: &Ground, event_type: &str) -> Result<String, Failure> {
    let kind: EventType = event_type.parse().map_err(odd)?;
    Ok(match kind {
        EventType::OrderTimeout => timeout_delay_key(ground.config.rules.pending_timeout),
        other => other.routing_key().to_owned(),
    })
}

/// The queues that a key leads to, each with how long messages last in it.
fn queues<'g>(ground: &'g Ground, key: &str) -> Vec<(&'g str, Option<Duration>)> {
    let takes = |spec: &&QueueSpec| spec.bindings.iter().any(|pattern| topic_matches(pattern, key));
    ground.topology.queues.iter().filter(takes).map(|spec| (spec.name.as_str(), spec.ttl)).collect()
}
