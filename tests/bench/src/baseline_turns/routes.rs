//! Where the events of a new order go: their routing keys and, with the database broker, their queues.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::TimeDelta;
use handover_outbox::ports::Clock as _;
use handover_outbox::topology::{QueueSpec, topic_matches};
use handover_system::SystemClock;
use marketplace::queues::{EXCHANGE, timeout_delay_key};
use marketplace_domain::EventKind;

use crate::baseline::{BaselineError, Connection, Event, RabbitConnection};
use crate::fixture::Fixture;

struct Route {
    key: String,
    /// The queues that get the event, each with its TTL.
    queues: Vec<(String, Option<TimeDelta>)>,
}

/// The routes of all event types that the benchmark publishes. Clones share them.
#[derive(Clone)]
pub(super) struct Routes(Arc<HashMap<&'static str, Route>>);

impl Routes {
    pub(super) fn of(fixture: &Fixture) -> Routes {
        let created = EventKind::OrderCreated.routing_key().to_owned();
        let timeout = timeout_delay_key(fixture.config.rules.pending_timeout);
        let routes = [("ORDER_CREATED", created), ("ORDER_TIMEOUT", timeout)].map(|(event_type, key)| {
            // No order of the benchmark concerns a selective queue, so the service leaves these out, too.
            let is_bound = |spec: &&QueueSpec| {
                !spec.is_selective && spec.bindings.iter().any(|pattern| topic_matches(pattern, &key))
            };
            let ttl = |spec: &QueueSpec| spec.ttl.and_then(|ttl| TimeDelta::from_std(ttl).ok());
            let specs = fixture.topology.queues.iter().filter(is_bound);
            let queues = specs.map(|spec| (spec.name.clone(), ttl(spec))).collect();
            (event_type, Route { key, queues })
        });
        Routes(Arc::new(HashMap::from(routes)))
    }

    fn route(&self, event: &Event) -> Result<&Route, BaselineError> {
        let unknown =
            || BaselineError::Unexpected(format!("no route for events of type {}", event.event_type));
        self.0.get(event.event_type.as_str()).ok_or_else(unknown)
    }

    /// Publishes events to RabbitMQ and waits for every confirm, or inserts them into the queues of the database broker.
    pub(super) async fn publish(
        &self,
        connection: &mut Connection,
        rabbitmq: Option<&RabbitConnection>,
        events: &[Event],
    ) -> Result<(), BaselineError> {
        if let Some(rabbitmq) = rabbitmq {
            let keyed = events.iter().map(|event| Ok((self.route(event)?.key.as_str(), event)));
            return rabbitmq.publish(EXCHANGE, &keyed.collect::<Result<Vec<_>, BaselineError>>()?).await;
        }
        let now = SystemClock.now();
        let mut rows = Vec::new();
        for event in events {
            let queues = self.route(event)?.queues.iter();
            rows.extend(queues.map(|(queue, ttl)| (queue.as_str(), ttl.map(|ttl| now + ttl), event)));
        }
        connection.enqueue(&rows).await
    }
}
