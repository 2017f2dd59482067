//! `/openapi.json`: the OpenAPI document. `/docs`: the document as a page (Swagger UI) that loads nothing from other
//! hosts; `/` redirects to `/docs`.

use std::io::Read;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Extension, Request};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
    VARY,
};
use axum::http::{HeaderMap, HeaderValue};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::{Config, SwaggerUi};

use crate::refusal::Refusal;

const ADDRESS: &str = "/openapi.json";

/// Content security policy of the page: only its own scripts and requests; Swagger UI adds inline styles.
const PAGE_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                           img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                           frame-ancestors 'none'";

/// The serialized document.
#[derive(Clone)]
struct SerializedDocument(Bytes);

/// `/openapi.json`, described only: [`pages`] serves it.
pub fn routes<S: Clone + Send + Sync + 'static>() -> OpenApiRouter<S> {
    OpenApiRouter::new().routes(routes!(document))
}

/// Returns this document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "document",
    tag = "service",
    security(()),
    responses((status = 200, description = "An OpenAPI 3.1 document", body = serde_json::Value)),
)]
async fn document(Extension(SerializedDocument(text)): Extension<SerializedDocument>) -> impl IntoResponse {
    ([(CONTENT_TYPE, "application/json")], text)
}

/// Serves this document and the documentation page. The page is not part of the document.
pub fn pages<S: Clone + Send + Sync + 'static>(document: &OpenApi) -> Router<S> {
    let serialized = SerializedDocument(Bytes::from(serde_json::to_vec(document).unwrap_or_default()));
    Router::from(routes()).layer(Extension(serialized)).merge(page())
}

fn page<S: Clone + Send + Sync + 'static>() -> Router<S> {
    let config = Config::from(ADDRESS)
        .deep_linking(true)
        .persist_authorization(false)
        .try_it_out_enabled(true)
        // Without this setting Swagger UI sends the document to an external validator.
        .validator_url("none");
    let pages = Router::from(SwaggerUi::new("/docs").config(config));
    pages.route("/", get(async || Redirect::temporary("/docs"))).layer(from_fn(complete_page_response))
}

/// Adds the page's headers, and decompresses the response for clients that do not accept gzip.
async fn complete_page_response(request: Request, next: Next) -> Response {
    let accepts_gzip = accepts_gzip(request.headers());
    let mut response = next.run(request).await;
    if !accepts_gzip && response.headers().get(CONTENT_ENCODING).is_some_and(|coding| coding == "gzip") {
        response = decompress(response).await;
    }
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(PAGE_POLICY));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    response
}

/// Whether the client accepts gzip (RFC 9110 §12.5.3). A client without `Accept-Encoding` gets an uncompressed response.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    let codings: Vec<&str> = values.flat_map(|value| value.split(',')).collect();
    let weight = |name: &str| {
        codings.iter().find_map(|coding| {
            let (coding, parameter) = coding.split_once(';').unwrap_or((coding, ""));
            let weight = parameter.trim().strip_prefix("q=").map_or(Some(1.0), |q| q.parse::<f32>().ok());
            coding.trim().eq_ignore_ascii_case(name).then(|| weight.unwrap_or(0.0))
        })
    };
    weight("gzip").or_else(|| weight("*")).is_some_and(|weight| weight > 0.0)
}

/// Decompresses a response; the embedded files are compressed.
async fn decompress(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let compressed = match body.collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Refusal::internal(&error).into_response(),
    };
    let mut plain = Vec::new();
    if let Err(error) = GzDecoder::new(compressed.as_ref()).read_to_end(&mut plain) {
        return Refusal::internal(&error).into_response();
    }
    parts.headers.remove(CONTENT_ENCODING);
    parts.headers.remove(CONTENT_LENGTH);
    Response::from_parts(parts, Body::from(plain))
}
