//! Conversion of log events to spans.

use std::sync::Arc;
use std::time::SystemTime;

use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanProcessor};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, LevelFilter, filter_fn};
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::fields::Fields;
use crate::span::span_of;

/// Target of the lines about single events.
const EVENT_TARGET: &str = "handover::event";

/// A `tracing-subscriber` layer that exports log events with the field `hop` as spans, if their trace is sampled.
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
        // The metadata of `enabled!` has no fields.
        let is_hop = metadata.fields().field("hop").is_some() || metadata.target() == EVENT_TARGET;
        (metadata.is_span() || is_hop) && *metadata.level() <= Level::INFO
    };
    filter_fn(is_needed).with_max_level_hint(LevelFilter::INFO)
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for HopLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(fields);
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
        #[allow(
            clippy::disallowed_methods,
            reason = "the spans of several machines are compared by wall-clock time"
        )]
        let now = SystemTime::now();
        if let Some(span) = span_of(fields, now) {
            self.processor.on_end(span);
        }
    }
}
