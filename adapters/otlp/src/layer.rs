//! Conversion of log events to spans.

use std::sync::Arc;
use std::time::SystemTime;

use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanProcessor};
use tracing::span::{Attributes, Id};
use tracing::{Event, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::fields::Fields;
use crate::span::span_of;

/// A `tracing-subscriber` layer that exports log events with the field `hop` as spans, if their trace is sampled.
pub struct HopLayer {
    processor: Arc<BatchSpanProcessor>,
}

impl HopLayer {
    pub(crate) fn new(processor: Arc<BatchSpanProcessor>) -> HopLayer {
        HopLayer { processor }
    }
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
