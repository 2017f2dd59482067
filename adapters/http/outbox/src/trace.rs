//! Request tracing: trace and request ids, the request's span and log line, and its timeout.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use handover_events::Trace;
use handover_outbox::ports::RandomSource;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, timeout};
use tracing::Instrument;

use crate::header_names::{TRACEPARENT, X_REQUEST_ID, X_TRACE_ID};
use crate::language::Language;
use crate::limits::{BodyLimits, Limits};
use crate::metrics::{REQUEST_SECONDS, REQUESTS};
use crate::refusal::Refusal;
use crate::response::write_envelope;

/// Id of a request: `X-Request-Id` of the client, or a generated one. The trace layer adds it to the extensions of every
/// request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(pub String);

/// Routes that are requested every few seconds: their successes are logged at the level debug.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// What the trace layer uses.
#[derive(Clone)]
pub(crate) struct Tracing {
    /// Generates trace ids.
    pub(crate) random: Arc<dyn RandomSource>,
    pub(crate) limits: Arc<Limits>,
}

/// Middleware around every route: runs the inner layers in the request's span, with the request timeout, and writes the
/// response envelope. Does nothing if the request passed this layer in an outer router.
pub(crate) async fn trace_request(State(uses): State<Tracing>, mut request: Request, next: Next) -> Response {
    if request.extensions().get::<Trace>().is_some() {
        return next.run(request).await;
    }
    let (trace, parent) = trace_of(request.headers(), uses.random.as_ref());
    let request_id = request_id_of(request.headers(), uses.random.as_ref());
    let language = Language::of(request.headers());
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let method = request.method().clone();
    let span =
        tracing::info_span!("request", traceId = %trace.trace_id, requestId = %request_id.0, %method, route);
    let is_probe = PROBES.contains(&route.as_str());
    let measured = Measured { method: method_label(&method), route: route.clone() };
    request.extensions_mut().insert(trace.clone());
    request.extensions_mut().insert(request_id.clone());
    request.extensions_mut().insert(BodyLimits::from(uses.limits.as_ref()));
    async {
        let begun = Instant::now();
        let response = match timeout(uses.limits.request, next.run(request)).await {
            Ok(response) => response,
            // The request timed out. Reading a body has a shorter timeout, so the handler has started and its
            // transaction may still commit.
            Err(late) => Refusal::outcome_unknown(&late).into_response(),
        };
        let response = finish_response(response, &trace, &request_id, language);
        measured.response(response.status(), begun.elapsed());
        let status = response.status();
        let duration = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        let traceparent = trace.traceparent.as_deref();
        if is_probe && status.is_success() {
            tracing::debug!(
                code = "request.completed",
                hop = "request",
                status = status.as_u16(),
                durationMs = duration,
                traceparent,
                parent,
                "request: completed"
            );
        } else {
            tracing::info!(
                code = "request.completed",
                hop = "request",
                status = status.as_u16(),
                durationMs = duration,
                traceparent,
                parent,
                "request: completed"
            );
        }
        response
    }
    .instrument(span)
    .await
}

/// Labels of a request in metrics.
struct Measured {
    method: &'static str,
    route: String,
}

impl Measured {
    fn response(self, status: StatusCode, took: Duration) {
        let Measured { method, route } = self;
        metrics::histogram!(REQUEST_SECONDS, "method" => method, "route" => route.clone())
            .record(took.as_secs_f64());
        let status = status.as_u16().to_string();
        metrics::counter!(REQUESTS, "method" => method, "route" => route, "status" => status).increment(1);
    }
}

/// The standard methods of the routes. A client can send any others, so they have one label.
fn method_label(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// Response to a request that the concurrency limit rejects. It has a trace id and a request id but no log line above level debug, to keep
/// rejections cheap under overload.
pub(crate) fn overload_response(uses: &Tracing, headers: &HeaderMap, refusal: Refusal) -> Response {
    let (trace, _) = trace_of(headers, uses.random.as_ref());
    let request_id = request_id_of(headers, uses.random.as_ref());
    tracing::debug!(code = "request.rejected", traceId = %trace.trace_id, requestId = request_id.0, "request: rejected by the concurrency limit");
    finish_response(refusal.into_response(), &trace, &request_id, Language::of(headers))
}

/// Writes the envelope and adds the headers of the trace and of the request id.
fn finish_response(
    response: Response,
    trace: &Trace,
    request_id: &RequestId,
    language: Language,
) -> Response {
    let mut response = write_envelope(response, &trace.trace_id, language);
    let traceparent = trace.traceparent.as_deref().and_then(|text| HeaderValue::from_str(text).ok());
    response.headers_mut().extend(traceparent.map(|value| (TRACEPARENT, value)));
    let request_id = HeaderValue::from_str(&request_id.0).ok();
    response.headers_mut().extend(request_id.map(|value| (X_REQUEST_ID, value)));
    response
}

/// Returns the client's trace or a new one, and the id of the client's span. The request becomes a span of that W3C
/// trace and the parent of everything that the request causes. Requests with the same `X-Trace-Id` and no `traceparent`
/// share one W3C trace.
fn trace_of(headers: &HeaderMap, random: &dyn RandomSource) -> (Trace, Option<String>) {
    let given = only_value(headers, &TRACEPARENT).and_then(Trace::parse_parent);
    let requested = only_value(headers, &X_TRACE_ID).filter(|id| Trace::is_valid_id(id));
    let trace_id = match (requested, &given) {
        (Some(id), _) => id.to_owned(),
        (None, Some(parent)) => parent[3..35].to_owned(),
        (None, None) => new_id(random),
    };
    let span = random.next().max(1);
    let (traceparent, parent) = match given {
        Some(given) => {
            (format!("{}-{span:016x}-{}", &given[..35], &given[53..]), Some(given[36..52].to_owned()))
        }
        None => (format!("00-{}-{span:016x}-01", w3c_trace_id(&trace_id)), None),
    };
    (Trace { trace_id, traceparent: Some(traceparent) }, parent)
}

/// The client's request id, or a new one.
fn request_id_of(headers: &HeaderMap, random: &dyn RandomSource) -> RequestId {
    let given = only_value(headers, &X_REQUEST_ID).filter(|id| Trace::is_valid_id(id));
    RequestId(given.map_or_else(|| new_id(random), str::to_owned))
}

fn new_id(random: &dyn RandomSource) -> String {
    format!("{:016x}{:016x}", random.next(), random.next())
}

/// The value of a header that occurs once. A repeated `traceparent` is invalid (W3C Trace Context §3.2.1) and treated like
/// an absent one, and so is a repeated `X-Trace-Id` or `X-Request-Id`.
fn only_value<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}

/// Converts a trace id to a W3C trace id: unchanged if it is one, otherwise the first half of its SHA-256.
fn w3c_trace_id(id: &str) -> String {
    let hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if id.len() == 32 && id.bytes().all(hex) && id.bytes().any(|b| b != b'0') {
        return id.to_owned();
    }
    Sha256::digest(id).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}
