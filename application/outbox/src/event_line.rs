//! Log lines about single events. Every such line has the same fields, so that a search for an event, a request or an
//! aggregate finds all of them.

use handover_events::{AggregateId, Envelope, EventId, Json};
use tracing::Span;

use crate::ports::{NewEvent, OutboxRow};
use crate::registry::{EventRegistry, EventSpan};

/// Target of the lines about single events that succeeded: appended, published, applied, duplicate. A filter that disables
/// this target disables these lines, and no line about a failure.
pub const EVENT_TARGET: &str = "handover::event";

/// Fields of an event in a log line.
#[derive(Clone, Copy)]
pub(crate) struct EventFields<'e> {
    pub(crate) id: &'e EventId,
    pub(crate) kind: &'e str,
    pub(crate) trace_id: &'e str,
    pub(crate) request_id: Option<&'e str>,
    pub(crate) aggregate_type: &'e str,
    pub(crate) aggregate: &'e AggregateId,
    payload: Payload<'e>,
    span: Option<EventSpan>,
}

#[derive(Clone, Copy)]
enum Payload<'e> {
    Text(&'e str),
    Parsed(&'e Json),
}

impl<'e> EventFields<'e> {
    /// Fields of the event of a row.
    pub(crate) fn of(registry: &EventRegistry, row: &'e OutboxRow) -> EventFields<'e> {
        EventFields {
            id: &row.event_id,
            kind: &row.event_type,
            trace_id: row.trace_id(),
            request_id: row.metadata.request_id.as_deref(),
            aggregate_type: &row.aggregate.kind,
            aggregate: &row.aggregate.id,
            payload: Payload::Text(&row.payload),
            span: registry.span(&row.event_type),
        }
    }

    /// Fields of the event of a message that was compared with its row; the message does not contain the request id.
    pub(crate) fn of_envelope(
        registry: &EventRegistry,
        envelope: &'e Envelope,
        request_id: Option<&'e str>,
    ) -> EventFields<'e> {
        EventFields {
            id: &envelope.event_id,
            kind: &envelope.event_type,
            trace_id: &envelope.trace_id,
            request_id,
            aggregate_type: &envelope.aggregate_type,
            aggregate: &envelope.aggregate_id,
            payload: Payload::Parsed(&envelope.payload),
            span: registry.span(&envelope.event_type),
        }
    }

    /// Fields of an event that is appended.
    pub(crate) fn of_new(event: &'e NewEvent, span: Option<EventSpan>) -> EventFields<'e> {
        EventFields {
            id: &event.event_id,
            kind: &event.event_type,
            trace_id: event.metadata.trace_id.as_deref().unwrap_or(event.event_id.as_str()),
            request_id: event.metadata.request_id.as_deref(),
            aggregate_type: &event.aggregate.kind,
            aggregate: &event.aggregate.id,
            payload: Payload::Text(&event.payload),
            span,
        }
    }

    /// Span with the fields that the event type adds, such as `bookId`.
    pub(crate) fn span(&self) -> Span {
        match (self.span, self.payload) {
            (None, _) => Span::none(),
            (Some(EventSpan::OfId(span)), _) => span(self.aggregate),
            (Some(EventSpan::OfPayload(span)), Payload::Parsed(payload)) => span(self.aggregate, payload),
            (Some(EventSpan::OfPayload(span)), Payload::Text(text)) => {
                Json::parse(text).map_or_else(|_| Span::none(), |payload| span(self.aggregate, &payload))
            }
        }
    }
}

/// Logs a line about an event, in the span of its type: `event_line!(WARN, fields, code = "..", ..)`.
macro_rules! event_line {
    (target: $target:expr, $level:ident, $fields:expr, $($rest:tt)+) => {
        // Not `enabled!`: with a filter per layer, it may suppress the next line.
        if tracing::Level::$level <= tracing::level_filters::LevelFilter::current() {
            let fields: $crate::event_line::EventFields<'_> = $fields;
            let _span = fields.span().entered();
            tracing::event!(target: $target, tracing::Level::$level, eventId = %fields.id, eventType = fields.kind,
                traceId = fields.trace_id, requestId = fields.request_id, aggregateType = fields.aggregate_type,
                aggregateId = $crate::logged_id::logged_id(fields.aggregate), $($rest)+);
        }
    };
    ($level:ident, $fields:expr, $($rest:tt)+) => {
        event_line!(target: module_path!(), $level, $fields, $($rest)+)
    };
}
pub(crate) use event_line;
