//! Errors that are detected before a route handles the request: paths, methods, sizes, content types, trace ids.

use super::case::{Case, get, post, with_method};
use super::market::{BUYER, Market, SELLER};
use super::wire::Framing;

const PRODUCTS: &str = "/api/v1/products";
/// Maximum body size in bytes.
const BODY_LIMIT: usize = 64 * 1024;

pub(crate) fn cases(market: &Market) -> Vec<Case> {
    [addresses(), methods(), ids(market), types(), accepted_types(), sizes(), traces()].concat()
}

fn addresses() -> Vec<Case> {
    let nothing = |path: &str| {
        [
            get(&format!("unknown path {path}"), path),
            post(&format!("POST to unknown path {path}"), path).json("{}"),
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
    let invalid_orders =
        [format!("+{}", market.pending), format!("0{}", market.pending), format!("{}.0", market.pending)];
    let ids =
        ["0", "-1", "abc", "1.5", "9007199254740992", "9223372036854775808", "%20", "%FF", "1%00", "null"];
    let mut cases = Vec::new();
    for id in ids.into_iter().chain(invalid_orders.iter().map(String::as_str)) {
        cases.push(get(&format!("order id {id}"), &format!("/api/v1/orders/{id}")).by(BUYER));
        cases.push(post(&format!("cancel order id {id}"), &format!("/api/v1/orders/{id}/cancel")).by(BUYER));
        cases.push(get(&format!("product id {id}"), &format!("{PRODUCTS}/{id}")).by(BUYER));
    }
    cases.into_iter().map(|case| case.refused(404, "A0404", &[])).collect()
}

fn types() -> Vec<Case> {
    let body = r#"{"title":"a","price":1}"#;
    let without_type = |name: &str| post(&format!("content type, {name}"), PRODUCTS).by(SELLER).body(body);
    let with_type = |kind: &str| without_type(kind).header("Content-Type", kind).refused(415, "A0400", &[]);
    vec![
        without_type("none").refused(415, "A0400", &[]),
        with_type("text/plain"),
        with_type("text/json"),
        with_type("application/x-www-form-urlencoded"),
        with_type("application/jsonp"),
        with_type("application/json-patch+json"),
        with_type("multipart/form-data; boundary=x"),
        with_type(";"),
        post("content type, none for a cancellation with a body", "/api/v1/orders/1/cancel")
            .by(BUYER)
            .body("{}")
            .refused(415, "A0400", &[]),
        with_type("application/json").header("content-type", "application/json").named("content type, twice"),
        with_type("application/json").header("content-type", "text/plain").named("content type, two"),
        without_type("in upper case, with a charset")
            .header("Content-Type", "Application/JSON; charset=utf-8")
            .done(201),
    ]
}

/// `Accept` selects nothing: every response is JSON (RFC 9110 §12.5.1 allows that), so that a payment is not refused
/// because of a header.
fn accepted_types() -> Vec<Case> {
    ["text/html", "application/xml", "application/json;q=0", "image/*;q=0.1, text/plain", ";", ""]
        .into_iter()
        .flat_map(|kind| {
            let with = |path: &str| get(&format!("accept {kind:?}, {path}"), path).header("Accept", kind);
            [
                with("/healthz").unchanged(200),
                with(PRODUCTS).by(BUYER).unchanged(200),
                with("/api/v1/orders").refused(401, "A0301", &[]),
                with("/api/v2").refused(404, "A0404", &[]),
            ]
        })
        .collect()
}

fn sizes() -> Vec<Case> {
    let body_of_size = |bytes: usize| {
        let rest = r#"{"title":"","price":1}"#.len();
        format!(r#"{{"title":"{}","price":1}}"#, "x".repeat(bytes - rest))
    };
    let with_body =
        |name: &str, bytes| post(&format!("body, {name}"), PRODUCTS).by(SELLER).json(&body_of_size(bytes));
    let too_large = |case: Case| case.refused(413, "A0400", &[]);
    vec![
        with_body("size of 64 KiB, within the limit", BODY_LIMIT).invalid(&["title"]),
        with_body("size of 64 KiB in chunks, within the limit", BODY_LIMIT)
            .framed(Framing::Chunked(1_000))
            .invalid(&["title"]),
        too_large(with_body("size of 64 KiB and a byte", BODY_LIMIT + 1)),
        too_large(
            with_body("size of 64 KiB and a byte, in chunks", BODY_LIMIT + 1).framed(Framing::Chunked(1_000)),
        ),
        too_large(
            with_body("size of 64 KiB and a byte, in one chunk", BODY_LIMIT + 1)
                .framed(Framing::Chunked(BODY_LIMIT + 1)),
        ),
        too_large(with_body("size of a megabyte", 1 << 20)),
        too_large(
            post("body, Content-Length above the limit", PRODUCTS)
                .by(SELLER)
                .json("{}")
                .framed(Framing::Announced(1 << 40)),
        ),
        too_large(
            post("body, a callback of 64 KiB and a byte", "/api/v1/payments/callback")
                .json(&body_of_size(BODY_LIMIT + 1)),
        ),
        with_body("too large and without a token: the body is not read", BODY_LIMIT + 1)
            .without_token()
            .refused(401, "A0301", &[]),
    ]
}

fn traces() -> Vec<Case> {
    let traced = |name: &str, id: &str| {
        get(&format!("trace, {name}"), "/healthz").header("X-Trace-Id", id).unchanged(200)
    };
    vec![
        traced("an id of 64 characters, accepted", &"t".repeat(64)),
        traced("an id with every kind of character, accepted", "aZ09_-"),
        traced("an id of 65 characters", &"t".repeat(65)),
        traced("empty", ""),
        traced("with a space", "a b"),
        traced("with markup", "<b>"),
        traced("with a quote", "a\"b"),
        traced("not ASCII", "é"),
        get("trace, a repeated id is replaced", "/healthz")
            .header("x-trace-id", "one")
            .header("x-trace-id", "two")
            .unchanged(200),
        get("trace id in a rejected request", "/api/v1/orders").header("X-Trace-Id", "mine").refused(
            401,
            "A0301",
            &[],
        ),
        get("invalid trace id in a rejected request", "/api/v1/orders")
            .header("X-Trace-Id", "not mine")
            .refused(401, "A0301", &[]),
    ]
}
