//! Names of the headers that several modules read or write.

use axum::http::HeaderName;

/// Carries the trace id, in requests and responses.
pub const X_TRACE_ID: HeaderName = HeaderName::from_static("x-trace-id");
/// Carries the request id, in requests and responses.
pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// W3C Trace Context.
pub const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
/// Name of the idempotency key in error responses and in the OpenAPI document.
pub const X_IDEMPOTENCY_KEY: &str = "X-Idempotency-Key";
/// Headers that can carry the idempotency key: `X-Idempotency-Key`, and that of the IETF draft
/// (draft-ietf-httpapi-idempotency-key-header).
pub const KEY_HEADERS: [HeaderName; 2] =
    [HeaderName::from_static("x-idempotency-key"), HeaderName::from_static("idempotency-key")];
/// Marks a response that was stored for an earlier request.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");
/// Remaining quota (draft-ietf-httpapi-ratelimit-headers).
pub const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
/// Limit of the route (draft-ietf-httpapi-ratelimit-headers).
pub const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
