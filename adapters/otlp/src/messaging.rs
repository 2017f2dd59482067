//! The spans of relay and consumers, and their trace contexts.

use std::time::SystemTime;

use handover_outbox::TraceContext;
use opentelemetry::trace::{Link, SpanContext, SpanId, SpanKind, Status, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use tracing::Span;
use tracing_subscriber::Registry;
use tracing_subscriber::registry::LookupSpan;

use crate::fields::Fields;
use crate::span::{new_id, parse_traceparent};

/// A span that has not ended.
pub(crate) struct MessagingSpan {
    fields: Fields,
    id: SpanId,
    /// `None`: the span belongs to no trace and is not exported.
    parent: Option<SpanContext>,
    links: Vec<SpanContext>,
    started_at: SystemTime,
}

impl MessagingSpan {
    pub(crate) fn started(fields: Fields, started_at: SystemTime) -> MessagingSpan {
        MessagingSpan { fields, id: new_id(), parent: None, links: Vec::new(), started_at }
    }

    pub(crate) fn fields(&mut self) -> &mut Fields {
        &mut self.fields
    }

    /// The ended span; `None` if its trace is not sampled.
    pub(crate) fn ended(self, at: SystemTime) -> Option<SpanData> {
        let parent = self.parent.filter(SpanContext::is_sampled)?;
        let failed = self.fields.has("error.type");
        let kind = match self.fields.text("otel.kind").as_deref() {
            Some("producer") => SpanKind::Producer,
            Some("consumer") => SpanKind::Consumer,
            _ => SpanKind::Internal,
        };
        let name = self.fields.text("otel.name").unwrap_or_default();
        let own = |(name, value): (&'static str, _)| {
            (!name.starts_with("otel.")).then(|| KeyValue::new(name, value))
        };
        let mut links = SpanLinks::default();
        links.links = self.links.into_iter().map(Link::with_context).collect();
        let (trace, flags) = (parent.trace_id(), parent.trace_flags());
        Some(SpanData {
            span_context: SpanContext::new(trace, self.id, flags, false, TraceState::NONE),
            parent_span_id: parent.span_id(),
            parent_span_is_remote: true,
            span_kind: kind,
            name: name.into(),
            start_time: self.started_at,
            end_time: at.max(self.started_at),
            attributes: self.fields.into_all_except(&[]).filter_map(own).collect(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links,
            status: if failed { Status::error("") } else { Status::Unset },
            instrumentation_scope: InstrumentationScope::builder("handover").build(),
        })
    }
}

/// Trace contexts of the spans of relay and consumers that a [`HopLayer`](crate::HopLayer) exports, for
/// [`Outbox::with_spans`](handover_outbox::Outbox::with_spans).
#[derive(Debug, Clone, Copy, Default)]
pub struct SpanContexts;

impl TraceContext for SpanContexts {
    fn traceparent(&self, span: &Span) -> Option<String> {
        let traceparent = |span: &mut MessagingSpan| {
            let parent = span.parent.as_ref()?;
            let (trace, flags) = (parent.trace_id(), parent.trace_flags());
            Some(format!("00-{trace}-{}-{flags:02x}", span.id))
        };
        with_span(span, traceparent).flatten()
    }

    fn set_parent(&self, span: &Span, traceparent: &str) {
        with_span(span, |span| span.parent = parse(traceparent));
    }

    fn add_link(&self, span: &Span, traceparent: &str) {
        with_span(span, |span| span.links.extend(parse(traceparent)));
    }
}

fn parse(traceparent: &str) -> Option<SpanContext> {
    let (trace, span, flags) = parse_traceparent(traceparent)?;
    Some(SpanContext::new(trace, span, flags, true, TraceState::NONE))
}

/// Changes the data of a span; `None` if no layer exports it.
fn with_span<R>(span: &Span, change: impl FnOnce(&mut MessagingSpan) -> R) -> Option<R> {
    let changed = span.with_subscriber(|(id, dispatch)| {
        let span = dispatch.downcast_ref::<Registry>()?.span(id)?;
        let mut extensions = span.extensions_mut();
        extensions.get_mut::<MessagingSpan>().map(change)
    });
    changed.flatten()
}
