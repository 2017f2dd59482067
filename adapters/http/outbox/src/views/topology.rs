//! View of the flow of events.

use handover_outbox::EventFlow;

use super::Listed;
use crate::openapi::kinds;

crate::views! {
    /// An event type and one of its consumers, or an event type without a consumer.
    pub EventFlowView as EventFlow {
        event_type: String,
        routing_key: String,
        /// Whether the events of an aggregate are applied in order.
        ordered: bool,
        consumer: Option<String>,
        queue: Option<String>,
        /// `exactly once` or `at least once`.
        guarantee: Option<String>,
        /// Whether the queue gets only events with which the consumer has work.
        selective: bool,
    }
}

impl Listed for EventFlowView {
    const COLUMNS: &'static [&'static str] =
        &["eventType", "routingKey", "ordered", "consumer", "queue", "guarantee", "selective"];
}

impl From<EventFlow> for EventFlowView {
    fn from(flow: EventFlow) -> EventFlowView {
        EventFlowView {
            event_type: flow.event_type,
            routing_key: flow.routing_key,
            ordered: flow.is_ordered,
            consumer: flow.consumer,
            queue: flow.queue,
            guarantee: flow.guarantee.map(|guarantee| guarantee.as_str().to_owned()),
            selective: flow.is_selective,
        }
    }
}
