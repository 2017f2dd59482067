//! More requests at a time than are worked on.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::{Body, Bytes};
use handover_memory::VirtualClock;
use handover_outbox::Wake;
use handover_outbox::ports::{Store, StoreError};
use hyper::body::Frame;
use marketplace::ports::{MarketStore, MarketView, Work};
use marketplace_http::{Limits, WebOrigin};
use marketplace_memory::MemoryStore;
use metrics_exporter_prometheus::PrometheusBuilder;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::Instant;

use crate::shut::{SHOP, is_shut};
use crate::traces::PARENT;
use crate::world::{BUYER, SELLER, Setup, World, start};

const PRODUCTS: &str = "/api/v1/products";

/// A store that lets nobody look until the gate is open.
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

/// So many places, and nobody looks until the gate is open.
pub(crate) async fn gated(concurrent_requests: u32) -> (World, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let inner = MemoryStore::new(Arc::new(VirtualClock::new(start())), Wake::default());
    let store = Gated { inner, gate: Arc::clone(&gate) };
    (world(concurrent_requests, Some(Arc::new(store))).await, gate)
}

async fn world(concurrent_requests: u32, store: Option<Arc<MarketStore>>) -> World {
    let cors_origins = vec![WebOrigin::parse(SHOP).unwrap()];
    let limits = Limits { concurrent_requests, cors_origins, ..Limits::default() };
    World::with(Setup { limits, store, ..Setup::default() }).await
}

#[tokio::test(start_paused = true)]
async fn one_request_too_many_is_turned_away_at_once_and_health_never_is() {
    let (world, gate) = gated(2).await;
    let stuck = || world.get_as(BUYER, PRODUCTS).send();
    let (mut first, mut second) = (Box::pin(stuck()), Box::pin(stuck()));
    for waiting in [&mut first, &mut second] {
        assert!(tokio::time::timeout(Duration::from_millis(1), waiting).await.is_err());
    }
    let begun = Instant::now();
    let answer = world.get_as(BUYER, PRODUCTS).send().await.expect(503, "C0001");
    assert!(begun.elapsed() < Duration::from_millis(100), "{:?}", begun.elapsed());
    assert_eq!(answer.headers["retry-after"], "1");
    assert!(answer.message.contains("nothing was changed"), "{}", answer.message);
    // Whatever it is, and whoever asks.
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

/// There is no line in the log for each: an operator sees how many.
#[tokio::test(start_paused = true)]
async fn how_many_are_turned_away_is_counted() {
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
    let told = recorder.handle().render();
    assert!(told.lines().any(|line| line == "handover_overload_refused 3"), "{told}");
}

/// It is refused before the rest is done for it: its span, its line in the log, its time.
#[tokio::test(start_paused = true)]
async fn who_is_turned_away_is_told_all_that_others_are() {
    let (world, gate) = gated(1).await;
    let mut stuck = Box::pin(world.get_as(BUYER, PRODUCTS).send());
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut stuck).await.is_err());
    let request = world.get(PRODUCTS).header("origin", SHOP).header("accept-language", "zh");
    let request = request.header("x-trace-id", "order-7").header("traceparent", PARENT);
    let answer = request.send().await.expect(503, "C0001");
    assert_eq!(answer.trace_id, "order-7");
    assert!(answer.message.contains("服务繁忙"), "{}", answer.message);
    let traceparent = answer.header("traceparent").unwrap();
    assert_eq!(traceparent[..36], PARENT[..36]);
    assert_ne!(traceparent, PARENT, "a span of its own");
    assert_eq!(answer.headers["access-control-allow-origin"], SHOP, "a page may read why it is refused");
    assert!(is_shut(&answer.headers), "{:?}", answer.headers);
    gate.add_permits(1);
    stuck.await.expect(200, "00000");
}

#[tokio::test(start_paused = true)]
async fn who_is_still_sending_a_body_keeps_nobody_out() {
    let world = world(1, None).await;
    let never = world.post_as(SELLER, PRODUCTS).header("content-type", "application/json");
    let mut never = Box::pin(never.body(Body::new(Never)).send());
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut never).await.is_err());
    world.product().await;
    never.await.expect(408, "A0400");
    world.product().await;
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_complete_when_all_places_are_taken_is_turned_away_and_changes_nothing() {
    let (world, gate) = gated(1).await;
    let (sender, body) = oneshot::channel();
    let request = world.post_as(SELLER, PRODUCTS).header("content-type", "application/json");
    let mut sending = Box::pin(request.body(Body::new(Later(body))).send());
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut sending).await.is_err());
    let mut looking = Box::pin(world.get_as(BUYER, PRODUCTS).send());
    assert!(tokio::time::timeout(Duration::from_millis(1), &mut looking).await.is_err());
    sender.send(Bytes::from_static(br#"{"title":"a lamp","price":5}"#)).unwrap();
    assert_eq!(sending.await.expect(503, "C0001").headers["retry-after"], "1");
    gate.add_permits(1);
    assert!(looking.await.expect(200, "00000").ids("productId").is_empty());
    world.product().await;
}

/// A body of which nothing ever comes.
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

/// A body that comes when somebody sends it.
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
