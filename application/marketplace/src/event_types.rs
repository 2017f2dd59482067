//! Event types of the marketplace, as registered in the outbox.

use std::time::Duration;

use handover_outbox::webhooks::event_descriptions;
use handover_outbox::{EventRegistry, EventSpec};
use marketplace_domain::{AggregateType, EventKind, PaymentMethod};
use tracing::info_span;

use crate::queues::{TIMEOUT_DELAY_KEY, timeout_delay_key};

/// Fields of rows that other programs insert. They have no personal data, and no event type has them.
const FOREIGN_FIELDS: [&str; 3] = ["status", "updateTime", "version"];

/// The event types of the marketplace. The payment deadline selects the delay queue of ORDER_TIMEOUT.
pub(crate) fn event_types(pending_timeout: Duration) -> EventRegistry {
    let spec = |kind: &EventKind| {
        let spec = EventSpec::described(&kind.description())
            .routed(routing_key(*kind, pending_timeout))
            .visible(&FOREIGN_FIELDS)
            .closed("paymentMethod", &PaymentMethod::ACCEPTED, PaymentMethod::MASK);
        let is_of_order = kind.aggregate() == AggregateType::Order.as_str();
        if is_of_order { spec.logged_in(|id| info_span!("order", orderId = id.number())) } else { spec }
    };
    let about_webhooks = event_descriptions();
    let about_webhooks = about_webhooks.iter().map(EventSpec::described);
    EventKind::ALL.iter().map(spec).chain(about_webhooks).fold(EventRegistry::default(), EventRegistry::with)
}

/// The routing key with which events of this type are published.
pub fn routing_key(kind: EventKind, pending_timeout: Duration) -> String {
    match kind.routing_key() {
        TIMEOUT_DELAY_KEY => timeout_delay_key(pending_timeout),
        key => key.to_owned(),
    }
}
