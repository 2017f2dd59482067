//! The ceilings: the same work by the plainest code, timed step by step.

mod consume;
mod drain;
mod orders;

use std::time::Duration;

use handover_application::topology::{timeout_delay_key, topic_matches};
use handover_domain::EventType;

use super::ground::Ground;
use super::stop::refuse;
use crate::Failure;

pub(super) use consume::consume;
pub(super) use drain::drain;
pub(super) use orders::orders;

/// How long some work took, and the steps of it.
#[derive(Debug, Clone)]
pub(super) struct Took {
    pub(super) all: Duration,
    pub(super) steps: Vec<(&'static str, Duration)>,
}

/// The key that an event is routed with.
fn routing_key(ground: &Ground, event_type: &str) -> Result<String, Failure> {
    let kind: EventType = event_type.parse().map_err(|error| refuse(&error, "report this"))?;
    Ok(match kind {
        EventType::OrderTimeout => timeout_delay_key(ground.rules.pending_timeout),
        other => other.routing_key().to_owned(),
    })
}

/// The queues that a key leads to, each with how long messages last in it.
fn queues<'g>(ground: &'g Ground, key: &str) -> Vec<(&'g str, Option<Duration>)> {
    let takes = |spec: &&handover_application::topology::QueueSpec| {
        spec.bindings.iter().any(|pattern| topic_matches(pattern, key))
    };
    ground.topology.queues.iter().filter(takes).map(|spec| (spec.name.as_str(), spec.ttl)).collect()
}
