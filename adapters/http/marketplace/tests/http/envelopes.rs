//! Error responses: every error has the envelope (validated by the client), and internal errors show no details.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::{Body, Bytes};
use handover_http::{Limits, Problem, Readiness};
use handover_outbox::ports::{OnFailed, Store, StoreError};
use hyper::body::Frame;
use marketplace::Role;
use marketplace::ports::{MarketStore, MarketView, Work};

use crate::world::{BUYER, FailingStore, OTHER_USER, SELLER, Setup, World};

const PRODUCTS: &str = "/api/v1/products";

#[tokio::test(start_paused = true)]
async fn unknown_path_is_404_for_every_method() {
    let world = World::new().await;
    for path in ["/nothing", "/api", "/api/v1/nothing", "/api/v1/orders/1/nothing", "/api/v1/products/", "//"]
    {
        world.get(path).send().await.expect(404, "A0404");
        world.post(path).send().await.expect(404, "A0404");
    }
}

#[tokio::test(start_paused = true)]
async fn unsupported_method_is_405_with_allow_header() {
    let world = World::new().await;
    let response = world.post("/healthz").send().await.expect(405, "A0400");
    assert!(response.headers["allow"].to_str().unwrap().contains("GET"));
    world.get("/api/v1/payments/callback").send().await.expect(405, "A0400");
    world.post_as(BUYER, "/api/v1/orders/1").send().await.expect(405, "A0400");
}

#[tokio::test(start_paused = true)]
async fn path_with_invalid_id_is_404() {
    let world = World::new().await;
    let order = world.order().await;
    let signed = format!("+{order}");
    let padded = format!("0{order}");
    for id in [
        signed.as_str(),
        padded.as_str(),
        "0",
        "-1",
        "x",
        "1.0",
        "9007199254740992",
        "99999999999999999999",
        "%FF",
        "%20",
    ] {
        world.get_as(BUYER, &format!("/api/v1/orders/{id}")).send().await.expect(404, "A0404");
        world.post_as(BUYER, &format!("/api/v1/products/{id}/off-shelf")).send().await.expect(404, "A0404");
    }
}

#[tokio::test(start_paused = true)]
async fn body_over_limit_is_413_with_or_without_content_length() {
    let world = World::new().await;
    let padded = |bytes: usize| {
        let rest = r#"{"title":"","price":1}"#.len();
        format!(r#"{{"title":"{}","price":1}}"#, "x".repeat(bytes - rest))
    };
    let largest = Limits::default().body_bytes;
    world.post_as(SELLER, PRODUCTS).json(padded(largest)).send().await.expect(400, "A0400");
    world.post_as(SELLER, PRODUCTS).json(padded(largest + 1)).send().await.expect(413, "A0400");
    let announced = world.post_as(SELLER, PRODUCTS).header("content-length", "70000").json("{}");
    announced.send().await.expect(413, "A0400");
    world.post("/api/v1/payments/callback").json(padded(largest + 1)).send().await.expect(413, "A0400");
}

#[tokio::test(start_paused = true)]
async fn body_without_json_content_type_is_415() {
    let world = World::new().await;
    let body = r#"{"title":"a bicycle","price":1}"#;
    world.post_as(SELLER, PRODUCTS).text(body).send().await.expect(415, "A0400");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""] {
        let request = world.post_as(SELLER, PRODUCTS).header("content-type", kind);
        request.text(body).send().await.expect(415, "A0400");
    }
    let request = world.post_as(SELLER, PRODUCTS).header("content-type", "Application/JSON; charset=utf-8");
    request.text(body).send().await.expect(201, "00000");
}

#[tokio::test(start_paused = true)]
async fn body_that_never_arrives_is_408() {
    let world = World::new().await;
    let never = Body::new(Never);
    let request = world.post_as(SELLER, PRODUCTS).header("content-type", "application/json").body(never);
    request.send().await.expect(408, "A0400");
}

struct Slow;

#[async_trait]
impl Readiness for Slow {
    #[allow(clippy::disallowed_methods, reason = "simulates a route that hangs, in paused time")]
    async fn problems(&self) -> Vec<Problem> {
        tokio::time::sleep(Duration::from_secs(31)).await;
        Vec::new()
    }
}

/// The transaction may still commit, so the outcome is unknown (spec §4).
#[tokio::test(start_paused = true)]
async fn request_timeout_is_504_outcome_unknown() {
    let world = World::with(Setup { readiness: Arc::new(Slow), ..Setup::default() }).await;
    for (language, expected) in [("en", "with the same idempotency key"), ("zh", "请使用相同的幂等键重试")]
    {
        let response = world.get("/readyz").header("accept-language", language).send().await;
        let response = response.expect(504, "C0002");
        assert!(response.message.contains(expected), "{}", response.message);
    }
}

/// A store that takes 20 s to begin a unit of work.
struct SlowStore(Arc<MarketStore>);

#[async_trait]
impl Store for SlowStore {
    type Unit = Work;
    type View = dyn MarketView;

    #[allow(clippy::disallowed_methods, reason = "simulates a slow store, in paused time")]
    async fn begin(&self) -> Result<Box<Work>, StoreError> {
        tokio::time::sleep(Duration::from_secs(20)).await;
        self.0.begin().await
    }

    async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        self.0.view().await
    }
}

#[tokio::test(start_paused = true)]
async fn request_with_unknown_outcome_gets_its_response_when_repeated() {
    let world = World::new().await;
    let store = Some(Arc::new(SlowStore(world.app.tx.store().clone())) as Arc<_>);
    let slow = World::with(Setup { store, ..Setup::default() }).await;
    let sell = || {
        let request = slow.post_as(SELLER, PRODUCTS).header("x-idempotency-key", "lamp-1");
        request.json(r#"{"title":"a lamp","price":1}"#).send()
    };
    // The unit of work that lists the product and stores the response ends after the timeout of 30 s.
    sell().await.expect(504, "C0002");
    let mut again = sell().await;
    while again.status != 201 {
        assert_eq!(again.code, "A0401", "{}", again.text);
        tokio::time::advance(Duration::from_secs(1)).await;
        again = sell().await;
    }
    assert_eq!(again.headers["idempotent-replayed"], "true");
    let listed = world.get_as(BUYER, PRODUCTS).send().await;
    assert_eq!(listed.ids("productId"), [again.id("productId")], "the product is listed once");
}

#[tokio::test(start_paused = true)]
async fn panic_is_500_and_next_request_succeeds() {
    let panics = || -> Vec<Problem> { panic!("the password is swordfish") };
    let world = World::with(Setup { readiness: Arc::new(panics), ..Setup::default() }).await;
    let response = world.get("/readyz").header("x-trace-id", "t-1").send().await.expect(500, "B0001");
    assert!(!response.text.contains("swordfish") && response.data.is_null(), "{}", response.text);
    assert_eq!(response.trace_id, "t-1");
    world.get("/healthz").send().await.expect(200, "00000");
}

#[tokio::test(start_paused = true)]
async fn store_errors_map_to_statuses_without_details() {
    let cases: [(FailingStore, u16, &str); 6] = [
        (FailingStore(|| StoreError::Unavailable("swordfish".into())), 503, "C0001"),
        (FailingStore(|| StoreError::Transient("swordfish".into())), 503, "C0001"),
        (FailingStore(|| StoreError::CommitUnknown("swordfish".into())), 504, "C0002"),
        (FailingStore(|| StoreError::Conflict { what: "swordfish".into() }), 409, "A0409"),
        (FailingStore(|| StoreError::Backend("swordfish".into())), 500, "B0001"),
        (
            FailingStore(|| StoreError::Corrupt {
                table: "swordfish",
                column: "c",
                key: "k".into(),
                why: "w".into(),
            }),
            500,
            "B0001",
        ),
    ];
    for (broken, status, code) in cases {
        let store = Some(Arc::new(broken) as Arc<_>);
        // With on-failed = continue, the service would not query the store for blocked aggregates, so the store could
        // not fail.
        let setup = Setup { store, on_failed: OnFailed::Hold, ..Setup::default() };
        let world = World::with(setup).await;
        let body = r#"{"title":"a bicycle","price":1}"#;
        let operator = world.token(OTHER_USER, 1, &[Role::Operator]);
        let read = |path: &str| world.get(&format!("/api/v1/ops/{path}")).token(&operator);
        let act =
            |path: &str, body: &str| world.post(&format!("/api/v1/ops/{path}")).token(&operator).json(body);
        let requests = [
            world.get_as(BUYER, PRODUCTS),
            world.post_as(SELLER, PRODUCTS).json(body),
            world.get_as(BUYER, "/api/v1/orders/1/timeline"),
            read("outbox"),
            read("outbox/e-1"),
            read("blocked"),
            read("dead-letters"),
            read("consumptions"),
            read("stats"),
            read("audit"),
            act("outbox/redrive", r#"{"eventIds":["e-1"]}"#),
            act("blocked/Order/1/release", "{}"),
            act("dead-letters/replay", r#"{"filter":{}}"#),
            act("dead-letters/discard", r#"{"keys":["e-1"],"reason":"r"}"#),
        ];
        for request in requests {
            // Real adapters report no conflict on reads, so the document describes no A0409 for reads.
            let request = if code == "A0409" { request.undocumented() } else { request };
            let response = request.send().await.expect(status, code);
            assert!(!response.text.contains("swordfish") && response.data.is_null(), "{}", response.text);
            assert_eq!(response.headers.contains_key("retry-after"), code == "C0001");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn messages_are_chinese_if_accept_language_prefers_chinese() {
    let world = World::new().await;
    let none = world.get("/nothing").header("accept-language", "zh-CN,zh;q=0.9,en;q=0.8").send().await;
    assert_eq!(none.message, "请求的地址不存在");
    let request = world.post_as(SELLER, PRODUCTS).header("accept-language", "zh").json("{}");
    let invalid = request.send().await.expect(400, "A0400");
    assert_eq!(invalid.message, "请求参数不正确");
    assert_eq!(invalid.data["errors"][0]["message"], "不能为空");
    assert_eq!(
        world.get("/nothing").header("accept-language", "en,zh;q=0.5").send().await.message,
        "no such route"
    );
}

#[tokio::test(start_paused = true)]
async fn language_with_greatest_weight_is_used_and_english_is_default() {
    let world = World::new().await;
    let english = "no such route";
    let chinese = "请求的地址不存在";
    let cases = [
        ("", english),
        ("zh", chinese),
        ("zh-CN,zh;q=0.9,en;q=0.8", chinese),
        ("ZH-hant", chinese),
        ("en-US,en;q=0.9,zh;q=0.8", english),
        ("en;q=0.5, zh;q=0.8", chinese),
        ("fr, zh;q=0.1", chinese),
        ("zh;q=0", english),
        ("zh;q=x", english),
        ("zhuang", english),
        ("*", english),
    ];
    for (value, expected) in cases {
        let response = world.get("/nothing").header("accept-language", value).send().await;
        assert_eq!(response.message, expected, "{value}");
    }
}

/// A body that never arrives.
struct Never;

impl hyper::body::Body for Never {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}
