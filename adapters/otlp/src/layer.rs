//! Conversion of log events and `tracing` spans to OpenTelemetry spans.

use std::sync::Arc;
use std::time::SystemTime;

use handover_outbox::SPAN_TARGET;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanProcessor};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, LevelFilter, filter_fn};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::fields::Fields;
use crate::messaging::MessagingSpan;
use crate::span::span_of;

/// A `tracing-subscriber` layer that exports the spans of relay and consumers, and log events with the field `hop` as spans,
/// if their trace is sampled. [`SpanContexts`](crate::SpanContexts) connects the spans of relay and consumers.
pub struct HopLayer {
    processor: Arc<BatchSpanProcessor>,
}

impl HopLayer {
    pub(crate) fn new(processor: Arc<BatchSpanProcessor>) -> HopLayer {
        HopLayer { processor }
    }
}

/// The filter of a [`HopLayer`]. It does not depend on the filter of log lines, so spans are exported whatever is logged.
pub fn hops() -> FilterFn {
    let is_needed: fn(&Metadata<'_>) -> bool = |metadata| {
        let is_hop = metadata.fields().field("hop").is_some();
        (metadata.is_span() || is_hop) && *metadata.level() <= Level::INFO
    };
    filter_fn(is_needed).with_max_level_hint(LevelFilter::INFO)
}

#[allow(clippy::disallowed_methods, reason = "the spans of several machines are compared by wall-clock time")]
fn now() -> SystemTime {
    SystemTime::now()
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for HopLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let Some(span) = context.span(id) else { return };
        if attributes.metadata().target() == SPAN_TARGET {
            span.extensions_mut().insert(MessagingSpan::started(fields, now()));
        } else {
            span.extensions_mut().insert(fields);
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(span) = span.extensions_mut().get_mut::<MessagingSpan>()
        {
            values.record(span.fields());
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let ended = context.span(&id).and_then(|span| span.extensions_mut().remove::<MessagingSpan>());
        if let Some(span) = ended.and_then(|span| span.ended(now())) {
            self.processor.on_end(span);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if event.metadata().fields().field("hop").is_none() {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(outer) = span.extensions().get::<Fields>() {
                fields.inherit(outer);
            }
        }
        if let Some(span) = span_of(fields, now()) {
            self.processor.on_end(span);
        }
    }
}
