//! `/openapi.json` and `/docs`: for anybody, and nobody else is asked for anything.

use std::collections::BTreeSet;
use std::io::Read;

use axum::body::Body;
use axum::http::{HeaderMap, Request};
use flate2::read::GzDecoder;
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

use crate::document::written;
use crate::world::World;

/// Status, headers and text of what is there. The parts of the page are kept compressed, and come so.
async fn got(world: &World, path: &str) -> (u16, HeaderMap, String) {
    let request = Request::get(path).body(Body::empty()).unwrap();
    let (parts, body) = world.router.clone().oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let mut plain = Vec::new();
    if parts.headers.get("content-encoding").is_some_and(|encoding| encoding == "gzip") {
        GzDecoder::new(body.as_ref()).read_to_end(&mut plain).unwrap();
    } else {
        plain.extend_from_slice(&body);
    }
    // The pictures are no text; that they are there is enough.
    (parts.status.as_u16(), parts.headers, String::from_utf8_lossy(&plain).into_owned())
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
