//! The connection: there or not. Requests never wait for one to come up.
//!
//! One connection is shared by all requests. The first that gets no good answer in time takes it away for all; a task of its
//! own brings the next one, once that answers as fast as a request needs it.

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use handover_outbox::Tasks;
use handover_outbox::ports::Clock;
use marketplace::{KEYS_AWAY, LIMIT_AWAY};
use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, RedisResult};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::settings::RedisSettings;
use crate::{keys, limiter};

/// The first pause before another attempt to connect; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// A connection that lasted as long was a good one: the pauses begin anew.
const LASTED: Duration = Duration::from_secs(10);

/// What Redis is used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// Token buckets ([`RedisLimiter`](crate::RedisLimiter)).
    Limits,
    /// Idempotency keys ([`RedisKeys`](crate::RedisKeys)).
    Keys,
}

impl Use {
    /// The metric that is 1 while it is away.
    const fn gauge(self) -> &'static str {
        match self {
            Use::Limits => LIMIT_AWAY,
            Use::Keys => KEYS_AWAY,
        }
    }

    /// What is the case while it is away.
    pub const fn without(self) -> &'static str {
        match self {
            Use::Limits => "each process limits requests for itself",
            Use::Keys => "redrive, replay, discard, release and repair are refused under an idempotency key",
        }
    }

    const fn there(self) -> &'static str {
        match self {
            Use::Limits => "processes share their rate limits",
            Use::Keys => "idempotency keys of operators are kept there",
        }
    }

    async fn tried_out(
        self,
        connection: &mut MultiplexedConnection,
        within: Duration,
    ) -> Result<(), RedisAway> {
        match self {
            Use::Limits => limiter::tried_out(connection.clone(), within).await,
            Use::Keys => keys::tried_out(connection, within).await,
        }
    }
}

/// Redis gave no good answer in time.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RedisAway(String);

impl RedisAway {
    pub(crate) fn late(within: Duration) -> RedisAway {
        RedisAway(format!("no answer within {within:?}"))
    }

    pub(crate) fn absent() -> RedisAway {
        RedisAway("there is no connection to Redis".to_owned())
    }

    pub(crate) fn nonsense(answer: &dyn fmt::Debug) -> RedisAway {
        RedisAway(format!("it answers {answer:?}, which means nothing"))
    }
}

impl From<redis::RedisError> for RedisAway {
    fn from(error: redis::RedisError) -> RedisAway {
        RedisAway(error.to_string())
    }
}

/// How long Redis may still take to answer; of several questions, all together.
pub(crate) struct Deadline<'a> {
    within: Duration,
    over: Pin<Box<dyn Future<Output = ()> + Send + 'a>>,
}

impl Deadline<'_> {
    /// For a connection that is tried out.
    #[allow(clippy::disallowed_methods, reason = "whether a server is fast enough is a matter of real time")]
    pub(crate) fn in_real_time(within: Duration) -> Deadline<'static> {
        Deadline { within, over: Box::pin(sleep(within)) }
    }

    /// What Redis answers, unless it is late.
    pub(crate) async fn answered<T>(
        &mut self,
        asking: impl Future<Output = RedisResult<T>>,
    ) -> Result<T, RedisAway> {
        tokio::select! {
            biased;
            answer = asking => Ok(answer?),
            () = &mut self.over => Err(RedisAway::late(self.within)),
        }
    }
}

/// A connection, and which of all there were.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) to: MultiplexedConnection,
    number: u64,
}

/// The connection that requests share, whatever they use it for.
pub struct Link {
    settings: RedisSettings,
    /// How long requests wait is measured by it.
    clock: Arc<dyn Clock>,
    uses: Vec<Use>,
    connection: RwLock<Option<Connection>>,
    made: AtomicU64,
    lost: Notify,
}

impl Link {
    /// Brings a connection that is good for these uses, and another one whenever that is lost, until the process stops.
    pub fn keep(settings: RedisSettings, uses: Vec<Use>, clock: Arc<dyn Clock>, tasks: &Tasks) -> Arc<Link> {
        let link = Arc::new(Link {
            settings,
            clock,
            uses,
            connection: RwLock::default(),
            made: AtomicU64::default(),
            lost: Notify::new(),
        });
        let (kept, stopping) = (Arc::clone(&link), tasks.stopping().clone());
        drop(tasks.spawn(async move { kept.keeping(&stopping).await }));
        link
    }

    /// Whether Redis is asked now.
    pub fn is_there(&self) -> bool {
        self.connection().is_some()
    }

    /// How long a request waits for Redis, from now on (`redis.timeout`).
    pub(crate) fn deadline(&self) -> Deadline<'_> {
        let within = self.settings.timeout;
        Deadline { within, over: self.clock.sleep(within) }
    }

    /// The connection, if there is one now.
    pub(crate) fn connection(&self) -> Option<Connection> {
        self.connection.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// This connection is no good any more.
    pub(crate) fn broken(&self, connection: &Connection, why: &RedisAway) {
        let mut current = self.connection.write().unwrap_or_else(PoisonError::into_inner);
        // Of the requests that see it break one tells; one that is late says nothing about the next connection.
        if current.take_if(|current| current.number == connection.number).is_some() {
            self.away(why);
            self.lost.notify_one();
        }
    }

    fn away(&self, why: &RedisAway) {
        self.count(1.0);
        let means = self.told(Use::without);
        tracing::warn!(place = %self.settings.place(), error = %why,
            "Redis is away: until it is back, {means}");
    }

    fn count(&self, away: f64) {
        for each in &self.uses {
            metrics::gauge!(each.gauge()).set(away);
        }
    }

    fn told(&self, what: fn(Use) -> &'static str) -> String {
        self.uses.iter().map(|each| what(*each)).collect::<Vec<_>>().join(", and ")
    }

    async fn keeping(&self, stopping: &CancellationToken) {
        let (mut pause, mut told) = (FIRST_PAUSE, false);
        while !stopping.is_cancelled() {
            match connect(&self.settings, &self.uses).await {
                Ok(to) => {
                    let since = Instant::now();
                    self.there(to, told);
                    tokio::select! {
                        biased;
                        () = stopping.cancelled() => return,
                        () = self.lost.notified() => {}
                    }
                    told = true;
                    if since.elapsed() > LASTED {
                        pause = FIRST_PAUSE;
                    }
                }
                Err(error) if told => tracing::debug!(%error, "Redis is still away"),
                Err(error) => {
                    self.away(&error);
                    told = true;
                }
            }
            // The result tells whether to stop; the loop asks itself.
            let _ = timeout(pause, stopping.cancelled()).await;
            pause = (pause * 2).min(self.settings.longest_pause);
        }
    }

    fn there(&self, to: MultiplexedConnection, again: bool) {
        let number = self.made.fetch_add(1, Ordering::Relaxed);
        *self.connection.write().unwrap_or_else(PoisonError::into_inner) = Some(Connection { to, number });
        self.count(0.0);
        let said = if again { "Redis is back" } else { "Redis is there" };
        let means = self.told(Use::there);
        tracing::info!(place = %self.settings.place(), "{said}: {means}");
    }
}

/// A connection that does what a request asks of it, as fast as a request needs it.
async fn connect(settings: &RedisSettings, uses: &[Use]) -> Result<MultiplexedConnection, RedisAway> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(settings.connect_timeout))
        .set_response_timeout(Some(settings.connect_timeout));
    let connecting = settings.client.get_multiplexed_async_connection_with_config(&config);
    let mut connection = timeout(settings.connect_timeout, connecting)
        .await
        .map_err(|_| RedisAway::late(settings.connect_timeout))??;
    for each in uses {
        // The first call may have to teach the script; the second is as any.
        each.tried_out(&mut connection, settings.connect_timeout).await?;
        each.tried_out(&mut connection, settings.timeout).await?;
    }
    Ok(connection)
}

/// Whether Redis is there and does what these uses ask of it.
pub async fn probe(settings: &RedisSettings, uses: &[Use]) -> Result<(), RedisAway> {
    connect(settings, uses).await.map(drop)
}
