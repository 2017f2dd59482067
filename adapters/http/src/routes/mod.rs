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
use crate::edge::Edge;
use crate::limit::limited;
use crate::once::once;
use crate::refusal::Refusal;
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
    let counted = metrics.map_or_else(Router::new, metrics::routes);
    let edge = Arc::new(edge);
    layered(routes(&edge).merge(counted), edge)
}

/// The layer that is named last is met first.
fn routes(edge: &Arc<Edge>) -> Router<Arc<Edge>> {
    let of_users = Router::new()
        .nest("/products", products::routes())
        .nest("/orders", orders::routes())
        .nest("/ops", ops::routes())
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
    Router::new().nest("/api/v1", of_users.merge(of_the_gateway)).merge(health::routes())
}

/// The routes within everything that a request passes on its way to them.
fn layered(routes: Router<Arc<Edge>>, edge: Arc<Edge>) -> Router {
    routes
        .fallback(|| async { Refusal::of_status(StatusCode::NOT_FOUND) })
        .method_not_allowed_fallback(|| async { Refusal::of_status(StatusCode::METHOD_NOT_ALLOWED) })
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
