//! Security headers and other origins.

use axum::http::HeaderMap;
use marketplace_http::{Limits, WebOrigin};

use crate::world::{BUYER, Setup, World};

pub(crate) const SHOP: &str = "https://shop.example";

pub(crate) fn is_shut(headers: &HeaderMap) -> bool {
    let says = |name: &str, value: &str| headers.get(name).is_some_and(|found| found == value);
    let policy = headers["content-security-policy"].to_str().unwrap();
    says("x-content-type-options", "nosniff")
        && says("cache-control", "no-store")
        && says("referrer-policy", "no-referrer")
        && says("x-frame-options", "DENY")
        && policy.starts_with("default-src 'none'; frame-ancestors 'none'")
        && !headers.contains_key("server")
}

#[tokio::test(start_paused = true)]
async fn every_answer_is_shut_whatever_it_is() {
    let panics = || -> Vec<marketplace_http::Problem> { panic!("a route that panics") };
    let world = World::with(Setup { readiness: Box::new(panics), ..Setup::default() }).await;
    for (request, status) in [
        (world.get("/healthz"), 200),
        (world.get_as(BUYER, "/api/v1/orders"), 200),
        (world.get("/api/v1/orders"), 401),
        (world.get("/nothing"), 404),
        (world.post("/healthz"), 405),
        (world.get("/readyz"), 500),
    ] {
        let answer = request.send().await;
        assert_eq!(answer.status, status);
        assert!(is_shut(&answer.headers), "{status}: {:?}", answer.headers);
        assert!(!answer.headers.contains_key("access-control-allow-origin"));
    }
}

/// What a browser asks before it lets a page of that origin do something.
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
fn an_origin_is_exactly_what_a_browser_sends() {
    for good in
        ["https://shop.example", "http://localhost:3000", "http://127.0.0.1:8080", "http://[::1]:8080"]
    {
        assert!(WebOrigin::parse(good).is_some(), "{good}");
    }
    let bad = [
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
    for bad in bad {
        assert_eq!(WebOrigin::parse(bad), None, "{bad}");
    }
}

#[tokio::test(start_paused = true)]
async fn pages_of_other_origins_are_let_in_by_name_only() {
    let origins = vec![WebOrigin::parse(SHOP).unwrap()];
    let limits = Limits { cors_origins: origins, ..Limits::default() };
    let open = World::with(Setup { limits, ..Setup::default() }).await;
    let (status, headers) = preflight(&open, SHOP).await;
    assert_eq!((status, headers["access-control-allow-origin"].to_str().unwrap()), (200, SHOP));
    assert!(!headers.contains_key("access-control-allow-credentials"));
    for name in ["authorization", "content-type", "x-idempotency-key"] {
        assert!(headers["access-control-allow-headers"].to_str().unwrap().contains(name), "{headers:?}");
    }
    assert!(is_shut(&headers));
    let answer = open.get_as(BUYER, "/api/v1/orders").header("origin", SHOP).send().await;
    assert_eq!(answer.expect(200, "00000").headers["access-control-allow-origin"], SHOP);
    let refused = open.get("/api/v1/orders").header("origin", SHOP).send().await.expect(401, "A0301");
    assert_eq!(refused.headers["access-control-allow-origin"], SHOP, "a page may read why it is refused");
    let nothing = open.get("/nothing").header("origin", SHOP).send().await.expect(404, "A0404");
    assert_eq!(nothing.headers["access-control-allow-origin"], SHOP);
    for stranger in
        ["https://shop.example.evil.example", "http://shop.example", "null", "https://SHOP.example"]
    {
        let (_, headers) = preflight(&open, stranger).await;
        assert!(!headers.contains_key("access-control-allow-origin"), "{stranger}");
    }
    let closed = World::new().await;
    let (status, headers) = preflight(&closed, SHOP).await;
    assert_eq!(status, 405);
    assert!(!headers.keys().any(|name| name.as_str().starts_with("access-control-")), "{headers:?}");
}
