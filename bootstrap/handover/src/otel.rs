//! The trace context of OpenTelemetry.

use handover_events::Trace;
use handover_outbox::TraceContext;
use opentelemetry::Context;
use opentelemetry::trace::{SpanContext, SpanId, TraceContextExt as _, TraceFlags, TraceId, TraceState};
use tracing::Span;
use tracing_opentelemetry::OpenTelemetrySpanExt as _;

/// Adds the current span to the trace of an event that has no `traceparent`.
pub(crate) fn with_current_span(given: Option<Trace>) -> Option<Trace> {
    if given.as_ref().is_some_and(|trace| trace.traceparent.is_some()) {
        return given;
    }
    let Some(span) = current_span() else { return given };
    let trace = given.unwrap_or_else(|| Trace::new(span.trace_id().to_string()));
    Some(trace.with_parent(traceparent_of(&span)))
}

fn traceparent_of(span: &SpanContext) -> String {
    let (trace_id, span_id, flags) = (span.trace_id(), span.span_id(), span.trace_flags());
    format!("00-{trace_id}-{span_id}-{flags:02x}")
}

/// The current span of `tracing`, or that of a program that uses OpenTelemetry without it.
fn current_span() -> Option<SpanContext> {
    let contexts = [Span::current().context(), Context::current()];
    let mut spans = contexts.iter().map(|context| context.span().span_context().clone());
    spans.find(SpanContext::is_valid)
}

/// Makes the span of a `traceparent` the parent. An invalid one is ignored.
pub(crate) fn set_parent(span: &Span, traceparent: &str) {
    if let Some(parent) = parse(traceparent) {
        // An error is ignored: no layer of OpenTelemetry is installed, or the span is filtered out.
        let _ = span.set_parent(Context::new().with_remote_span_context(parent));
    }
}

/// Adds a link to the span of a `traceparent`. An invalid one is ignored.
pub(crate) fn add_link(span: &Span, traceparent: &str) {
    if let Some(linked) = parse(traceparent) {
        span.add_link(linked);
    }
}

/// The spans of the relay, and of groups of events, in a layer of `tracing-opentelemetry`. The spans of single events are those
/// of [`TraceLayer`](crate::TraceLayer).
pub(crate) struct SpanContexts;

impl TraceContext for SpanContexts {
    fn traceparent(&self, span: &Span) -> Option<String> {
        let context = span.context();
        let context = context.span().span_context().clone();
        context.is_valid().then(|| traceparent_of(&context))
    }

    fn set_parent(&self, span: &Span, traceparent: &str) {
        set_parent(span, traceparent);
    }

    fn add_link(&self, span: &Span, traceparent: &str) {
        add_link(span, traceparent);
    }

    fn covers_handlers(&self) -> bool {
        true
    }
}

/// Parses a `traceparent` in the format of version 00 (W3C Trace Context, section 3.2). The version is not checked.
fn parse(traceparent: &str) -> Option<SpanContext> {
    let mut parts = traceparent.split('-').skip(1);
    let trace = TraceId::from_hex(parts.next()?).ok()?;
    let span = SpanId::from_hex(parts.next()?).ok()?;
    let flags = u8::from_str_radix(parts.next()?, 16).ok()?;
    let parent = SpanContext::new(trace, span, TraceFlags::new(flags), true, TraceState::NONE);
    parent.is_valid().then_some(parent)
}
