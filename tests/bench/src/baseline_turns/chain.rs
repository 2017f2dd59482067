//! The whole way of an order in the baseline: an HTTP server that places orders with their idempotency keys, a relay and a
//! consumer. It verifies tokens as the service does.

use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::post;
use axum::{Json, Router};
use handover_http::Tokens;
use handover_outbox::ports::Clock as _;
use handover_system::SystemClock;
use marketplace::consumers::INVENTORY_QUEUE;
use tokio::net::TcpListener;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::drain::{Drained, publish_batch};
use super::routes::Routes;
use crate::baseline::{BaselineError, Connection, Order, RabbitConnection};
use crate::chain::{Buyers, KEY_HEADER};
use crate::error::{BenchError, baseline_error, service_error};
use crate::fixture::Fixture;
use crate::measurement::Measurement;
use crate::plan::Plan;

/// The consumer's name in the consume log.
const CONSUMER: &str = "inventory";

/// Places `orders` orders and waits for the effect of each.
pub(crate) async fn chain(
    fixture: &Fixture,
    plan: &Plan,
    buyers: &Buyers,
    orders: u32,
) -> Result<Measurement, BenchError> {
    let chain = Arc::new(Chain::open(fixture, buyers.tokens().clone()).await?);
    let (batch, prefetch) = (plan.batch.get(), plan.prefetch.get());
    let mut tasks = JoinSet::new();
    let (relay, consumer, server) = (Arc::clone(&chain), Arc::clone(&chain), Arc::clone(&chain));
    let rabbitmq = fixture.rabbitmq().await?;
    tasks.spawn(async move { relay.relay(rabbitmq, batch).await });
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(service_error)?;
    let address = listener.local_addr().map_err(service_error)?;
    let router = Router::new().route("/api/v1/orders", post(place)).with_state(server);
    tasks.spawn(async move {
        axum::serve(listener, router).await.map_err(|error| BaselineError::Unexpected(error.to_string()))
    });
    let rabbitmq = fixture.rabbitmq().await?;
    let mut consuming = JoinSet::new();
    consuming.spawn(async move { consumer.consume(rabbitmq, prefetch, u64::from(orders)).await });
    let started = Instant::now();
    let consumed = async {
        let consumed = consuming.join_next().await.transpose().map_err(service_error)?;
        consumed.unwrap_or(Ok(())).map_err(baseline_error("the consumer of the baseline"))
    };
    let failed = async {
        let failed = tasks.join_next().await.transpose().map_err(service_error)?;
        let why =
            failed.and_then(Result::err).map_or_else(|| "it ended".to_owned(), |error| error.to_string());
        Err::<(), _>(BenchError::Measurement(format!("the relay or the server of the baseline: {why}")))
    };
    tokio::select! {
        done = async { tokio::try_join!(buyers.place_orders(address, orders), consumed) } => done.map(drop)?,
        failed = failed => failed?,
    }
    Ok(Measurement::new(u64::from(orders), started.elapsed()))
}

/// What server, relay and consumer share.
struct Chain {
    tokens: Tokens,
    routes: Routes,
    idle: Mutex<Vec<Connection>>,
    /// Has as many permits as `idle` has connections at the start.
    permits: Arc<Semaphore>,
    committed: Notify,
    published: Notify,
}

/// A connection that returns to the others when it is dropped.
struct Lent<'c> {
    chain: &'c Chain,
    connection: Option<Connection>,
    _permit: OwnedSemaphorePermit,
}

impl Lent<'_> {
    fn get(&mut self) -> Result<&mut Connection, BaselineError> {
        self.connection.as_mut().ok_or_else(|| BaselineError::Unexpected("no connection is idle".to_owned()))
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.chain.idle.lock().unwrap_or_else(PoisonError::into_inner).extend(self.connection.take());
    }
}

impl Chain {
    async fn open(fixture: &Fixture, tokens: Tokens) -> Result<Chain, BenchError> {
        // On SQLite all of them share one connection, because a second writer would only wait for the first.
        let connections = match fixture.connections() {
            1 => 1,
            connections => connections + 2,
        };
        let mut idle = Vec::new();
        for _ in 0..connections {
            idle.push(fixture.connection().await?);
        }
        Ok(Chain {
            tokens,
            routes: Routes::of(fixture),
            permits: Arc::new(Semaphore::new(idle.len())),
            idle: Mutex::new(idle),
            committed: Notify::new(),
            published: Notify::new(),
        })
    }

    async fn lend(&self) -> Result<Lent<'_>, BaselineError> {
        let closed = |_| BaselineError::Unexpected("the connections are closed".to_owned());
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(closed)?;
        let connection = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Ok(Lent { chain: self, connection, _permit: permit })
    }

    /// Publishes each event that is committed. Ends only with an error.
    async fn relay(&self, rabbitmq: Option<RabbitConnection>, batch: u32) -> Result<(), BaselineError> {
        loop {
            let committed = self.committed.notified();
            let mut lent = self.lend().await?;
            let (connection, mut drained) = (lent.get()?, Drained::default());
            let published =
                publish_batch(connection, rabbitmq.as_ref(), &self.routes, batch, &mut drained).await?;
            drop(lent);
            if published == 0 {
                committed.await;
            } else {
                self.published.notify_one();
            }
        }
    }

    /// Applies `all` messages.
    async fn consume(
        &self,
        rabbitmq: Option<RabbitConnection>,
        prefetch: u16,
        all: u64,
    ) -> Result<(), BaselineError> {
        let mut left = all;
        let Some(rabbitmq) = rabbitmq else {
            while left > 0 {
                let published = self.published.notified();
                let mut lent = self.lend().await?;
                let (limit, now) = (u32::from(prefetch), SystemClock.now());
                let applied = lent.get()?.consume(INVENTORY_QUEUE, CONSUMER, limit, now).await?.len();
                drop(lent);
                if applied == 0 {
                    published.await;
                }
                left = left.saturating_sub(u64::try_from(applied).unwrap_or(0));
            }
            return Ok(());
        };
        let mut deliveries = rabbitmq.consume(INVENTORY_QUEUE, prefetch).await?;
        while left > 0 {
            let delivered = deliveries.next().await?;
            let mut lent = self.lend().await?;
            let connection = lent.get()?;
            connection.begin().await?;
            connection.apply(CONSUMER, &delivered.bodies, SystemClock.now()).await?;
            connection.commit().await?;
            drop(lent);
            deliveries.ack(&delivered).await?;
            left = left.saturating_sub(u64::try_from(delivered.bodies.len()).unwrap_or(0));
        }
        rabbitmq.close().await
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewOrder {
    product_id: i64,
}

async fn place(
    State(chain): State<Arc<Chain>>,
    headers: HeaderMap,
    Json(new): Json<NewOrder>,
) -> (StatusCode, String) {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let token = header(header::AUTHORIZATION.as_str()).trim_start_matches("Bearer ");
    let now = SystemClock.now();
    let Ok(claims) = chain.tokens.verify(token, now) else {
        return (StatusCode::UNAUTHORIZED, String::new());
    };
    let order = Order {
        // The product is unique, so it can give the order its id.
        id: new.product_id,
        tenant_id: claims.tenant.get(),
        product_id: new.product_id,
        buyer_id: claims.user,
        at: now,
    };
    let placed = async {
        let mut lent = chain.lend().await?;
        lent.get()?.place_once(&order, header(KEY_HEADER)).await
    };
    match placed.await {
        Ok(placed) => {
            chain.committed.notify_one();
            (StatusCode::CREATED, order.response(&placed))
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}
