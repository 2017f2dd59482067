//! All routes, and the sequence of their layers.

mod account;
mod assets;
mod health;
mod metrics;
mod openapi;
mod ops;
mod orders;
mod payments;
mod products;
mod refunds;
mod stored_response;
mod timeline;

use std::any::Any;
use std::sync::{Arc, LazyLock};

use axum::body::Bytes;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::concurrency_limit::{ConcurrencyLimit, limit_concurrency};
use crate::context::{authenticate, require_operator};
use crate::cors;
use crate::edge::Edge;
use crate::idempotency::{ResponseStorage, handle_idempotency_key};
use crate::openapi::operations;
use crate::refusal::Refusal;
use crate::response_headers::with_security_headers;
use crate::trace::trace_request;

pub use metrics::Render;
use stored_response::{operator_response_data, response_data};

/// Names of the rate-limited routes, as used in `rate-limit.routes` of the configuration: all routes of the API. Health,
/// metrics and documentation are not limited. The names are read from the routes' own descriptions.
pub static LIMITED_ROUTES: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut described = described();
    let api = described.paths.paths.iter_mut().filter(|(path, _)| path.starts_with("/api/"));
    api.flat_map(|(path, item)| operations(item).map(move |(method, _)| &*format!("{method} {path}").leak()))
        .collect()
});

/// Builds a router with all routes except `/metrics`.
pub fn router(edge: Edge) -> Router {
    router_with(edge, None)
}

/// Builds a router with all routes; `/metrics` only if `metrics` is given.
pub fn router_with(edge: Edge, metrics: Option<Render>) -> Router {
    let edge = Arc::new(edge);
    let routes = public_routes(&edge).merge(operator_routes(&edge)).merge(metrics_routes(metrics, &edge));
    with_common_layers(routes.merge(health_routes(&edge)), edge)
}

/// Builds two routers for two listeners: one for users, and one for operators, which also has `/metrics`. Both have the
/// health checks and the documentation of all routes.
pub fn split_routers(edge: Edge, metrics: Option<Render>) -> (Router, Router) {
    let edge = Arc::new(edge);
    let public = public_routes(&edge).merge(health_routes(&edge));
    let operators = operator_routes(&edge).merge(metrics_routes(metrics, &edge)).merge(health_routes(&edge));
    (with_common_layers(public, Arc::clone(&edge)), with_common_layers(operators, edge))
}

/// Returns the OpenAPI document of all routes.
pub fn openapi() -> OpenApi {
    crate::openapi::document(described())
}

/// Returns the routes' own descriptions, without the additions of the layers.
fn described() -> OpenApi {
    let operators = ops::routes().merge(ops::multi_transaction_routes());
    let api = user_routes().merge(gateway_routes()).nest("/ops", operators);
    let described = OpenApiRouter::new().nest("/api/v1", api).merge(health::routes());
    described.merge(openapi::routes()).merge(metrics::routes()).into_openapi()
}

/// Routes for authenticated users.
fn user_routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new()
        .nest("/products", products::routes())
        .nest("/orders", orders::routes())
        .merge(account::routes())
        .merge(assets::routes())
}

/// Callbacks of the payment gateway. They take no idempotency key: the body names the payment or refund.
fn gateway_routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new().nest("/payments", payments::routes()).nest("/refunds", refunds::routes())
}

fn public_routes(edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    let gateway =
        Router::from(gateway_routes()).route_layer(from_fn_with_state(Arc::clone(edge), limit_rate));
    let api = with_idempotency(user_routes(), ResponseStorage::InTransaction(response_data), edge);
    let api = with_authentication(api, edge).merge(gateway);
    with_concurrency_limit(Router::new().nest("/api/v1", api), edge)
}

fn operator_routes(edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    let storage = ResponseStorage::InTransaction(operator_response_data);
    let routes = with_idempotency(ops::routes(), storage, edge)
        .merge(with_idempotency(ops::multi_transaction_routes(), ResponseStorage::Afterwards, edge))
        .route_layer(from_fn_with_state(Arc::clone(edge), require_operator));
    with_concurrency_limit(Router::new().nest("/api/v1/ops", with_authentication(routes, edge)), edge)
}

fn with_idempotency(
    routes: OpenApiRouter<Arc<Edge>>,
    storage: ResponseStorage,
    edge: &Arc<Edge>,
) -> Router<Arc<Edge>> {
    let state = (Arc::clone(edge), storage);
    Router::from(routes).route_layer(from_fn_with_state(state, handle_idempotency_key))
}

/// Adds authentication and, inside it, the rate limit: the layer added last runs first.
fn with_authentication(routes: Router<Arc<Edge>>, edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    routes
        .route_layer(from_fn_with_state(Arc::clone(edge), limit_rate))
        .route_layer(from_fn_with_state(Arc::clone(edge), authenticate))
}

/// Middleware of the API routes; health, metrics and documentation are not limited.
async fn limit_rate(State(edge): State<Arc<Edge>>, request: Request, next: Next) -> Response {
    edge.admission.limit(request, next).await
}

/// Adds tracing and a concurrency limit. Each call creates a separate limit, so that operators can still diagnose the
/// service when users overload it.
fn with_concurrency_limit(routes: Router<Arc<Edge>>, edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    let limit = ConcurrencyLimit::new(edge.limits.concurrent_requests);
    with_tracing(routes, edge).route_layer(from_fn_with_state((Arc::clone(edge), limit), limit_concurrency))
}

/// Health checks, OpenAPI document and documentation page.
fn health_routes(edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    let serialized =
        openapi::SerializedDocument(Bytes::from(serde_json::to_vec(&openapi()).unwrap_or_default()));
    let documentation = Router::from(openapi::routes()).layer(Extension(serialized)).merge(openapi::page());
    with_tracing(Router::from(health::routes()).merge(documentation), edge)
}

fn metrics_routes(metrics: Option<Render>, edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    let routes = |render| Router::from(metrics::routes()).layer(Extension(render));
    with_tracing(metrics.map_or_else(Router::new, routes), edge)
}

/// Adds tracing, the request timeout, the envelope and the panic handler.
fn with_tracing(routes: Router<Arc<Edge>>, edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    routes
        .method_not_allowed_fallback(|| async { Refusal::from_status(StatusCode::METHOD_NOT_ALLOWED) })
        .layer(CatchPanicLayer::custom(panic_response))
        .layer(from_fn_with_state(Arc::clone(edge), trace_request))
}

/// Adds the 404 fallback and CORS.
fn with_common_layers(routes: Router<Arc<Edge>>, edge: Arc<Edge>) -> Router {
    let not_found = Router::new().fallback(|| async { Refusal::from_status(StatusCode::NOT_FOUND) });
    let routes = routes.merge(with_tracing(not_found, &edge));
    let routes = match cors::layer(&edge.limits.cors_origins) {
        // The CORS layer responds to preflight requests itself, so a layer outside of it adds the security headers.
        Some(cors) => routes.layer(cors).layer(map_response(with_security_headers)),
        None => routes,
    };
    routes.with_state(edge)
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
