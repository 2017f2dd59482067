//! The layers of all routes, and their sequence.

use std::any::Any;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use handover_outbox::ports::RandomSource;
use tower_http::catch_panic::CatchPanicLayer;

use crate::concurrency_limit::{ConcurrencyLimit, limit_concurrency};
use crate::cors;
use crate::limits::Limits;
use crate::refusal::Refusal;
use crate::response_headers::with_security_headers;
use crate::trace::{Tracing, trace_request};

/// The layers that an application puts around its routes, outermost first: CORS and the 404 fallback, concurrency limit,
/// trace, log line and timeout, envelope, panic handler.
#[derive(Clone)]
pub struct Layers(Tracing);

impl Layers {
    /// Layers with these limits; `random` generates trace ids.
    pub fn new(random: Arc<dyn RandomSource>, limits: Limits) -> Layers {
        Layers(Tracing { random, limits: Arc::new(limits) })
    }

    /// Adds tracing, the request timeout, the envelope and the panic handler.
    pub fn with_tracing<S: Clone + Send + Sync + 'static>(&self, routes: Router<S>) -> Router<S> {
        routes
            .method_not_allowed_fallback(|| async { Refusal::from_status(StatusCode::METHOD_NOT_ALLOWED) })
            .layer(CatchPanicLayer::custom(panic_response))
            .layer(from_fn_with_state(self.0.clone(), trace_request))
    }

    /// Adds tracing and a concurrency limit. Each call creates a separate limit, so that operators can still diagnose the
    /// service when users overload it.
    pub fn with_concurrency_limit<S: Clone + Send + Sync + 'static>(&self, routes: Router<S>) -> Router<S> {
        let limit = ConcurrencyLimit::new(self.0.limits.concurrent_requests);
        self.with_tracing(routes).route_layer(from_fn_with_state((self.0.clone(), limit), limit_concurrency))
    }

    /// Adds the 404 fallback and CORS.
    pub fn with_fallback_and_cors<S: Clone + Send + Sync + 'static>(&self, routes: Router<S>) -> Router<S> {
        let not_found = Router::new().fallback(|| async { Refusal::from_status(StatusCode::NOT_FOUND) });
        let routes = routes.merge(self.with_tracing(not_found));
        match cors::layer(&self.0.limits.cors_origins) {
            // The CORS layer responds to preflight requests itself, so a layer outside of it adds the security headers.
            Some(cors) => routes.layer(cors).layer(map_response(with_security_headers)),
            None => routes,
        }
    }
}

/// The response to a request whose handler panicked.
fn panic_response(panic: Box<dyn Any + Send>) -> Response {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "the panic payload is not a string".to_owned());
    Refusal::internal(&format_args!("the handler panicked: {message}")).into_response()
}
