//! The events that webhooks announce about themselves.

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, EventDescription, EventId, EventType};
use serde::Serialize;
use uuid::Uuid;

use crate::ports::{
    EndpointId, EndpointKey, EventMetadata, IdleConsumers, NewEvent, StoreError, WebhookDelivery,
};

/// Default of the maximum number of publish retries of the events in this file.
pub(super) const MAX_RETRY_COUNT: u32 = 3;

/// Descriptions of the events in this file. An application registers them, and offers them to its endpoints.
pub fn event_descriptions() -> [EventDescription; 2] {
    [EventDescription::of::<EndpointDisabled>(), EventDescription::of::<DeliveryDead>()]
}

/// Whether outbox rows with this event type are about webhooks. Their deliveries announce nothing themselves, and their
/// payloads have no personal data: a reason is a text of this program, never one of a receiver.
pub(super) fn is_about_webhooks(event_type: &str) -> bool {
    event_type == EndpointDisabled::NAME || event_type == DeliveryDead::NAME
}

/// An endpoint was disabled automatically.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, handover_macros::Event)]
#[serde(rename_all = "camelCase")]
#[event(
    name = "WEBHOOK_ENDPOINT_DISABLED",
    aggregate = "Webhook",
    routing_key = "webhook.endpoint.disabled",
    summary = "An endpoint was disabled automatically."
)]
pub struct EndpointDisabled {
    /// Endpoint.
    #[event(key, visible)]
    pub endpoint_id: Uuid,
    /// Reason.
    #[event(visible)]
    pub reason: String,
}

/// No further attempt at a delivery follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, handover_macros::Event)]
#[serde(rename_all = "camelCase")]
#[event(
    name = "WEBHOOK_DELIVERY_DEAD",
    aggregate = "Webhook",
    routing_key = "webhook.delivery.dead",
    summary = "No further attempt at a delivery follows."
)]
pub struct DeliveryDead {
    /// Endpoint.
    #[event(key, visible)]
    pub endpoint_id: Uuid,
    /// Delivery.
    #[event(visible)]
    pub delivery_id: i64,
    /// Event that was not delivered. In bodies of webhooks this is `payloadEventId`, because `eventId` is the id of this
    /// event.
    #[event(visible)]
    pub event_id: String,
    /// Reason.
    #[event(visible)]
    pub reason: String,
}

/// An event about an endpoint, which the webhooks announce.
pub(super) struct Announcement {
    pub(super) id: EventId,
    pub(super) endpoint: EndpointKey,
    pub(super) at: DateTime<Utc>,
    pub(super) max_retry_count: u32,
}

impl Announcement {
    /// The event about a dead delivery, unless the delivery is one of an event about webhooks.
    pub(super) fn dead(
        self,
        delivery: &WebhookDelivery,
        reason: String,
    ) -> Result<Option<NewEvent>, StoreError> {
        let is_about_webhooks = [EndpointDisabled::ROUTING_KEY, DeliveryDead::ROUTING_KEY]
            .contains(&delivery.event_type.as_str());
        if is_about_webhooks {
            return Ok(None);
        }
        let payload = DeliveryDead {
            endpoint_id: delivery.endpoint.0,
            delivery_id: delivery.id,
            event_id: delivery.event_id.as_str().to_owned(),
            reason,
        };
        self.of(&payload).map(Some)
    }

    /// The event with this payload.
    pub(super) fn of<E: EventType + Serialize>(self, payload: &E) -> Result<NewEvent, StoreError> {
        let payload = serde_json::to_string(payload).map_err(|error| StoreError::Backend(Box::new(error)))?;
        let Announcement { id, endpoint, at, max_retry_count } = self;
        Ok(NewEvent {
            event_id: id,
            event_type: E::NAME.to_owned(),
            aggregate: AggregateRef {
                tenant: endpoint.tenant,
                kind: E::AGGREGATE.to_owned(),
                id: endpoint.id.0.into(),
            },
            aggregate_seq: None,
            payload,
            metadata: EventMetadata { trace_id: Some(trace_of(endpoint.id)), ..EventMetadata::default() },
            occurred_at: at,
            max_retry_count,
            idle_consumers: IdleConsumers::default(),
            routing_key: Some(E::ROUTING_KEY.to_owned()),
            due: None,
        })
    }
}

/// Trace id of what webhooks do with an endpoint by themselves.
pub(super) fn trace_of(endpoint: EndpointId) -> String {
    format!("webhook-{endpoint}")
}
