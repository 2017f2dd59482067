//! The span of a hop. Attributes follow the OpenTelemetry semantic conventions for HTTP; attributes that
//! the conventions do not define have the prefix `handover.`.

use std::time::{Duration, SystemTime};

use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_sdk::trace::{IdGenerator, RandomIdGenerator, SpanData, SpanEvents, SpanLinks};

use crate::fields::Fields;

/// Fields that are not copied to the attributes: the span already contains them, and `traceId` is added separately.
const STRUCTURE: [&str; 6] = ["hop", "traceparent", "parent", "durationMs", "message", "traceId"];

/// Field names and the attribute names of the semantic conventions.
const CONVENTIONS: [(&str, &str); 3] =
    [("method", "http.request.method"), ("route", "http.route"), ("status", "http.response.status_code")];

/// The span of a log event; the span ends at `end`. `None` if the event has no valid `traceparent`, its trace is not
/// sampled, or its hop is unknown.
pub(crate) fn span_of(fields: Fields, end: SystemTime) -> Option<SpanData> {
    let (trace, span, flags) = parse_traceparent(&fields.text("traceparent")?)?;
    if !flags.is_sampled() {
        return None;
    }
    let text = |name| fields.text(name).unwrap_or_default();
    let hop = fields.text("hop")?;
    let (kind, name, id, parent) = match hop.as_str() {
        "request" => {
            let parent = fields.text("parent").and_then(|id| SpanId::from_hex(&id).ok());
            let name = format!("{} {}", text("method"), text("route"));
            (SpanKind::Server, name, span, parent.unwrap_or(SpanId::INVALID))
        }
        _ => return None,
    };
    let duration_ms = u64::try_from(fields.number("durationMs").unwrap_or(0)).unwrap_or(0);
    let failed = fields.number("status").is_some_and(|status| status >= 500);
    let attribute = |(name, value): (&'static str, Value)| {
        let convention = CONVENTIONS.iter().find(|(field, _)| *field == name);
        KeyValue::new(
            convention.map_or_else(|| format!("handover.{name}"), |(_, attribute)| (*attribute).to_owned()),
            value,
        )
    };
    let trace_id = fields.text("traceId").map(|id| KeyValue::new("handover.traceId", id));
    Some(SpanData {
        span_context: SpanContext::new(trace, id, flags, false, TraceState::NONE),
        parent_span_id: parent,
        parent_span_is_remote: parent != SpanId::INVALID,
        span_kind: kind,
        name: name.into(),
        start_time: end.checked_sub(Duration::from_millis(duration_ms)).unwrap_or(end),
        end_time: end,
        attributes: fields.into_all_except(&STRUCTURE).map(attribute).chain(trace_id).collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: if failed { Status::error("") } else { Status::Unset },
        instrumentation_scope: InstrumentationScope::builder("handover").build(),
    })
}

pub(crate) fn new_id() -> SpanId {
    RandomIdGenerator::default().new_span_id()
}

/// Parses a `traceparent` in the format of version 00 (W3C Trace Context, section 3.2). The version is not checked.
pub(crate) fn parse_traceparent(text: &str) -> Option<(TraceId, SpanId, TraceFlags)> {
    let mut parts = text.split('-');
    let (_, trace, span, flags) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let trace = TraceId::from_hex(trace).ok().filter(|id| *id != TraceId::INVALID)?;
    let span = SpanId::from_hex(span).ok().filter(|id| *id != SpanId::INVALID)?;
    Some((trace, span, TraceFlags::new(u8::from_str_radix(flags, 16).ok()?)))
}
