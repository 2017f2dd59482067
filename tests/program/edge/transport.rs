//! What is wrong before a route looks: addresses, methods, sizes, content types, traces.

use super::case::{Case, get, post, with_method};
use super::market::{BUYER, Market, SELLER};
use super::wire::Framing;

const PRODUCTS: &str = "/api/v1/products";
/// The greatest body.
const BODY_LIMIT: usize = 64 * 1024;

pub(crate) fn cases(market: &Market) -> Vec<Case> {
    [addresses(), methods(), ids(market), types(), sizes(), traces()].concat()
}

fn addresses() -> Vec<Case> {
    let nothing = |path: &str| {
        [
            get(&format!("no address {path}"), path),
            post(&format!("no address to post to {path}"), path).json("{}"),
        ]
        .map(|case| case.refused(404, "A0404", &[]))
    };
    [
        "//",
        "/api",
        "/api/v2/products",
        "/api/v1/products/",
        "/api/v1/orders/1/refund",
        "/api/v1/ops",
        "/%2e%2e",
    ]
    .into_iter()
    .flat_map(nothing)
    .collect()
}

fn methods() -> Vec<Case> {
    [
        ("PUT", PRODUCTS),
        ("DELETE", PRODUCTS),
        ("PATCH", "/api/v1/products/1"),
        ("OPTIONS", PRODUCTS),
        ("POST", "/api/v1/products/1"),
        ("DELETE", "/api/v1/orders/1"),
        ("GET", "/api/v1/orders/1/cancel"),
        ("GET", "/api/v1/payments/callback"),
        ("GET", "/api/v1/refunds/callback"),
        ("POST", "/api/v1/wallet"),
        ("DELETE", "/api/v1/coupons"),
        ("GET", "/api/v1/ops/wallets/2/deposits"),
        ("GET", "/api/v1/ops/reconciliation/repair"),
        ("POST", "/healthz"),
        ("POST", "/api/v1/credit"),
        ("DELETE", "/api/v1/ops/outbox"),
        ("FETCH", "/api/v1/orders"),
    ]
    .into_iter()
    .map(|(method, path)| {
        with_method(&format!("{method} {path}"), method, path).by(BUYER).refused(405, "A0400", &[])
    })
    .collect()
}

fn ids(market: &Market) -> Vec<Case> {
    let odd_order =
        [format!("+{}", market.pending), format!("0{}", market.pending), format!("{}.0", market.pending)];
    let ids =
        ["0", "-1", "abc", "1.5", "9007199254740992", "9223372036854775808", "%20", "%FF", "1%00", "null"];
    let mut cases = Vec::new();
    for id in ids.into_iter().chain(odd_order.iter().map(String::as_str)) {
        cases.push(get(&format!("order id {id}"), &format!("/api/v1/orders/{id}")).by(BUYER));
        cases.push(post(&format!("cancel order id {id}"), &format!("/api/v1/orders/{id}/cancel")).by(BUYER));
        cases.push(get(&format!("product id {id}"), &format!("{PRODUCTS}/{id}")).by(BUYER));
    }
    cases.into_iter().map(|case| case.refused(404, "A0404", &[])).collect()
}

fn types() -> Vec<Case> {
    let body = r#"{"title":"a","price":1}"#;
    let unnamed = |name: &str| post(&format!("content type, {name}"), PRODUCTS).by(SELLER).body(body);
    let called = |kind: &str| unnamed(kind).header("Content-Type", kind).refused(415, "A0400", &[]);
    vec![
        unnamed("none").refused(415, "A0400", &[]),
        called("text/plain"),
        called("text/json"),
        called("application/x-www-form-urlencoded"),
        called("application/jsonp"),
        called("application/json-patch+json"),
        called("multipart/form-data; boundary=x"),
        called(";"),
        post("content type, none for a step with a body", "/api/v1/orders/1/cancel")
            .by(BUYER)
            .body("{}")
            .refused(415, "A0400", &[]),
        unnamed("in capitals, with a charset")
            .header("Content-Type", "Application/JSON; charset=utf-8")
            .done(201),
    ]
}

fn sizes() -> Vec<Case> {
    let padded = |bytes: usize| {
        let rest = r#"{"title":"","price":1}"#.len();
        format!(r#"{{"title":"{}","price":1}}"#, "x".repeat(bytes - rest))
    };
    let sized = |name: &str, bytes| post(&format!("body, {name}"), PRODUCTS).by(SELLER).json(&padded(bytes));
    let too_large = |case: Case| case.refused(413, "A0400", &[]);
    vec![
        sized("of 64 KiB, which is read", BODY_LIMIT).invalid(&["title"]),
        sized("of 64 KiB in chunks, which is read", BODY_LIMIT)
            .framed(Framing::Chunked(1_000))
            .invalid(&["title"]),
        too_large(sized("of 64 KiB and a byte", BODY_LIMIT + 1)),
        too_large(sized("of 64 KiB and a byte in chunks", BODY_LIMIT + 1).framed(Framing::Chunked(1_000))),
        too_large(
            sized("of 64 KiB and a byte in one chunk", BODY_LIMIT + 1)
                .framed(Framing::Chunked(BODY_LIMIT + 1)),
        ),
        too_large(sized("of a megabyte", 1 << 20)),
        too_large(
            post("body, announced as too large", PRODUCTS)
                .by(SELLER)
                .json("{}")
                .framed(Framing::Announced(1 << 40)),
        ),
        too_large(
            post("body, a callback of 64 KiB and a byte", "/api/v1/payments/callback")
                .json(&padded(BODY_LIMIT + 1)),
        ),
        sized("too large and without a token: nobody reads it", BODY_LIMIT + 1).by_nobody().refused(
            401,
            "A0301",
            &[],
        ),
    ]
}

fn traces() -> Vec<Case> {
    let traced = |name: &str, id: &str| {
        get(&format!("trace, {name}"), "/healthz").header("X-Trace-Id", id).unchanged(200)
    };
    vec![
        traced("of 64 characters, taken", &"t".repeat(64)),
        traced("of every kind of character, taken", "aZ09_-"),
        traced("of 65 characters", &"t".repeat(65)),
        traced("empty", ""),
        traced("with a space", "a b"),
        traced("with markup", "<b>"),
        traced("with a quote", "a\"b"),
        traced("no ASCII", "é"),
        get("trace, with a refusal", "/api/v1/orders").header("X-Trace-Id", "mine").refused(
            401,
            "A0301",
            &[],
        ),
        get("trace, wrong, with a refusal", "/api/v1/orders").header("X-Trace-Id", "not mine").refused(
            401,
            "A0301",
            &[],
        ),
    ]
}
