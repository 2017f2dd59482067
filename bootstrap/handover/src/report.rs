//! What a process publishes and consumes.

use std::fmt;

use crate::backend::Backend;
use crate::broker;
use crate::parts::Parts;
use crate::registration::Registration;

/// What a process publishes and consumes, and with which guarantees. Logged by [`Outbox::start`](crate::Outbox::start).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    service: String,
    broker: &'static str,
    roles: String,
    events: Vec<String>,
    consumers: Vec<String>,
}

impl Report {
    pub(crate) fn of<'e, B: Backend>(
        events: impl Iterator<Item = &'e Registration>,
        parts: &Parts<B>,
    ) -> Report {
        let events = events.map(|event| {
            let order = if event.is_ordered { "in order" } else { "unordered" };
            format!("{} ({order})", event.name)
        });
        let consumers = parts.consumers.iter().map(|consumer| {
            let subscriber = &consumer.subscriber;
            let guarantee = subscriber.handler.guarantee().as_str();
            let selective = if consumer.is_selective { ", selective" } else { "" };
            let from = consumer.receives_from.as_ref().map(|exchange| format!(", from {exchange}"));
            let from = from.unwrap_or_default();
            let types = subscriber.event_types().join(", ");
            format!("{} ({guarantee}{selective}{from}: {types})", subscriber.name())
        });
        let roles: Vec<String> = parts.roles.iter().map(|role| format!("{role:?}").to_lowercase()).collect();
        Report {
            service: parts.name.clone(),
            broker: broker::name(parts.broker.as_ref()),
            roles: if roles.is_empty() { "none".to_owned() } else { roles.join(", ") },
            events: events.collect(),
            consumers: consumers.collect(),
        }
    }
}

/// One line.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { service, broker, roles, events, consumers } = self;
        let list = |items: &[String]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
        write!(
            f,
            "outbox {service}: broker: {broker}; roles: {roles}; events: {}; consumers: {}",
            list(events),
            list(consumers)
        )
    }
}
