//! `/openapi.json` and `/docs`: public, without external requests.

use std::collections::BTreeSet;
use std::io::Read;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request};
use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use crate::openapi::generated_document;
use crate::world::World;

/// Status, headers and text of a response without `Accept-Encoding`.
async fn get_text(world: &World, path: &str) -> (u16, HeaderMap, String) {
    let (status, headers, body) = get_bytes(world, path, None).await;
    assert!(!headers.contains_key("content-encoding"), "{path} is compressed without Accept-Encoding");
    // Images are not text; only their presence is checked.
    (status, headers, String::from_utf8_lossy(&body).into_owned())
}

/// Status, headers and bytes of a response with this `Accept-Encoding`.
async fn get_bytes(world: &World, path: &str, encodings: Option<&str>) -> (u16, HeaderMap, Bytes) {
    let request = Request::get(path);
    let request = match encodings {
        Some(encodings) => request.header("accept-encoding", encodings),
        None => request,
    };
    let request = request.body(Body::empty()).unwrap();
    let (parts, body) = world.router.clone().oneshot(request).await.unwrap().into_parts();
    (parts.status.as_u16(), parts.headers, body.collect().await.unwrap().to_bytes())
}

#[tokio::test(start_paused = true)]
async fn documentation_page_is_compressed_only_if_client_accepts_gzip() {
    let world = World::new().await;
    let path = "/docs/swagger-ui.css";
    let (_, headers, plain) = get_bytes(&world, path, None).await;
    assert_eq!(headers["vary"], "accept-encoding");
    for encodings in ["gzip", "br, GZIP;q=0.5", "*", "deflate, *;q=0.1"] {
        let (status, headers, body) = get_bytes(&world, path, Some(encodings)).await;
        let coding = headers.get("content-encoding").map(|coding| coding.to_str().unwrap());
        assert_eq!((status, coding), (200, Some("gzip")), "{encodings}");
        let mut decompressed = Vec::new();
        GzDecoder::new(body.as_ref()).read_to_end(&mut decompressed).unwrap();
        assert!(body.len() < plain.len() && decompressed == plain, "{encodings}");
    }
    for encodings in ["", "identity", "br", "gzip;q=0", "gzip;q=0, *", "*;q=0", "gzip;q=x", "xgzip"] {
        let (status, headers, body) = get_bytes(&world, path, Some(encodings)).await;
        assert_eq!((status, headers.get("content-encoding")), (200, None), "{encodings}");
        assert!(body == plain, "{encodings}");
    }
}

#[tokio::test(start_paused = true)]
async fn root_redirects_to_documentation_page() {
    let world = World::new().await;
    let (status, headers, _) = get_text(&world, "/").await;
    assert_eq!((status, headers["location"].as_bytes()), (307, b"/docs".as_slice()));
    let (_, operators) = {
        let (edge, _, _) = World::edge(crate::world::Setup::default()).await;
        marketplace_http::split_routers(edge, None)
    };
    let response = operators.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(response.status(), 307, "the operators' router redirects `/` to /docs");
}

#[tokio::test(start_paused = true)]
async fn openapi_document_is_served_without_a_token() {
    let world = World::new().await;
    let (status, headers, body) = get_text(&world, "/openapi.json").await;
    assert_eq!((status, headers["content-type"].as_bytes()), (200, b"application/json".as_slice()));
    assert!(headers.contains_key("x-trace-id"));
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), generated_document());
}

#[tokio::test(start_paused = true)]
async fn documentation_page_serves_all_its_files_and_loads_no_external_source() {
    let world = World::new().await;
    let (status, headers, _) = get_text(&world, "/docs").await;
    assert_eq!((status, headers["location"].as_bytes()), (303, b"/docs/".as_slice()));
    let (status, headers, page) = get_text(&world, "/docs/").await;
    assert_eq!(status, 200);
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("http"), "{policy}");
    assert!(!policy.contains("script-src 'self' 'unsafe"), "{policy}");
    assert!(!page.contains("://") && !page.contains("<script>"), "{page}");
    let quoted = page.split('"').filter_map(|text| text.strip_prefix("./"));
    let files: BTreeSet<&str> = quoted.collect();
    assert!(files.contains("swagger-initializer.js") && files.len() >= 4, "{files:?}");
    for file in files {
        let (status, _, body) = get_text(&world, &format!("/docs/{file}")).await;
        assert!(status == 200 && !body.is_empty(), "{file}: {status}");
    }
    let (_, _, script) = get_text(&world, "/docs/swagger-initializer.js").await;
    assert!(script.contains("/openapi.json") && !script.contains("://"), "{script}");
    let (status, headers, _) = get_text(&world, "/docs/no-such-file").await;
    assert_eq!((status, headers["content-type"].as_bytes()), (404, b"application/json".as_slice()));
    let (_, headers, _) = get_text(&world, "/openapi.json").await;
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(!policy.contains("self"), "the JSON response has the policy of the page: {policy}");
}
