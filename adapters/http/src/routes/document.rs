//! `/openapi.json`: the document of the API. `/docs`: the same as a page, which asks nobody else for anything.

use std::sync::Arc;

use axum::extract::{Extension, Request};
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::{Router, body::Bytes};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::edge::Edge;

const ADDRESS: &str = "/openapi.json";

/// The page runs its own scripts and reads the document; its styles are made by its scripts.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                           img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                           frame-ancestors 'none'";

/// The document as it is served.
#[derive(Clone)]
pub(super) struct Written(pub(super) Bytes);

/// Wants a [`Written`] in the extensions of the request.
pub(super) fn routes() -> OpenApiRouter<Arc<Edge>> {
    OpenApiRouter::new().routes(routes!(document))
}

/// Shows this document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "document",
    tag = "service",
    security(()),
    responses((status = 200, description = "An OpenAPI 3.1 document", body = serde_json::Value)),
)]
async fn document(Extension(Written(text)): Extension<Written>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], text)
}

/// The page. It is no part of the document, which is for programs.
pub(super) fn page() -> Router<Arc<Edge>> {
    let config = Config::from(ADDRESS)
        .deep_linking(true)
        .persist_authorization(false)
        .try_it_out_enabled(true)
        // By default it sends the document to a service of its makers.
        .validator_url("none");
    Router::from(SwaggerUi::new("/docs").config(config)).layer(from_fn(with_policy))
}

async fn with_policy(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
