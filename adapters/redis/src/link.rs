//! The connection to Redis. Requests never wait for a connection attempt.
//!
//! All requests share one connection. The first request that fails or times out disables it for all; a background task
//! reconnects, and enables the new connection after it has responded as fast as a request requires.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use handover_outbox::Tasks;
use handover_outbox::ports::Clock;
use marketplace::{IDEMPOTENCY_REDIS_UNAVAILABLE, LIMIT_REDIS_UNAVAILABLE};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::call::{Deadline, RedisUnavailable};
use crate::scripts::{buckets, keys};
use crate::settings::RedisSettings;

/// Pause before the second connection attempt; doubled with each further attempt.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// After a connection that lasted longer than this, the pause is reset to [`FIRST_PAUSE`].
const STABLE_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedisUse {
    /// Token buckets ([`RedisLimiter`](crate::RedisLimiter)).
    Limits,
    /// Idempotency keys ([`RedisKeys`](crate::RedisKeys)).
    Keys,
}

impl RedisUse {
    /// The gauge that is 1 while Redis is unavailable.
    const fn gauge(self) -> &'static str {
        match self {
            RedisUse::Limits => LIMIT_REDIS_UNAVAILABLE,
            RedisUse::Keys => IDEMPOTENCY_REDIS_UNAVAILABLE,
        }
    }

    /// Describes how requests are processed while Redis is unavailable.
    pub const fn without(self) -> &'static str {
        match self {
            RedisUse::Limits => "each process applies its own rate limits",
            RedisUse::Keys => {
                "redrive, replay, discard, release and repair requests with an idempotency key are rejected"
            }
        }
    }

    /// Describes how requests are processed while Redis is available.
    const fn with(self) -> &'static str {
        match self {
            RedisUse::Limits => "all processes share their rate limits",
            RedisUse::Keys => "idempotency keys of operators are stored in Redis",
        }
    }

    async fn check(
        self,
        connection: &mut MultiplexedConnection,
        timeout: Duration,
    ) -> Result<(), RedisUnavailable> {
        match self {
            RedisUse::Limits => buckets::check(connection.clone(), timeout).await,
            RedisUse::Keys => keys::check(connection, timeout).await,
        }
    }
}

/// A connection with a sequence number, which distinguishes it from earlier ones.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) handle: MultiplexedConnection,
    number: u64,
}

/// The connection that all requests share, for rate limits and for idempotency keys.
pub struct RedisConnection {
    settings: RedisSettings,
    /// Clock that measures the timeout of requests.
    clock: Arc<dyn Clock>,
    uses: Vec<RedisUse>,
    connection: RwLock<Option<Connection>>,
    connections: AtomicU64,
    lost: Notify,
}

impl RedisConnection {
    /// Starts a background task that connects, checks that the server executes the scripts of `uses` in time, and
    /// reconnects after a loss, until the process stops.
    pub fn keep(
        settings: RedisSettings,
        uses: Vec<RedisUse>,
        clock: Arc<dyn Clock>,
        tasks: &Tasks,
    ) -> Arc<RedisConnection> {
        let link = Arc::new(RedisConnection {
            settings,
            clock,
            uses,
            connection: RwLock::default(),
            connections: AtomicU64::default(),
            lost: Notify::new(),
        });
        let background = Arc::clone(&link);
        let stopping = tasks.stopping().clone();
        drop(tasks.spawn(async move { background.reconnect_loop(&stopping).await }));
        link
    }

    pub fn is_available(&self) -> bool {
        self.connection().is_some()
    }

    /// The deadline of a request that starts now (`redis.timeout`).
    pub(crate) fn deadline(&self) -> Deadline<'_> {
        Deadline::by_clock(self.clock.as_ref(), self.settings.timeout)
    }

    pub(crate) fn connection(&self) -> Option<Connection> {
        self.connection.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Disables a connection after a failure, and starts reconnecting.
    pub(crate) fn disable(&self, connection: &Connection, why: &RedisUnavailable) {
        let mut current = self.connection.write().unwrap_or_else(PoisonError::into_inner);
        // Only the first failed request of a connection logs the outage. A request of this connection that fails later
        // must not disable the next connection.
        if current.take_if(|current| current.number == connection.number).is_some() {
            self.log_unavailable(why);
            self.lost.notify_one();
        }
    }

    fn log_unavailable(&self, why: &RedisUnavailable) {
        self.set_gauges(1.0);
        let effect = self.describe(RedisUse::without);
        tracing::warn!(code = "redis.unavailable", place = %self.settings.address(), error = %why,
            "redis: unavailable; until it is available again, {effect}");
    }

    fn set_gauges(&self, unavailable: f64) {
        for each in &self.uses {
            metrics::gauge!(each.gauge()).set(unavailable);
        }
    }

    fn describe(&self, what: fn(RedisUse) -> &'static str) -> String {
        self.uses.iter().map(|each| what(*each)).collect::<Vec<_>>().join(", and ")
    }

    async fn reconnect_loop(&self, stopping: &CancellationToken) {
        let mut pause = FIRST_PAUSE;
        let mut is_logged = false;
        while !stopping.is_cancelled() {
            match connect(&self.settings, &self.uses).await {
                Ok(handle) => {
                    let since = Instant::now();
                    self.enable(handle, is_logged);
                    tokio::select! {
                        biased;
                        () = stopping.cancelled() => return,
                        () = self.lost.notified() => {}
                    }
                    is_logged = true;
                    if since.elapsed() > STABLE_AFTER {
                        pause = FIRST_PAUSE;
                    }
                }
                Err(error) if is_logged => tracing::debug!(%error, "redis: still unavailable"),
                Err(error) => {
                    self.log_unavailable(&error);
                    is_logged = true;
                }
            }
            // Ends early if the process stops; the loop condition checks that.
            let _ = timeout(pause, stopping.cancelled()).await;
            pause = (pause * 2).min(self.settings.max_reconnect_pause);
        }
    }

    fn enable(&self, handle: MultiplexedConnection, is_reconnect: bool) {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        *self.connection.write().unwrap_or_else(PoisonError::into_inner) =
            Some(Connection { handle, number });
        self.set_gauges(0.0);
        let event = if is_reconnect { "available again" } else { "connected" };
        let effect = self.describe(RedisUse::with);
        tracing::info!(code = "redis.available", place = %self.settings.address(), "redis: {event}; {effect}");
    }
}

/// Connects, and checks that the server executes the scripts of `uses` within the timeout of a request.
async fn connect(
    settings: &RedisSettings,
    uses: &[RedisUse],
) -> Result<MultiplexedConnection, RedisUnavailable> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(settings.connect_timeout))
        .set_response_timeout(Some(settings.connect_timeout));
    let connecting = settings.client.get_multiplexed_async_connection_with_config(&config);
    let mut connection = timeout(settings.connect_timeout, connecting)
        .await
        .map_err(|_| RedisUnavailable::timed_out(settings.connect_timeout))??;
    for each in uses {
        // The first call may have to load the script; the second must meet the timeout of a request.
        each.check(&mut connection, settings.connect_timeout).await?;
        each.check(&mut connection, settings.timeout).await?;
    }
    Ok(connection)
}

/// Checks that Redis is reachable and executes the scripts of `uses` within the timeout of a request.
pub async fn probe(settings: &RedisSettings, uses: &[RedisUse]) -> Result<(), RedisUnavailable> {
    connect(settings, uses).await.map(drop)
}
