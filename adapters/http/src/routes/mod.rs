//! Every address the service answers at.

mod answers;
mod assets;
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

use axum::Router;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;

use crate::context::authenticated;
use crate::cors;
use crate::edge::Edge;
use crate::limit::limited;
use crate::once::once;
use crate::refusal::Refusal;
use crate::shed::{Places, admitted};
use crate::trace::traced;

pub(crate) use answers::answered;
pub use metrics::Render;
pub use names::LIMITED_ROUTES;

/// The routes of spec §4 on this edge.
pub fn router(edge: Edge) -> Router {
    router_with(edge, None)
}

/// The same, and `/metrics` where somebody counts.
pub fn router_with(edge: Edge, metrics: Option<Render>) -> Router {
    let edge = Arc::new(edge);
    let everything = public(&edge).merge(of_operators(&edge)).merge(counted(metrics));
    layered(everything.merge(health::routes()), edge)
}

/// The same on two routers, for two listeners: everybody's calls, and those of operators with `/metrics`. Both tell of
/// health.
pub fn apart(edge: Edge, metrics: Option<Render>) -> (Router, Router) {
    let edge = Arc::new(edge);
    let operators = of_operators(&edge).merge(counted(metrics)).merge(health::routes());
    (layered(public(&edge).merge(health::routes()), Arc::clone(&edge)), layered(operators, edge))
}

/// The layer that is named last is met first.
fn public(edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    let of_users = Router::new()
        .nest("/products", products::routes())
        .nest("/orders", orders::routes())
        .merge(mine::routes())
        .merge(assets::routes())
        .route_layer(from_fn_with_state(Arc::clone(edge), once))
        .route_layer(from_fn_with_state(Arc::clone(edge), limited))
        .route_layer(from_fn_with_state(Arc::clone(edge), authenticated));
    // What the gateway reports names what it is about itself.
    let of_the_gateway = Router::new()
        .nest("/payments", payments::routes())
        .nest("/refunds", refunds::routes())
        .route_layer(from_fn_with_state(Arc::clone(edge), limited));
    within_places(Router::new().nest("/api/v1", of_users.merge(of_the_gateway)), edge)
}

fn of_operators(edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    let routes = ops::routes()
        .route_layer(from_fn_with_state(Arc::clone(edge), once))
        .route_layer(from_fn_with_state(Arc::clone(edge), limited))
        .route_layer(from_fn_with_state(Arc::clone(edge), authenticated));
    within_places(Router::new().nest("/api/v1/ops", routes), edge)
}

/// Operators have places of their own: they look at what is wrong when there is too much load.
fn within_places(routes: Router<Arc<Edge>>, edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    routes.route_layer(from_fn_with_state(Places::new(edge.limits.concurrent_requests), admitted))
}

fn counted(metrics: Option<Render>) -> Router<Arc<Edge>> {
    metrics.map_or_else(Router::new, metrics::routes)
}

/// The routes within everything that a request passes on its way to them.
fn layered(routes: Router<Arc<Edge>>, edge: Arc<Edge>) -> Router {
    let routes = routes
        .fallback(|| async { Refusal::of_status(StatusCode::NOT_FOUND) })
        .method_not_allowed_fallback(|| async { Refusal::of_status(StatusCode::METHOD_NOT_ALLOWED) });
    let routes = match cors::layer(&edge.limits.cors_origins) {
        Some(cors) => routes.layer(cors),
        None => routes,
    };
    routes
        .layer(CatchPanicLayer::custom(panicked))
        .layer(from_fn_with_state(Arc::clone(&edge), traced))
        .with_state(edge)
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
