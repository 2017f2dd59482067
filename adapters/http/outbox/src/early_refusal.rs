//! The envelope of responses that the HTTP library writes itself, before there is a request to route: to a head that is
//! malformed or too large. The library writes them without a body and offers no hook.

use std::hash::{BuildHasher, RandomState};

use axum::body::Bytes;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};

use crate::header_names::{X_REQUEST_ID, X_TRACE_ID};
use crate::language::Language;
use crate::refusal::Refusal;
use crate::response_headers::add_security_headers;

/// Returns the response to write instead of these bytes; `None` if they are not a complete error response without a body.
/// Responses of routes always have a content type.
pub(crate) fn with_envelope(written: &[u8]) -> Option<Bytes> {
    let head = std::str::from_utf8(written).ok()?.strip_suffix("\r\n\r\n")?;
    let (status_line, fields) = head.split_once("\r\n")?;
    let code = status_line.strip_prefix("HTTP/1.1 ")?.get(..3)?;
    let status = StatusCode::from_bytes(code.as_bytes()).ok().filter(StatusCode::is_client_error)?;
    let named = |field: &&str, name: &str| {
        field.split_once(':').is_some_and(|(given, _)| given.trim().eq_ignore_ascii_case(name))
    };
    if fields.contains("\r\n\r\n") || fields.lines().any(|field| named(&field, CONTENT_TYPE.as_str())) {
        return None;
    }
    let kept = fields.lines().filter(|field| !named(field, CONTENT_LENGTH.as_str()));
    let trace_id = new_id();
    let request_id = new_id();
    // The headers of the request are not known, so its language is not known either.
    let body = Refusal::before_routing(status).write(&trace_id, Language::English);
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_LENGTH, body.len().into());
    headers.extend(HeaderValue::from_str(&trace_id).ok().map(|value| (X_TRACE_ID, value)));
    headers.extend(HeaderValue::from_str(&request_id).ok().map(|value| (X_REQUEST_ID, value)));
    add_security_headers(&mut headers);
    let mut response = format!("{status_line}\r\n");
    for field in kept {
        response += &format!("{field}\r\n");
    }
    for (name, value) in &headers {
        response += &format!("{name}: {}\r\n", value.to_str().unwrap_or_default());
    }
    response += &format!("\r\n{body}");
    tracing::info!(
        code = "request.malformed-head",
        hop = "request",
        status = status.as_u16(),
        traceId = trace_id,
        requestId = request_id,
        "request: head malformed or too large; connection closed"
    );
    Some(response.into())
}

/// A random trace id or request id. The random numbers of the application are not available here; the seed of a hash map is random, too.
fn new_id() -> String {
    let random = || RandomState::new().hash_one(());
    format!("{:016x}{:016x}", random(), random())
}
