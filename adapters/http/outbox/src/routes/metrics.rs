//! `/metrics`: the metrics of this process in the Prometheus text format.

use std::sync::Arc;

use axum::Extension;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// Renders the metrics in the Prometheus text format.
pub type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// Content type of the Prometheus text format.
const CONTENT_TYPE_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Requires a [`Render`] in the extensions of the request.
pub fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new().routes(routes!(metrics))
}

/// Returns the metrics of this process.
///
/// The route does not exist if the process collects no metrics.
#[utoipa::path(
    get,
    path = "/metrics",
    operation_id = "metrics",
    tag = "service",
    security(()),
    responses((status = 200, description = "Metrics in the Prometheus text format", body = String, content_type = "text/plain")),
)]
async fn metrics(Extension(render): Extension<Render>) -> impl IntoResponse {
    ([(CONTENT_TYPE, CONTENT_TYPE_TEXT)], render())
}
