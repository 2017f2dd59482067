//! `/metrics`: what this process has counted, as Prometheus reads it.

use std::sync::Arc;

use axum::Extension;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::edge::Edge;

/// Writes down what was counted, in the text format of Prometheus.
pub type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// The format of the text (Prometheus, "Text-based format").
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Wants a [`Render`] in the extensions of the request.
pub(super) fn routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new().routes(routes!(told))
}

/// Shows what this process has counted.
///
/// Where the process counts nothing, there is no such address.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "service",
    security(()),
    responses((status = 200, description = "As Prometheus reads it", body = String, content_type = "text/plain")),
)]
async fn told(Extension(render): Extension<Render>) -> impl IntoResponse {
    ([(CONTENT_TYPE, TEXT)], render())
}
