//! Security headers of responses.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;

/// Defaults; a route may set its own value, as the documentation page does for its content security policy.
const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        ),
    ),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    // `X-Frame-Options` is for browsers that do not support `frame-ancestors`.
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
];

/// Adds the security headers.
pub(crate) fn add_security_headers(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(value);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// Middleware that adds the security headers to responses that no inner layer has written, such as CORS preflight
/// responses.
pub(crate) async fn with_security_headers(mut response: Response) -> Response {
    add_security_headers(response.headers_mut());
    response
}
