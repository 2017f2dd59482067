//! Event types of the marketplace, as registered in the outbox.

use std::time::Duration;

use handover_events::{EventDescription, Json};
use handover_outbox::ports::{NewEvent, OutboxUnit, StoreError};
use handover_outbox::webhooks::event_descriptions;
use handover_outbox::{EventRegistry, EventSpan, EventSpec, append_logged_in};
use marketplace_domain::{AggregateType, EventKind, PaymentMethod};
use tracing::info_span;

use crate::queues::{TIMEOUT_DELAY_KEY, timeout_delay_key};
use crate::webhook_offer::OFFER;

/// Fields of rows that other programs insert. They have no personal data, and no event type has them.
const FOREIGN_FIELDS: [&str; 3] = ["status", "updateTime", "version"];

/// Ids of persons and of gateway transactions: a payload without them would contradict the order.
const IDS: [&str; 3] = ["buyerId", "sellerId", "transactionId"];

/// Descriptions of the event types of the marketplace, and of those about webhooks.
pub fn descriptions() -> Vec<EventDescription> {
    let own = EventKind::ALL.iter().map(|kind| kind.description());
    own.chain(event_descriptions()).collect()
}

/// The registry of [`descriptions`]. The payment deadline selects the delay queue of ORDER_TIMEOUT.
pub(crate) fn event_types(pending_timeout: Duration) -> EventRegistry {
    let about_webhooks = event_descriptions().map(|description| description.name);
    let spec = |description: EventDescription| {
        let spec = EventSpec::described(&description);
        if about_webhooks.contains(&description.name) {
            return spec;
        }
        let spec =
            spec.routed(routing_key(&description, pending_timeout)).visible(&FOREIGN_FIELDS).kept(&IDS);
        let spec = spec.closed("paymentMethod", &PaymentMethod::ACCEPTED, PaymentMethod::MASK);
        match event_span(description.name) {
            Some(span) => spec.logged_in_span(span),
            None => spec,
        }
    };
    descriptions().into_iter().map(spec).fold(EventRegistry::default(), EventRegistry::with)
}

/// The span in which lines about events of this type are logged. It has the id of the order, and that of the payment, refund or
/// invoice.
fn event_span(event_type: &str) -> Option<EventSpan> {
    let kind = EventKind::ALL.iter().find(|kind| kind.as_str() == event_type)?;
    if kind.aggregate() == AggregateType::Order.as_str() {
        return Some(EventSpan::OfId(|id| info_span!("order", orderId = id.number())));
    }
    Some(EventSpan::OfPayload(|_, payload| {
        let id = |field: &str| payload.get(field).and_then(Json::as_i64);
        info_span!(
            "order",
            orderId = id("orderId"),
            paymentId = id("paymentId"),
            refundId = id("refundId"),
            invoiceId = id("invoiceId")
        )
    }))
}

/// Appends events of the marketplace to the outbox; counts and logs them once they are committed.
pub(crate) async fn append(unit: &mut dyn OutboxUnit, mut events: Vec<NewEvent>) -> Result<(), StoreError> {
    OFFER.exclude_without_receiver(unit, &mut events).await?;
    append_logged_in(unit, &events, event_span).await
}

/// The routing key with which events of this type are published.
pub fn routing_key(description: &EventDescription, pending_timeout: Duration) -> String {
    match description.routing_key {
        TIMEOUT_DELAY_KEY => timeout_delay_key(pending_timeout),
        key => key.to_owned(),
    }
}
