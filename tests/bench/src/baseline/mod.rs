//! The ceilings: the same work by the plainest code, timed step by step.

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

use handover_application::topology::{QueueSpec, timeout_delay_key, topic_matches};
use handover_domain::EventType;

use super::error::odd;
use super::fixture::Ground;
use handover::Failure;

pub(crate) use connection::Session;
pub(super) use consume::consume;
pub(super) use drain::drain;
pub(crate) use error::BareError;
pub(crate) use event::{Event, Order};
pub(super) use latency::Chain;
pub(super) use orders::orders;
pub(crate) use rabbitmq::BareQueue;

/// The key that an event is routed with.
fn routing_key(ground: &Ground, event_type: &str) -> Result<String, Failure> {
    let kind: EventType = event_type.parse().map_err(odd)?;
    Ok(if kind == EventType::OrderTimeout {
        timeout_delay_key(ground.config.rules.pending_timeout)
    } else {
        kind.routing_key().to_owned()
    })
}

/// The queues that a key leads to, each with how long messages last in it.
fn queues<'g>(ground: &'g Ground, key: &str) -> Vec<(&'g str, Option<Duration>)> {
    let takes = |spec: &&QueueSpec| spec.bindings.iter().any(|pattern| topic_matches(pattern, key));
    ground.topology.queues.iter().filter(takes).map(|spec| (spec.name.as_str(), spec.ttl)).collect()
}

#[cfg(test)]
mod tests {
    use crate::baseline::Event;
    use chrono::{DateTime, Utc};
    use handover_application::ports::{EventMetadata, OutboxRow};
    use handover_application::relay::envelope_of;
    use handover_domain::{AggregateRef, EventId, OutboxStatus, TenantId};

    #[test]
    fn the_plain_code_sends_byte_by_byte_what_the_service_sends() {
        let payload =
            r#"{"orderId":17,"orderNo":"202602041030001234","buyerId":3,"sellerId":4,"totalAmount":88.50}"#;
        for at in ["2026-02-04T10:30:00Z", "2026-02-04T10:30:00.120Z", "2026-02-04T10:30:00.123456Z"] {
            let at: DateTime<Utc> = at.parse().unwrap();
            let id = "01930000-0000-7000-8000-000000000001";
            let row = OutboxRow {
                id: 5,
                event_id: EventId::try_from(id.to_owned()).unwrap(),
                event_type: "ORDER_PAID".to_owned(),
                aggregate: AggregateRef { tenant: TenantId::DEFAULT, kind: "Order".to_owned(), id: 17 },
                aggregate_seq: 2,
                payload: payload.to_owned(),
                metadata: EventMetadata { trace_id: Some("t-1".to_owned()), ..EventMetadata::default() },
                status: OutboxStatus::New,
                retry_count: 0,
                max_retry_count: 3,
                next_retry_time: None,
                last_error: None,
                create_time: at,
                update_time: at,
                sent_time: None,
                released_time: None,
            };
            let event = Event {
                id: 5,
                event_id: id.to_owned(),
                event_type: "ORDER_PAID".to_owned(),
                aggregate_type: "Order".to_owned(),
                aggregate_id: 17,
                aggregate_seq: 2,
                tenant_id: 1,
                payload: payload.to_owned(),
                trace_id: "t-1".to_owned(),
                create_time: at,
            };
            assert_eq!(event.body(), envelope_of(&row).unwrap().to_json());
        }
    }
}
