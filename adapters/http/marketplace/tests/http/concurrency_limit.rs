//! Tests of the concurrency limit.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::{Body, Bytes};
use handover_http::{Limits, WebOrigin};
use handover_memory::VirtualClock;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Store, StoreError};
use hyper::body::Frame;
use marketplace::ports::{MarketStore, MarketView, Work};
use marketplace_memory::MemoryStore;
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

use crate::response_headers::{SHOP, has_security_headers};
use crate::traces::PARENT;
use crate::world::{BUYER, SELLER, Setup, World, start};

const PRODUCTS: &str = "/api/v1/products";

/// A store whose reads wait until the gate is open.
struct Gated {
    inner: MemoryStore,
    gate: Arc<Semaphore>,
}

#[async_trait]
impl Store for Gated {
    type Unit = Work;
    type View = dyn MarketView;

    async fn begin(&self) -> Result<Box<Work>, StoreError> {
        self.inner.begin().await
    }

    async fn view(&self) -> Result<Box<dyn MarketView>, StoreError> {
        drop(self.gate.acquire().await);
        self.inner.view().await
    }
}

/// An API with this concurrency limit whose reads wait until the gate is open.
pub(crate) async fn gated(concurrent_requests: u32) -> (World, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let inner = MemoryStore::new(Arc::new(VirtualClock::new(start())), WakeupNotifier::default());
    let store = Gated { inner, gate: Arc::clone(&gate) };
    (world(concurrent_requests, Some(Arc::new(store))).await, gate)
}

async fn world(concurrent_requests: u32, store: Option<Arc<MarketStore>>) -> World {
    let cors_origins = vec![WebOrigin::parse(SHOP).unwrap()];
    let limits = Limits { concurrent_requests, cors_origins, ..Limits::default() };
    World::with(Setup { limits, store, ..Setup::default() }).await
}

#[tokio::test(start_paused = true)]
async fn request_over_concurrency_limit_is_503_at_once_except_health() {
    let (world, gate) = gated(2).await;
    let stuck = || world.get_as(BUYER, PRODUCTS).send();
    let (mut first, mut second) = (Box::pin(stuck()), Box::pin(stuck()));
    for waiting in [&mut first, &mut second] {
        assert!(tokio::time::timeout(Duration::from_millis(1), waiting).await.is_err());
    }
    let begun = Instant::now();
    let response = world.get_as(BUYER, PRODUCTS).send().await.expect(503, "C0001");
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
    assert_eq!(response.headers["retry-after"], "1");
    assert!(response.message.contains("nothing was changed"), "{}", response.message);
    // The same limit rejects requests to other routes and of other callers.
    world.get(PRODUCTS).send().await.expect(503, "C0001");
    world.post("/api/v1/payments/callback").json("{}").send().await.expect(503, "C0001");
    for path in ["/healthz", "/readyz"] {
        world.get(path).send().await.expect(200, "00000");
    }
    gate.add_permits(1);
    for waiting in [first, second] {
        waiting.await.expect(200, "00000");
    }
    world.get(PRODUCTS).send().await.expect(401, "A0301");
}

/// Rejected requests are not logged one by one, so operators need the count.
#[tokio::test(start_paused = true)]
async fn rejected_requests_are_counted_in_metric() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let _counting = metrics::set_default_local_recorder(&recorder);
    let (world, gate) = gated(1).await;
    let mut stuck = Box::pin(world.get_as(BUYER, PRODUCTS).send());
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut stuck).await.is_err());
    for _ in 0..3 {
        world.get(PRODUCTS).send().await.expect(503, "C0001");
    }
    gate.add_permits(1);
    stuck.await.expect(200, "00000");
    let rendered = recorder.handle().render();
    assert!(rendered.lines().any(|line| line == "handover_overload_refused 3"), "{rendered}");
}

/// The request is rejected before its span, log line and timeout are created.
#[tokio::test(start_paused = true)]
async fn rejected_request_gets_trace_language_cors_and_security_headers() {
    let (world, gate) = gated(1).await;
    let mut stuck = Box::pin(world.get_as(BUYER, PRODUCTS).send());
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut stuck).await.is_err());
    let request = world.get(PRODUCTS).header("origin", SHOP).header("accept-language", "zh");
    let request = request.header("x-trace-id", "order-7").header("traceparent", PARENT);
    let response = request.send().await.expect(503, "C0001");
    assert_eq!(response.trace_id, "order-7");
    assert!(response.message.contains("服务繁忙"), "{}", response.message);
    let traceparent = response.header("traceparent").unwrap();
    assert_eq!(traceparent[..36], PARENT[..36]);
    assert_ne!(traceparent, PARENT, "the request has its own span");
    assert_eq!(response.headers["access-control-allow-origin"], SHOP, "a page can read the error response");
    assert!(has_security_headers(&response.headers), "{:?}", response.headers);
    gate.add_permits(1);
    stuck.await.expect(200, "00000");
}

#[tokio::test(start_paused = true)]
async fn slow_body_does_not_occupy_a_permit() {
    let world = world(1, None).await;
    let never = world.post_as(SELLER, PRODUCTS).header("content-type", "application/json");
    let mut never = Box::pin(never.body(Body::new(Never)).send());
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut never).await.is_err());
    world.product().await;
    never.await.expect(408, "A0400");
    world.product().await;
}

#[tokio::test(start_paused = true)]
async fn body_completed_without_free_permit_is_503_and_changes_nothing() {
    let (world, gate) = gated(1).await;
    let (sender, body) = oneshot::channel();
    let request = world.post_as(SELLER, PRODUCTS).header("content-type", "application/json");
    let mut sending = Box::pin(request.body(Body::new(Later(body))).send());
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut sending).await.is_err());
    let mut listing = Box::pin(world.get_as(BUYER, PRODUCTS).send());
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut listing).await.is_err());
    sender.send(Bytes::from_static(br#"{"title":"a lamp","price":5}"#)).unwrap();
    assert_eq!(sending.await.expect(503, "C0001").headers["retry-after"], "1");
    gate.add_permits(1);
    assert!(listing.await.expect(200, "00000").ids("productId").is_empty());
    world.product().await;
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

/// A body that arrives when the test sends it.
struct Later(oneshot::Receiver<Bytes>);

impl hyper::body::Body for Later {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.0.is_terminated() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.0).poll(context).map(|sent| sent.ok().map(|bytes| Ok(Frame::data(bytes))))
    }
}
