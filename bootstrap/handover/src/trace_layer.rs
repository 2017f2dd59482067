//! A span per call of a handler.

use handover_outbox::consumers::Applied;
use handover_outbox::{BoxFuture, destination};
use tracing::field::Empty;
use tracing::{Instrument as _, Span, info_span};

use crate::handler::Result;
use crate::layer::{Call, Layer};

/// A layer that opens a span of `tracing` around every call of a handler. Its fields are the attributes of OpenTelemetry's
/// semantic conventions for messaging; those of this crate begin with `handover.`:
///
/// | field | value |
/// |---|---|
/// | `otel.name`, `otel.kind` | `process <destination>`, `consumer` |
/// | `messaging.system` | `rabbitmq`, or `handover` if messages are rows of the database |
/// | `messaging.operation.name`, `messaging.operation.type` | `process` |
/// | `messaging.destination.name` | the queue; with RabbitMQ, exchange, routing key and queue, separated by colons |
/// | `messaging.consumer.group.name` | the consumer |
/// | `messaging.message.id` | the event id |
/// | `handover.event.type`, `handover.attempt` | the event type; the number of the attempt, see [`Call::attempt`] |
/// | `handover.trace.id` | the trace id of the request that caused the event, see [`Call::trace_id`] |
/// | `error.type` | after a failure: `permanent` or `retryable`, or `interrupted` if the handler did not end: its time limit was exceeded, or the process stopped |
/// | `otel.status_code`, `otel.status_description` | after a failure: `ERROR`, and its text |
///
/// With the feature `otel`, if a layer of `tracing-opentelemetry` is installed, the parent of the span, and a link of it, is the one
/// in which the relay published the event (`publish <destination>`), whose parent is the one in which the event was enqueued. A span
/// around the commit of a group of events links the publish spans of all of them. These two have the target `handover::trace`.
///
/// ```
/// use handover::{Outbox, TraceLayer};
/// # use sqlx::{Sqlite, SqlitePool};
///
/// fn outbox(pool: SqlitePool) -> Result<Outbox<Sqlite>, handover::BuildError> {
///     Outbox::builder(pool).layer(TraceLayer).build()
/// }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceLayer;

impl Layer for TraceLayer {
    fn around<'a>(
        &self,
        event: Call<'_>,
        call: BoxFuture<'a, Result<Applied>>,
    ) -> BoxFuture<'a, Result<Applied>> {
        let span = span_of(event);
        let mut observed = Observed { span: span.clone(), has_ended: false };
        let observing = async move {
            let outcome = call.await;
            observed.has_ended = true;
            if let Err(error) = &outcome {
                observed
                    .fail(if error.is_permanent() { "permanent" } else { "retryable" }, &error.to_string());
            }
            outcome
        };
        Box::pin(observing.instrument(span))
    }
}

/// The span of a call that is dropped if it does not end.
struct Observed {
    span: Span,
    has_ended: bool,
}

impl Observed {
    fn fail(&self, error_type: &str, description: &str) {
        self.span.record("error.type", error_type);
        self.span.record("otel.status_code", "ERROR");
        self.span.record("otel.status_description", description);
    }
}

impl Drop for Observed {
    fn drop(&mut self) {
        if !self.has_ended {
            self.fail("interrupted", "the time limit was exceeded, or the process stopped");
        }
    }
}

fn span_of(call: Call<'_>) -> Span {
    let destination = destination(call.system, call.exchange, call.routing_key, Some(call.queue()));
    let span = info_span!(
        parent: None,
        "process",
        otel.name = format!("process {destination}"),
        otel.kind = "consumer",
        otel.status_code = Empty,
        otel.status_description = Empty,
        messaging.system = call.system,
        messaging.operation.name = "process",
        "messaging.operation.type" = "process",
        messaging.destination.name = destination,
        messaging.consumer.group.name = call.consumer(),
        messaging.message.id = call.event_id(),
        "handover.event.type" = call.event_type(),
        handover.attempt = call.attempt(),
        handover.trace.id = call.trace_id(),
        "error.type" = Empty,
    );
    #[cfg(feature = "otel")]
    if let Some(published) = call.published_in() {
        crate::otel::set_parent(&span, published);
        crate::otel::add_link(&span, published);
    } else if let Some(traceparent) = call.traceparent() {
        crate::otel::set_parent(&span, traceparent);
    }
    span
}
