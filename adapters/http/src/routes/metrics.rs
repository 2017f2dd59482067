//! `/metrics`: what this process has counted, as Prometheus reads it.

use std::sync::Arc;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;

use crate::edge::Edge;

/// Writes down what was counted, in the text format of Prometheus.
pub type Render = Arc<dyn Fn() -> String + Send + Sync>;

/// The format of the text (Prometheus, "Text-based format").
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn routes(render: Render) -> Router<Arc<Edge>> {
    let told = move || async move { ([(CONTENT_TYPE, TEXT)], render()) };
    Router::new().route("/metrics", get(told))
}
