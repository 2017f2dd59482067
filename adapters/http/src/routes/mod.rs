//! Every address the service answers at.

mod answers;
mod assets;
mod document;
mod health;
mod metrics;
mod mine;
mod names;
mod ops;
mod orders;
mod payments;
mod products;
mod refunds;
mod timeline;

use std::any::Any;
use std::sync::Arc;

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::middleware::{from_fn_with_state, map_response};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use crate::context::{authenticated, operators};
use crate::cors;
use crate::edge::Edge;
use crate::limit::limited;
use crate::once::once;
use crate::refusal::Refusal;
use crate::shed::{Places, admitted};
use crate::shut::shut_response;
use crate::trace::traced;

pub(crate) use answers::answered;
pub use metrics::Render;
pub(crate) use names::ANSWERED_AFTERWARDS;
pub use names::LIMITED_ROUTES;
pub(crate) use ops::dead_letters::MAX_KEY_CHARS;
pub(crate) use ops::gifts::MAX_GRANT;
pub(crate) use ops::{MAX_QUEUE_CHARS, MAX_TYPE_CHARS};
pub(crate) use payments::{MAX_METHOD_CHARS, MAX_TRANSACTION_CHARS};

/// The routes of spec §4 on this edge.
pub fn router(edge: Edge) -> Router {
    router_with(edge, None)
}

/// The same, and `/metrics` where somebody counts.
pub fn router_with(edge: Edge, metrics: Option<Render>) -> Router {
    let edge = Arc::new(edge);
    let everything = public(&edge).merge(of_operators(&edge)).merge(counted(metrics, &edge));
    served(everything.merge(of_the_process(&edge)), edge)
}

/// The same on two routers, for two listeners: everybody's calls, and those of operators with `/metrics`. Both tell of
/// health, and show the document of all of them.
pub fn apart(edge: Edge, metrics: Option<Render>) -> (Router, Router) {
    let edge = Arc::new(edge);
    let operators = of_operators(&edge).merge(counted(metrics, &edge)).merge(of_the_process(&edge));
    (served(public(&edge).merge(of_the_process(&edge)), Arc::clone(&edge)), served(operators, edge))
}

/// The OpenAPI document of all of these routes.
pub fn openapi() -> OpenApi {
    let api = of_users().merge(of_the_gateway()).nest("/ops", ops::routes());
    let described = OpenApiRouter::new().nest("/api/v1", api).merge(health::routes());
    let described = described.merge(document::routes()).merge(metrics::routes());
    crate::document::document(described.into_openapi())
}

/// What somebody signed in can call.
fn of_users() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new()
        .nest("/products", products::routes())
        .nest("/orders", orders::routes())
        .merge(mine::routes())
        .merge(assets::routes())
}

/// What the gateway reports: it names what it is about itself.
fn of_the_gateway() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new().nest("/payments", payments::routes()).nest("/refunds", refunds::routes())
}

fn public(edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    let of_the_gateway =
        Router::from(of_the_gateway()).route_layer(from_fn_with_state(Arc::clone(edge), limited));
    let api = signed_in(once_under_a_key(of_users(), edge), edge).merge(of_the_gateway);
    within_places(Router::new().nest("/api/v1", api), edge)
}

fn of_operators(edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    let calls =
        once_under_a_key(ops::routes(), edge).route_layer(from_fn_with_state(Arc::clone(edge), operators));
    within_places(Router::new().nest("/api/v1/ops", signed_in(calls, edge)), edge)
}

fn once_under_a_key(routes: OpenApiRouter<Arc<Edge>>, edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    Router::from(routes).route_layer(from_fn_with_state(Arc::clone(edge), once))
}

/// The layer that is named last is met first.
fn signed_in(routes: Router<Arc<Edge>>, edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    routes
        .route_layer(from_fn_with_state(Arc::clone(edge), limited))
        .route_layer(from_fn_with_state(Arc::clone(edge), authenticated))
}

/// Operators have places of their own: they look at what is wrong when there is too much load.
fn within_places(routes: Router<Arc<Edge>>, edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    let places = Places::new(edge.limits.concurrent_requests);
    in_a_trace(routes, edge).route_layer(from_fn_with_state((Arc::clone(edge), places), admitted))
}

/// How the process is, and what it can be asked.
fn of_the_process(edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    let written = document::Written(Bytes::from(serde_json::to_vec(&openapi()).unwrap_or_default()));
    let of_the_document = Router::from(document::routes()).layer(Extension(written)).merge(document::page());
    in_a_trace(Router::from(health::routes()).merge(of_the_document), edge)
}

fn counted(metrics: Option<Render>, edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    let routes = |render| Router::from(metrics::routes()).layer(Extension(render));
    in_a_trace(metrics.map_or_else(Router::new, routes), edge)
}

/// The routes within what stands around the work of each.
fn in_a_trace(routes: Router<Arc<Edge>>, edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    routes
        .method_not_allowed_fallback(|| async { Refusal::of_status(StatusCode::METHOD_NOT_ALLOWED) })
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(Arc::clone(edge), traced))
}

/// All that a listener answers, also where there is nothing.
fn served(routes: Router<Arc<Edge>>, edge: Arc<Edge>) -> Router {
    let nothing = Router::new().fallback(|| async { Refusal::of_status(StatusCode::NOT_FOUND) });
    let routes = routes.merge(in_a_trace(nothing, &edge));
    let routes = match cors::layer(&edge.limits.cors_origins) {
        // What a browser asks beforehand is answered here, and as shut as everything else.
        Some(cors) => routes.layer(cors).layer(map_response(shut_response)),
        None => routes,
    };
    routes.with_state(edge)
}

/// The answer to a request whose route panicked.
fn panicked(panic: Box<dyn Any + Send>) -> Response {
    let what = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "not a text".to_owned());
    Refusal::fault(&format_args!("a route panicked: {what}")).into_response()
}
