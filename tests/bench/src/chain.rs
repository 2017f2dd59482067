//! `chain`: orders over HTTP, each with an idempotency key, until the effect of each is applied. Relay, consumers and jobs of
//! the service run in this process, and so do the clients.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::http::StatusCode;
use handover_events::TenantId;
use handover_http::{Limits, Problem, Tokens};
use handover_outbox::ports::Clock as _;
use handover_runtime::http::{HttpServer, Listeners, Routers};
use handover_runtime::terminal::progress::Progress;
use handover_system::SystemClock;
use marketplace::consumers::INVENTORY_QUEUE;
use marketplace::ports::Bucket;
use marketplace::{App, service};
use marketplace_http::{CallbackVerifier, Edge, RateLimits, router};
use marketplace_limiter::{LocalLimiter, Time};
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use crate::cli::Mode;
use crate::error::{BenchError, service_error};
use crate::fixture::Fixture;
use crate::measurement::{Measurement, rates, steps};
use crate::plan::Plan;
use crate::port_recorder::PortRecorder;
use crate::report::{Better, Figure};
use crate::series::alternate;
use crate::{backlog, baseline_turns};

const UNIT: (&str, Better) = ("orders/s", Better::More);
/// Number of HTTP connections.
const CONNECTIONS: u32 = 16;
/// Header of the idempotency key.
pub(crate) const KEY_HEADER: &str = "x-idempotency-key";
/// Secrets of this process alone, which end with it.
const TOKEN_SECRET: &[u8] = b"signs the tokens of the benchmark's buyers";
const GATEWAY_SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// Validity of tokens.
const TTL: Duration = Duration::from_secs(24 * 3600);
/// Timeout for outstanding effects after the last order.
const SETTLE_WITHIN: Duration = Duration::from_secs(120);

pub(crate) async fn measure(
    plan: &Plan,
    fixture: &Fixture,
    progress: &Progress,
) -> Result<Vec<Figure>, BenchError> {
    progress.phase("chain", plan.turns());
    let buyers = Buyers::new()?;
    let orders = orders_of(plan);
    let rounds = alternate(
        plan.rounds,
        progress,
        async || {
            prepare(fixture, orders).await?;
            run_service(fixture, &buyers, orders).await
        },
        async || {
            prepare(fixture, orders).await?;
            baseline_turns::chain(fixture, plan, &buyers, orders).await
        },
    )
    .await?;
    let what = format!("{orders} orders, {CONNECTIONS} connections");
    let mut figure = Figure::new(Mode::Chain, what, UNIT, rates(&rounds.service), rates(&rounds.baseline));
    figure.steps = steps(&rounds.service);
    Ok(vec![figure])
}

/// Number of orders of a turn: each has two events.
pub(crate) fn orders_of(plan: &Plan) -> u32 {
    (plan.events / 2).max(1)
}

pub(crate) async fn prepare(fixture: &Fixture, orders: u32) -> Result<(), BenchError> {
    fixture.clear().await?;
    fixture.list_products(orders).await?;
    fixture.analyze().await
}

/// Places orders with the whole service and waits for the effect of each.
pub(crate) async fn run_service(
    fixture: &Fixture,
    buyers: &Buyers,
    orders: u32,
) -> Result<Measurement, BenchError> {
    let recorder = PortRecorder::default();
    let app = fixture.app(&recorder, Some(INVENTORY_QUEUE));
    service::prepare(&app).await.map_err(service_error)?;
    fixture.spawn_background_tasks(&app);
    service::start(&app, &fixture.wake, &fixture.config.settings);
    let server = serve(fixture, &app, buyers.tokens()).await?;
    fixture.statements.reset();
    let started = Instant::now();
    buyers.place_orders(server.address(), orders).await?;
    let applied = recorder.wait_for_acks(u64::from(orders));
    if tokio::time::timeout(SETTLE_WITHIN, applied).await.is_err() {
        let what = format!("not all of {orders} orders had their effect within {SETTLE_WITHIN:?}");
        return Err(BenchError::Measurement(what));
    }
    let duration = started.elapsed();
    let statements = fixture.statements.take();
    server.close();
    app.tx.tasks().stop().await;
    Ok(Measurement::new(u64::from(orders), duration).by_workers(CONNECTIONS).with_statements(statements))
}

/// Serves the API on a free port, without rate limits.
async fn serve(fixture: &Fixture, app: &App, tokens: &Tokens) -> Result<HttpServer, BenchError> {
    let unlimited = Bucket::new(NonZeroU32::MAX, 1).map_err(service_error)?;
    let limits = Limits::default();
    let routes = router(Edge {
        app: app.clone(),
        tokens: tokens.clone(),
        callbacks: CallbackVerifier::new(GATEWAY_SECRET).map_err(service_error)?,
        requires_reference: false,
        readiness: Arc::new(Vec::<Problem>::new),
        admission: RateLimits::new(Arc::new(LocalLimiter::with_time(Time::monotonic())), unlimited),
        limits: limits.clone(),
        webhooks: None,
    });
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let listeners = Listeners::bind(listen, &fixture.config.http).await?;
    let routers = Routers { public: routes, operators: None };
    let stop = CancellationToken::new();
    Ok(HttpServer::start(listeners, routers, limits, app.tx.tasks(), stop)?)
}

/// The clients: their tokens and connections.
pub(crate) struct Buyers {
    tokens: Tokens,
    /// A token for each buyer.
    signed: Arc<Vec<String>>,
}

impl Buyers {
    pub(crate) fn new() -> Result<Buyers, BenchError> {
        let tokens =
            Tokens::new(TOKEN_SECRET).map_err(|_| service_error("the secret of the tokens is weak"))?;
        let signed = (0..backlog::BUYERS).map(|n| {
            let buyer = backlog::buyer(n)?.get();
            tokens.issue(buyer, TenantId::DEFAULT, &["user"], TTL, SystemClock.now()).map_err(service_error)
        });
        let signed = Arc::new(signed.collect::<Result<_, _>>()?);
        Ok(Buyers { tokens, signed })
    }

    pub(crate) fn tokens(&self) -> &Tokens {
        &self.tokens
    }

    /// Orders the products 1 to `orders`, each with its own idempotency key, as fast as the responses arrive.
    pub(crate) async fn place_orders(&self, address: SocketAddr, orders: u32) -> Result<(), BenchError> {
        let url: Arc<str> = format!("http://{address}/api/v1/orders").into();
        let http = reqwest::Client::builder().no_proxy().build().map_err(service_error)?;
        let next = Arc::new(AtomicU32::new(0));
        let mut clients = JoinSet::new();
        for _ in 0..CONNECTIONS {
            let (http, next) = (http.clone(), Arc::clone(&next));
            let (url, signed) = (Arc::clone(&url), Arc::clone(&self.signed));
            clients.spawn(async move {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= orders {
                        return Ok(());
                    }
                    let token = usize::try_from(n).ok().and_then(|n| signed.get(n % signed.len()));
                    let request = http
                        .post(&*url)
                        .bearer_auth(token.map(String::as_str).unwrap_or_default())
                        .header(KEY_HEADER, format!("bench-{n}"))
                        .header(reqwest::header::CONTENT_TYPE, "application/json")
                        .body(format!("{{\"productId\":{}}}", n + 1));
                    let response = request.send().await.map_err(service_error)?;
                    let status = response.status();
                    let body = response.text().await.map_err(service_error)?;
                    if status != StatusCode::CREATED {
                        let what = format!("an order was answered with {status}: {body}");
                        return Err(BenchError::Measurement(what));
                    }
                }
            });
        }
        while let Some(done) = clients.join_next().await {
            done.map_err(service_error)??;
        }
        Ok(())
    }
}
