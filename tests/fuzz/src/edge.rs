//! The HTTP edge on an in-memory marketplace, and the checks of every response.

use std::cell::RefCell;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Method, Request};
use chrono::{DateTime, TimeZone, Utc};
use handover_events::TenantId;
use handover_http::{ForwardedHeader, Limits, Problem, Proxies, Tokens};
use handover_memory::{MemoryBroker, SeededRandom, VirtualClock};
use handover_outbox::{Tasks, Transactor, WakeupNotifier};
use marketplace::ports::Bucket;
use marketplace::{App, Rules, service};
use marketplace_domain::{FeeRate, PointsRules};
use marketplace_http::{CallbackVerifier, Edge, RateLimits, router};
use marketplace_limiter::{LocalLimiter, Time};
use marketplace_memory::MemoryStore;
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

pub(crate) const SECRET: &[u8] = b"a secret of at least thirty-two bytes";
pub(crate) const GATEWAY_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// Number of inputs after which a new marketplace replaces the old one, because the store grows with each input.
const INPUTS_PER_MARKET: u32 = 1_000;
/// Headers in which trusted proxies send the client address; each new marketplace expects the other one.
const HEADERS: [ForwardedHeader; 2] = [ForwardedHeader::XForwardedFor, ForwardedHeader::Forwarded];

/// The marketplace that receives the requests of the current inputs.
#[derive(Default)]
struct Market {
    router: Option<Router>,
    inputs: u32,
    generation: usize,
}

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_all().build().unwrap();
    static MARKET: RefCell<Market> = const { RefCell::new(Market { router: None, inputs: 0, generation: 0 }) };
}

/// Marks the start of a new input; all requests of one input go to the same marketplace.
pub(crate) fn start_input() {
    MARKET.with_borrow_mut(|market| {
        market.inputs += 1;
        if market.inputs >= INPUTS_PER_MARKET {
            *market = Market { generation: market.generation + 1, ..Market::default() };
        }
    });
}

/// A response that has passed the checks of [`send`].
#[derive(Debug)]
pub(crate) struct CheckedResponse {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    /// The envelope in the body; null for HEAD and redirections.
    pub(crate) envelope: Value,
}

/// Fixed current time.
pub(crate) fn now() -> DateTime<Utc> {
    Utc.with_ymd_and_hms(2026, 1, 31, 8, 0, 0).unwrap()
}

/// A token of a user with all roles in the default tenant.
pub(crate) fn bearer() -> String {
    let tenant = TenantId::DEFAULT;
    let tokens = Tokens::new(SECRET).unwrap();
    tokens.issue(7, tenant, &["user", "operator"], Duration::from_secs(60), now()).unwrap()
}

/// Sends a request through a trusted proxy and checks its response.
///
/// # Panics
///
/// If the response is a server error or not an envelope, or if its trace id is invalid or differs between header and
/// body.
pub(crate) fn send(mut request: Request<Body>) -> CheckedResponse {
    let headless = request.method() == Method::HEAD;
    request.extensions_mut().insert(ConnectInfo(std::net::SocketAddr::from(([10, 0, 0, 1], 4711))));
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let market = MARKET.take();
            let router = match market.router {
                Some(router) => router,
                None => open_router(HEADERS[market.generation % HEADERS.len()]).await,
            };
            MARKET.set(Market { router: Some(router.clone()), ..market });
            let response = tower::ServiceExt::oneshot(router, request).await.unwrap();
            let (parts, body) = response.into_parts();
            let text = to_bytes(body, usize::MAX).await.unwrap();
            let status = parts.status.as_u16();
            assert!(status < 500, "{status}: {}", String::from_utf8_lossy(&text));
            let trace = parts.headers.get("x-trace-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
            let legal = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
            assert!((1..=64).contains(&trace.len()) && trace.bytes().all(legal), "trace id {trace:?}");
            let envelope = if (headless || parts.status.is_redirection()) && text.is_empty() {
                Value::Null
            } else {
                let envelope: Value = serde_json::from_slice(&text).unwrap();
                let names: Vec<&String> = envelope.as_object().unwrap().keys().collect();
                assert_eq!(names, ["code", "message", "data", "traceId"]);
                assert_eq!(envelope["traceId"], trace);
                envelope
            };
            CheckedResponse { status, headers: parts.headers, envelope }
        })
    })
}

async fn open_router(header: ForwardedHeader) -> Router {
    let clock = Arc::new(VirtualClock::new(now()));
    let tx = Transactor::new(
        Arc::new(MemoryStore::new(clock.clone(), WakeupNotifier::default())),
        clock.clone(),
        Arc::new(SeededRandom::new(1)),
        Tasks::default(),
    );
    let rules = Rules {
        pending_timeout: Duration::from_secs(900),
        max_retry_count: 3,
        points: PointsRules::default(),
        fee_rate: FeeRate::DEFAULT,
    };
    let app = App::new(tx, Arc::new(MemoryBroker::new(clock)), rules);
    service::prepare(&app).await.unwrap();
    let unlimited = Bucket::new(NonZeroU32::MAX, 1).unwrap();
    let proxies = Proxies { trusted: vec!["10.0.0.0/8".parse().unwrap()], header };
    router(Edge {
        app,
        tokens: Tokens::new(SECRET).unwrap(),
        callbacks: CallbackVerifier::new(GATEWAY_SECRET).unwrap(),
        requires_reference: false,
        readiness: Arc::new(Vec::<Problem>::new),
        admission: RateLimits::new(Arc::new(LocalLimiter::with_time(Time::monotonic())), unlimited)
            .with_proxies(proxies),
        limits: Limits::default(),
        webhooks: None,
    })
}
