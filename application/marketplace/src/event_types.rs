//! Event types of the marketplace, as registered in the outbox.

use std::time::Duration;

use handover_outbox::{EventRegistry, EventSpec};
use marketplace_domain::{AggregateType, EventType, PaymentMethod};
use tracing::info_span;

use crate::privacy::VISIBLE_FIELDS;
use crate::queues::timeout_delay_key;

/// The event types of the marketplace. The payment deadline selects the delay queue of ORDER_TIMEOUT.
pub(crate) fn event_types(pending_timeout: Duration) -> EventRegistry {
    let spec = |event_type: &EventType| {
        let routing_key = if *event_type == EventType::OrderTimeout {
            timeout_delay_key(pending_timeout)
        } else {
            event_type.routing_key().to_owned()
        };
        let aggregate = event_type.aggregate();
        let id_field = match aggregate {
            AggregateType::Order => "orderId",
            AggregateType::Payment => "paymentId",
            AggregateType::Refund => "refundId",
            AggregateType::Invoice => "invoiceId",
        };
        let spec = EventSpec::new(event_type.as_str(), routing_key)
            .about(aggregate.as_str(), id_field)
            .visible(&VISIBLE_FIELDS)
            .closed("paymentMethod", &PaymentMethod::ACCEPTED, PaymentMethod::MASK);
        let spec = match aggregate {
            AggregateType::Order => spec.logged_in(|id| info_span!("order", orderId = id)),
            AggregateType::Payment | AggregateType::Refund | AggregateType::Invoice => spec,
        };
        if event_type.is_ordered() { spec } else { spec.unordered() }
    };
    EventType::ALL.iter().map(spec).fold(EventRegistry::default(), EventRegistry::with)
}
