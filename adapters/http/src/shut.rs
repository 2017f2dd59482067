//! Headers that keep a browser from making anything else of an answer than what it is.

use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;

/// What every answer says, unless its route says something of its own: a page needs its own policy.
const HEADERS: [(HeaderName, HeaderValue); 4] = [
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static(
            "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        ),
    ),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    // For browsers that do not know frame-ancestors.
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
];

/// Adds them.
pub(crate) fn shut(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(value);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// The layer that adds them to what did not get them further in.
pub(crate) async fn shut_response(mut response: Response) -> Response {
    shut(response.headers_mut());
    response
}
