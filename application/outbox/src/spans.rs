//! Spans of relay and consumers, with the attributes of OpenTelemetry's semantic conventions for messaging.
//!
//! The context of the span in which an event is published travels in its message (`traceparent`), and is the parent of the
//! span in which the event is processed, and a link of it. The parent of the publish span is the context of the row.

use std::sync::Arc;

use tracing::field::Empty;
use tracing::{Span, info_span};

use crate::ports::OutboxRow;

/// Target of the spans of relay and consumers.
pub const SPAN_TARGET: &str = "handover::trace";

/// Connects spans of `tracing` with W3C trace contexts; implemented for the layer that exports the spans.
pub trait TraceContext: Send + Sync {
    /// The `traceparent` of a span; `None` if the span is not recorded.
    fn traceparent(&self, span: &Span) -> Option<String>;

    /// Makes the span of a `traceparent` the parent. An invalid one is ignored.
    fn set_parent(&self, span: &Span, traceparent: &str);

    /// Adds a link to the span of a `traceparent`. An invalid one is ignored.
    fn add_link(&self, span: &Span, traceparent: &str);

    /// Whether other code opens the spans in which single events are processed, such as a layer around handlers. Consumers then
    /// open only those of groups.
    fn covers_handlers(&self) -> bool {
        false
    }
}

/// Opens the spans of one process.
#[derive(Clone)]
pub(crate) struct Spans {
    context: Arc<dyn TraceContext>,
    /// `messaging.system`.
    system: &'static str,
}

/// Name of RabbitMQ in `messaging.system`; every other system is `handover`.
const RABBITMQ: &str = "rabbitmq";

/// `messaging.destination.name`. RabbitMQ: exchange, routing key and, for a consumer, queue, separated by colons. Otherwise
/// the queue of a consumer, or the routing key.
pub fn destination(system: &str, exchange: &str, routing_key: &str, queue: Option<&str>) -> String {
    match (system == RABBITMQ, queue) {
        (false, queue) => queue.unwrap_or(routing_key).to_owned(),
        (true, None) => format!("{exchange}:{routing_key}"),
        (true, Some(queue)) if routing_key.is_empty() => format!("{exchange}:{queue}"),
        (true, Some(queue)) => format!("{exchange}:{routing_key}:{queue}"),
    }
}

impl Spans {
    pub(crate) fn new(context: Arc<dyn TraceContext>, system: &'static str) -> Spans {
        Spans { context, system }
    }

    /// Opens the span in which a row is published.
    pub(crate) fn publish(&self, row: &OutboxRow, exchange: &str, routing_key: &str) -> Span {
        let destination = destination(self.system, exchange, routing_key, None);
        let span = info_span!(
            target: SPAN_TARGET,
            parent: None,
            "publish",
            otel.name = format!("publish {destination}"),
            otel.kind = "producer",
            otel.status_code = Empty,
            messaging.system = self.system,
            messaging.operation.name = "publish",
            "messaging.operation.type" = "send",
            messaging.destination.name = destination,
            messaging.message.id = row.event_id.as_str(),
            "handover.event.type" = row.event_type,
            handover.trace.id = row.trace_id(),
            handover.request.id = row.metadata.request_id,
            "error.type" = Empty,
        );
        if let Some(traceparent) = &row.metadata.traceparent {
            self.context.set_parent(&span, traceparent);
        }
        span
    }

    /// The `traceparent` for the message that is published in this span.
    pub(crate) fn traceparent(&self, span: &Span) -> Option<String> {
        self.context.traceparent(span)
    }

    /// Opens the span in which a consumer processes an event, or a group of events. The first context is the parent.
    pub(crate) fn process(&self, processed: &Processed<'_>, published: &[&str]) -> Span {
        if self.context.covers_handlers() && processed.events == 1 {
            return Span::none();
        }
        let Processed { exchange, routing_key, queue, consumer, event_id, events } = *processed;
        let destination = destination(self.system, exchange, routing_key, Some(queue));
        let span = info_span!(
            target: SPAN_TARGET,
            parent: None,
            "process",
            otel.name = format!("process {destination}"),
            otel.kind = "consumer",
            otel.status_code = Empty,
            messaging.system = self.system,
            messaging.operation.name = "process",
            "messaging.operation.type" = "process",
            messaging.destination.name = destination,
            messaging.consumer.group.name = consumer,
            messaging.message.id = event_id,
            messaging.batch.message_count = (events > 1).then_some(events),
            "error.type" = Empty,
        );
        if let Some(first) = published.first() {
            self.context.set_parent(&span, first);
        }
        for traceparent in published {
            self.context.add_link(&span, traceparent);
        }
        span
    }
}

/// What a consumer processes in a span.
pub(crate) struct Processed<'p> {
    pub(crate) exchange: &'p str,
    /// Empty for a group of several event types.
    pub(crate) routing_key: &'p str,
    pub(crate) queue: &'p str,
    pub(crate) consumer: &'p str,
    /// `None` for a group.
    pub(crate) event_id: Option<&'p str>,
    pub(crate) events: u64,
}

/// Records that the work of a span failed.
pub(crate) fn failed(span: &Span, error_type: &str) {
    span.record("error.type", error_type);
    span.record("otel.status_code", "ERROR");
}
