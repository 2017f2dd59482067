//! `/openapi.json` and `/docs`: for anybody, and nobody else is asked for anything.

use std::collections::BTreeSet;
use std::io::Read;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Request};
use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use crate::document::written;
use crate::world::World;

/// Status, headers and text of what is there, for a client that says nothing of encodings.
async fn got(world: &World, path: &str) -> (u16, HeaderMap, String) {
    let (status, headers, body) = taken(world, path, None).await;
    assert!(!headers.contains_key("content-encoding"), "{path}: nobody said that it may be compressed");
    // The pictures are no text; that they are there is enough.
    (status, headers, String::from_utf8_lossy(&body).into_owned())
}

/// Status, headers and bytes for a client that takes these encodings.
async fn taken(world: &World, path: &str, encodings: Option<&str>) -> (u16, HeaderMap, Bytes) {
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
async fn the_page_is_compressed_for_a_client_that_takes_gzip_and_for_no_other() {
    let (world, part) = (World::new().await, "/docs/swagger-ui.css");
    let (_, headers, plain) = taken(&world, part, None).await;
    assert_eq!(headers["vary"], "accept-encoding");
    for encodings in ["gzip", "br, GZIP;q=0.5", "*", "deflate, *;q=0.1"] {
        let (status, headers, body) = taken(&world, part, Some(encodings)).await;
        let coding = headers.get("content-encoding").map(|coding| coding.to_str().unwrap());
        assert_eq!((status, coding), (200, Some("gzip")), "{encodings}");
        let mut unzipped = Vec::new();
        GzDecoder::new(body.as_ref()).read_to_end(&mut unzipped).unwrap();
        assert!(body.len() < plain.len() && unzipped == plain, "{encodings}");
    }
    for encodings in ["", "identity", "br", "gzip;q=0", "gzip;q=0, *", "*;q=0", "gzip;q=x", "xgzip"] {
        let (status, headers, body) = taken(&world, part, Some(encodings)).await;
        assert_eq!((status, headers.get("content-encoding")), (200, None), "{encodings}");
        assert!(body == plain, "{encodings}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_root_leads_to_the_page() {
    let world = World::new().await;
    let (status, headers, _) = got(&world, "/").await;
    assert_eq!((status, headers["location"].as_bytes()), (307, b"/docs".as_slice()));
    let (_, operators) = {
        let (edge, _, _) = World::edge(crate::world::Setup::default()).await;
        marketplace_http::apart(edge, None)
    };
    let answer = operators.oneshot(Request::get("/").body(Body::empty()).unwrap()).await.unwrap();
    assert_eq!(answer.status(), 307, "on the listener of operators, too");
}

#[tokio::test(start_paused = true)]
async fn the_document_is_served_as_it_is_without_a_token() {
    let world = World::new().await;
    let (status, headers, body) = got(&world, "/openapi.json").await;
    assert_eq!((status, headers["content-type"].as_bytes()), (200, b"application/json".as_slice()));
    assert!(headers.contains_key("x-trace-id"));
    assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), written());
}

#[tokio::test(start_paused = true)]
async fn the_page_comes_with_all_its_parts_and_may_load_nothing_from_elsewhere() {
    let world = World::new().await;
    let (status, headers, _) = got(&world, "/docs").await;
    assert_eq!((status, headers["location"].as_bytes()), (303, b"/docs/".as_slice()));
    let (status, headers, page) = got(&world, "/docs/").await;
    assert_eq!(status, 200);
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("http"), "{policy}");
    assert!(!policy.contains("script-src 'self' 'unsafe"), "{policy}");
    assert!(!page.contains("://") && !page.contains("<script>"), "{page}");
    let quoted = page.split('"').filter_map(|text| text.strip_prefix("./"));
    let parts: BTreeSet<&str> = quoted.collect();
    assert!(parts.contains("swagger-initializer.js") && parts.len() >= 4, "{parts:?}");
    for part in parts {
        let (status, _, body) = got(&world, &format!("/docs/{part}")).await;
        assert!(status == 200 && !body.is_empty(), "{part}: {status}");
    }
    let (_, _, script) = got(&world, "/docs/swagger-initializer.js").await;
    assert!(script.contains("/openapi.json") && !script.contains("://"), "{script}");
    let (status, headers, _) = got(&world, "/docs/no-such-part").await;
    assert_eq!((status, headers["content-type"].as_bytes()), (404, b"application/json".as_slice()));
    let (_, headers, _) = got(&world, "/openapi.json").await;
    let policy = headers["content-security-policy"].to_str().unwrap();
    assert!(!policy.contains("self"), "the page's policy is the page's alone: {policy}");
}
