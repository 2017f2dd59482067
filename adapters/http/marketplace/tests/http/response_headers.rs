//! Security headers and CORS.

use std::sync::Arc;

use axum::http::HeaderMap;
use handover_http::{Limits, WebOrigin};

use crate::world::{BUYER, Setup, World};

pub(crate) const SHOP: &str = "https://shop.example";

pub(crate) fn has_security_headers(headers: &HeaderMap) -> bool {
    let has = |name: &str, value: &str| headers.get(name).is_some_and(|actual| actual == value);
    let policy = headers["content-security-policy"].to_str().unwrap();
    has("x-content-type-options", "nosniff")
        && has("cache-control", "no-store")
        && has("referrer-policy", "no-referrer")
        && has("x-frame-options", "DENY")
        && policy.starts_with("default-src 'none'; frame-ancestors 'none'")
        && !headers.contains_key("server")
}

#[tokio::test(start_paused = true)]
async fn every_response_has_security_headers() {
    let panics = || -> Vec<handover_http::Problem> { panic!("a route that panics") };
    let world = World::with(Setup { readiness: Arc::new(panics), ..Setup::default() }).await;
    for (request, status) in [
        (world.get("/healthz"), 200),
        (world.get_as(BUYER, "/api/v1/orders"), 200),
        (world.get("/api/v1/orders"), 401),
        (world.get("/nothing"), 404),
        (world.post("/healthz"), 405),
        (world.get("/readyz"), 500),
    ] {
        let response = request.send().await;
        assert_eq!(response.status, status);
        assert!(has_security_headers(&response.headers), "{status}: {:?}", response.headers);
        assert!(!response.headers.contains_key("access-control-allow-origin"));
    }
}

/// Sends the preflight request of a browser for a page of this origin.
async fn preflight(world: &World, origin: &str) -> (u16, HeaderMap) {
    let request = world
        .request("OPTIONS", "/api/v1/orders")
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization,content-type,x-idempotency-key");
    let (status, headers, _) = request.send_raw().await;
    (status, headers)
}

#[test]
fn web_origin_accepts_only_form_that_browsers_send() {
    for valid in
        ["https://shop.example", "http://localhost:3000", "http://127.0.0.1:8080", "http://[::1]:8080"]
    {
        assert!(WebOrigin::parse(valid).is_some(), "{valid}");
    }
    let invalid = [
        "",
        "*",
        "null",
        "shop.example",
        "https://",
        "https://*.shop.example",
        "https://shop.example/",
        "https://shop.example/path",
        "https://shop.example?x",
        "https://shop.example:443",
        "http://shop.example:80",
        "https://Shop.example",
        "HTTPS://shop.example",
        "https://user@shop.example",
        "https://shop.example:",
        "ftp://shop.example",
        "https://shop.example https://other.example",
    ];
    for origin in invalid {
        assert_eq!(WebOrigin::parse(origin), None, "{origin}");
    }
}

#[tokio::test(start_paused = true)]
async fn cors_allows_only_configured_origins() {
    let origins = vec![WebOrigin::parse(SHOP).unwrap()];
    let limits = Limits { cors_origins: origins, ..Limits::default() };
    let open = World::with(Setup { limits, ..Setup::default() }).await;
    let (status, headers) = preflight(&open, SHOP).await;
    assert_eq!((status, headers["access-control-allow-origin"].to_str().unwrap()), (200, SHOP));
    assert!(!headers.contains_key("access-control-allow-credentials"));
    for name in ["authorization", "content-type", "x-idempotency-key"] {
        assert!(headers["access-control-allow-headers"].to_str().unwrap().contains(name), "{headers:?}");
    }
    assert!(has_security_headers(&headers));
    let response = open.get_as(BUYER, "/api/v1/orders").header("origin", SHOP).send().await;
    assert_eq!(response.expect(200, "00000").headers["access-control-allow-origin"], SHOP);
    let refused = open.get("/api/v1/orders").header("origin", SHOP).send().await.expect(401, "A0301");
    assert_eq!(refused.headers["access-control-allow-origin"], SHOP, "a page can read the error response");
    let nothing = open.get("/nothing").header("origin", SHOP).send().await.expect(404, "A0404");
    assert_eq!(nothing.headers["access-control-allow-origin"], SHOP);
    for other in ["https://shop.example.evil.example", "http://shop.example", "null", "https://SHOP.example"]
    {
        let (_, headers) = preflight(&open, other).await;
        assert!(!headers.contains_key("access-control-allow-origin"), "{other}");
    }
    let closed = World::new().await;
    let (status, headers) = preflight(&closed, SHOP).await;
    assert_eq!(status, 405);
    assert!(!headers.keys().any(|name| name.as_str().starts_with("access-control-")), "{headers:?}");
}
