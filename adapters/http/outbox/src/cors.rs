//! Cross-origin requests (CORS): only pages of the configured origins may read responses.

use std::time::Duration;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, Method, Uri};
use tower_http::cors::CorsLayer;

use crate::header_names::{
    KEY_HEADERS, RATE_LIMIT, RATE_LIMIT_POLICY, REPLAYED, TRACEPARENT, X_REQUEST_ID, X_TRACE_ID,
};

/// Time for which a browser may cache the preflight response.
const MAX_AGE: Duration = Duration::from_secs(3600);

/// An origin in the form in which a browser sends it (RFC 6454 §6.2): scheme, host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebOrigin(HeaderValue);

impl WebOrigin {
    /// Parses an origin: `http` or `https`, lower case, no path, no default port, no wildcard.
    pub fn parse(text: &str) -> Option<WebOrigin> {
        let uri: Uri = text.parse().ok()?;
        let scheme = uri.scheme_str()?;
        let authority = uri.authority()?;
        let default = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let is_exact = text == format!("{scheme}://{authority}")
            && text.bytes().all(|byte| !byte.is_ascii_uppercase() && byte != b'@' && byte != b'*')
            && !uri.host()?.is_empty()
            && uri.port_u16() != Some(default)
            && uri.port().is_some() == authority.as_str()[uri.host()?.len()..].starts_with(':');
        HeaderValue::from_str(text).ok().filter(|_| is_exact).map(WebOrigin)
    }
}

/// The CORS layer for these origins; `None` if there are none. Credentials are not allowed, because the API uses no cookies.
pub(crate) fn layer(origins: &[WebOrigin]) -> Option<CorsLayer> {
    if origins.is_empty() {
        return None;
    }
    let request_headers =
        [AUTHORIZATION, CONTENT_TYPE, X_TRACE_ID, X_REQUEST_ID].into_iter().chain(KEY_HEADERS);
    let layer = CorsLayer::new()
        .allow_origin(origins.iter().map(|origin| origin.0.clone()).collect::<Vec<_>>())
        .allow_methods([Method::GET, Method::POST, Method::PATCH, Method::DELETE])
        .allow_headers(request_headers.chain([TRACEPARENT]).collect::<Vec<_>>())
        .expose_headers([RETRY_AFTER, X_TRACE_ID, X_REQUEST_ID, REPLAYED, RATE_LIMIT, RATE_LIMIT_POLICY])
        .max_age(MAX_AGE);
    Some(layer)
}
