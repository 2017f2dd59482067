//! Event types of the marketplace, as registered in the outbox.

use std::time::Duration;

use handover_events::EventDescription;
use handover_outbox::webhooks::event_descriptions;
use handover_outbox::{EventRegistry, EventSpec};
use marketplace_domain::{AggregateType, EventKind, PaymentMethod};
use tracing::info_span;

use crate::queues::{TIMEOUT_DELAY_KEY, timeout_delay_key};

/// Fields of rows that other programs insert. They have no personal data, and no event type has them.
const FOREIGN_FIELDS: [&str; 3] = ["status", "updateTime", "version"];

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
        let spec = spec.routed(routing_key(&description, pending_timeout)).visible(&FOREIGN_FIELDS).closed(
            "paymentMethod",
            &PaymentMethod::ACCEPTED,
            PaymentMethod::MASK,
        );
        let is_of_order = description.aggregate == AggregateType::Order.as_str();
        if is_of_order { spec.logged_in(|id| info_span!("order", orderId = id.number())) } else { spec }
    };
    descriptions().into_iter().map(spec).fold(EventRegistry::default(), EventRegistry::with)
}

/// The routing key with which events of this type are published.
pub fn routing_key(description: &EventDescription, pending_timeout: Duration) -> String {
    match description.routing_key {
        TIMEOUT_DELAY_KEY => timeout_delay_key(pending_timeout),
        key => key.to_owned(),
    }
}
