//! The trace of a request: its ids, its span, its log line, its time limit.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use handover_events::Trace;
use handover_outbox::ports::Chance;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::edge::Edge;
use crate::envelope::written;
use crate::language::Language;
use crate::refusal::Refusal;

/// The header that carries the trace id, in and out.
pub(crate) const X_TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The layer around every route: everything a request meets further in happens in its span and its time, and is answered
/// in the envelope.
pub(crate) async fn traced(State(edge): State<Arc<Edge>>, mut request: Request, next: Next) -> Response {
    let (trace, parent) = of(request.headers(), edge.app.tx.chance.as_ref());
    let language = Language::of(request.headers());
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let method = request.method().clone();
    let span = tracing::info_span!("request", traceId = %trace.trace_id, %method, route);
    request.extensions_mut().insert(trace.clone());
    async {
        let begun = Instant::now();
        let response = match timeout(edge.limits.request, next.run(request)).await {
            Ok(response) => response,
            // Its body has a shorter limit of its own: the route has begun, and with it perhaps a transaction that commits.
            Err(late) => Refusal::outcome_unknown(&late).into_response(),
        };
        let response = answered(response, &trace, language);
        tracing::info!(
            hop = "request",
            status = response.status().as_u16(),
            durationMs = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            traceparent = trace.traceparent.as_deref(),
            parent,
            "answered"
        );
        response
    }
    .instrument(span)
    .await
}

/// The answer to a request that is not looked at any further. It has its trace and no line in the log: the rest that a
/// service under too much load does is not to write about it.
pub(crate) fn turned_away(edge: &Edge, headers: &HeaderMap, refusal: Refusal) -> Response {
    let (trace, _) = of(headers, edge.app.tx.chance.as_ref());
    tracing::debug!(traceId = %trace.trace_id, "turned away");
    answered(refusal.into_response(), &trace, Language::of(headers))
}

/// In the envelope, with its trace.
fn answered(response: Response, trace: &Trace, language: Language) -> Response {
    let mut response = written(response, &trace.trace_id, language);
    let told = trace.traceparent.as_deref().and_then(|text| HeaderValue::from_str(text).ok());
    response.headers_mut().extend(told.map(|value| (TRACEPARENT, value)));
    response
}

/// The trace that the client is in, or a new one, and the client's own span. In the W3C trace the request is a span of
/// its own, the parent of all that it causes. Whoever names a trace by `X-Trace-Id` alone, in whatever words, is in one
/// W3C trace with all who name it so.
fn of(headers: &HeaderMap, chance: &dyn Chance) -> (Trace, Option<String>) {
    let given = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok()).and_then(well_formed);
    let asked = headers.get(X_TRACE_ID).and_then(|value| value.to_str().ok()).filter(|id| is_trace_id(id));
    let trace_id = match (asked, &given) {
        (Some(id), _) => id.to_owned(),
        (None, Some(parent)) => parent[3..35].to_owned(),
        (None, None) => format!("{:016x}{:016x}", chance.next(), chance.next()),
    };
    let span = chance.next().max(1);
    let (traceparent, parent) = match given {
        Some(given) => {
            (format!("{}-{span:016x}-{}", &given[..35], &given[53..]), Some(given[36..52].to_owned()))
        }
        None => (format!("00-{}-{span:016x}-01", w3c_trace_of(&trace_id)), None),
    };
    (Trace { trace_id, traceparent: Some(traceparent) }, parent)
}

/// The W3C trace id of one of ours: itself, if it is one, or the first half of its SHA-256.
fn w3c_trace_of(id: &str) -> String {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if id.len() == 32 && id.bytes().all(hex) && id.bytes().any(|b| b != b'0') {
        return id.to_owned();
    }
    Sha256::digest(id).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn is_trace_id(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// A `traceparent` as version 00 writes it, if it is one (W3C Trace Context §3.2, §4.3: of a later version the first
/// four fields are read).
fn well_formed(text: &str) -> Option<String> {
    let head = text.get(..55)?;
    let mut fields = head.split('-');
    let (version, trace, parent, flags) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    let hex = |field: &str, length: usize| {
        field.len() == length && field.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let shaped = hex(version, 2) && hex(trace, 32) && hex(parent, 16) && hex(flags, 2);
    let named = version != "ff" && trace.bytes().any(|b| b != b'0') && parent.bytes().any(|b| b != b'0');
    let ends = text.len() == 55 || (version != "00" && text.as_bytes().get(55) == Some(&b'-'));
    (shaped && named && ends).then(|| format!("00-{trace}-{parent}-{flags}"))
}
