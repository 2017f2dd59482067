//! The events that webhooks announce about themselves.

use handover_events::{EventDescription, EventType as _};
use serde::Serialize;
use uuid::Uuid;

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
