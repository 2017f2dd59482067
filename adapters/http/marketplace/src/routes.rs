//! All routes, and the sequence of their layers.

mod account;
mod assets;
mod invoices;
mod ops;
mod orders;
mod payments;
mod products;
mod refunds;
mod timeline;

use std::sync::{Arc, LazyLock};

use axum::extract::{Request, State};
use axum::middleware::{Next, from_extractor_with_state, from_fn_with_state, map_request};
use axum::response::Response;
use axum::{Extension, Router};
use handover_http::openapi::operations;
use handover_http::routes::{documentation, health, metrics, webhooks};
use handover_http::{Layers, OperatorRoutes};
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::command::Afterwards;
use crate::context::{as_user, authenticate, operator};
use crate::edge::Edge;
use crate::idempotency::handle_idempotency_key;

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
pub fn router_with(edge: Edge, metrics: Option<metrics::Render>) -> Router {
    let edge = Arc::new(edge);
    let routes = public_routes(&edge).merge(operator_routes(&edge)).merge(metrics_routes(metrics, &edge));
    with_common_layers(routes.merge(health_routes(&edge)), edge)
}

/// Builds two routers for two listeners: one for users, and one for operators, which also has `/metrics`. Both have the
/// health checks and the documentation of all routes.
pub fn split_routers(edge: Edge, metrics: Option<metrics::Render>) -> (Router, Router) {
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
    let api = user_routes().merge(gateway_routes()).merge(webhooks()).nest("/invoices", invoices::routes());
    let api = api.nest("/ops", ops::routes().described());
    let described = OpenApiRouter::new().nest("/api/v1", api).merge(health::routes());
    described.merge(documentation::routes()).merge(metrics::routes()).into_openapi()
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
    let api = with_idempotency(Router::from(user_routes()), edge).route_layer(map_request(as_user));
    let api = with_authentication(api, edge).merge(gateway);
    layers(edge).with_concurrency_limit(Router::new().nest("/api/v1", api))
}

fn operator_routes(edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    let invoices = with_authentication(with_idempotency(Router::from(invoices::routes()), edge), edge);
    let mut routes =
        Router::new().nest("/api/v1/ops", guarded(ops::routes(), edge)).nest("/api/v1/invoices", invoices);
    if let Some(webhooks) = edge.webhooks.clone() {
        routes = routes.nest("/api/v1", guarded(OperatorRoutes::of_webhooks(webhooks), edge));
    }
    layers(edge).with_concurrency_limit(routes)
}

fn guarded(routes: OperatorRoutes<Arc<Edge>>, edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    let layer = |of_toolkit: Router<_>, of_marketplace| {
        let claim = from_extractor_with_state::<Afterwards, _>(Arc::clone(edge));
        with_idempotency(of_toolkit.route_layer(claim).merge(of_marketplace), edge)
    };
    let routes = routes.into_router(edge.app.outbox.clone(), Arc::new(operator), layer);
    with_authentication(routes, edge)
}

fn with_idempotency(routes: Router<Arc<Edge>>, edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    routes.route_layer(from_fn_with_state(Arc::clone(edge), handle_idempotency_key))
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

fn layers(edge: &Edge) -> Layers {
    Layers::new(Arc::clone(edge.app.outbox.random()), edge.limits.clone())
}

/// Health checks, OpenAPI document and documentation page.
fn health_routes(edge: &Edge) -> Router<Arc<Edge>> {
    let health = Router::from(health::routes()).layer(Extension(Arc::clone(&edge.readiness)));
    layers(edge).with_tracing(health.merge(documentation::pages(&openapi())))
}

fn metrics_routes(metrics: Option<metrics::Render>, edge: &Edge) -> Router<Arc<Edge>> {
    let routes = |render| Router::from(metrics::routes()).layer(Extension(render));
    layers(edge).with_tracing(metrics.map_or_else(Router::new, routes))
}

/// Adds the outermost layers and the state.
fn with_common_layers(routes: Router<Arc<Edge>>, edge: Arc<Edge>) -> Router {
    layers(&edge).with_fallback_and_cors(routes).with_state(edge)
}
