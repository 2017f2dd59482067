//! The connection: there or not. Requests never wait for one to come up.
//!
//! One connection is shared by all requests. The first that gets no good answer in time takes it away for all; a task of its
//! own brings the next one, once that answers as fast as a request needs it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use handover_application::{LIMIT_AWAY, Tasks};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::limiter::tried_out;
use crate::settings::RedisSettings;

/// The first pause before another attempt to connect; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// A connection that lasted as long was a good one: the pauses begin anew.
const LASTED: Duration = Duration::from_secs(10);

/// Redis gave no good answer in time.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RedisAway(String);

impl RedisAway {
    pub(crate) fn late(within: Duration) -> RedisAway {
        RedisAway(format!("no answer within {within:?}"))
    }

    pub(crate) fn nonsense(answer: (i64, i64)) -> RedisAway {
        RedisAway(format!("it answers {answer:?}, which means nothing"))
    }
}

impl From<redis::RedisError> for RedisAway {
    fn from(error: redis::RedisError) -> RedisAway {
        RedisAway(error.to_string())
    }
}

/// A connection, and which of all there were.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) to: MultiplexedConnection,
    number: u64,
}

/// The connection that requests share.
pub(crate) struct Link {
    pub(crate) settings: RedisSettings,
    connection: RwLock<Option<Connection>>,
    made: AtomicU64,
    lost: Notify,
}

impl Link {
    /// Brings a connection, and another one whenever that is lost, until the process stops.
    pub(crate) fn keep(settings: RedisSettings, tasks: &Tasks) -> Arc<Link> {
        let link = Arc::new(Link {
            settings,
            connection: RwLock::default(),
            made: AtomicU64::default(),
            lost: Notify::new(),
        });
        let (kept, stopping) = (Arc::clone(&link), tasks.stopping().clone());
        drop(tasks.spawn(async move { kept.keeping(&stopping).await }));
        link
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
        metrics::gauge!(LIMIT_AWAY).set(1.0);
        tracing::warn!(place = %self.settings.place(), error = %why,
            "Redis is away: each process limits requests for itself until it is back");
    }

    async fn keeping(&self, stopping: &CancellationToken) {
        let (mut pause, mut told) = (FIRST_PAUSE, false);
        while !stopping.is_cancelled() {
            match connect(&self.settings).await {
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
        metrics::gauge!(LIMIT_AWAY).set(0.0);
        let said = if again { "Redis is back" } else { "Redis is there" };
        tracing::info!(place = %self.settings.place(), "{said}: processes share their rate limits");
    }
}

/// A connection that does what a request asks of it, as fast as a request needs it.
async fn connect(settings: &RedisSettings) -> Result<MultiplexedConnection, RedisAway> {
    let config = AsyncConnectionConfig::new()
        .set_connection_timeout(Some(settings.connect_timeout))
        .set_response_timeout(Some(settings.connect_timeout));
    let connecting = settings.client.get_multiplexed_async_connection_with_config(&config);
    let connection = timeout(settings.connect_timeout, connecting)
        .await
        .map_err(|_| RedisAway::late(settings.connect_timeout))??;
    // The first call may have to teach the script; the second is as any.
    tried_out(connection.clone(), settings.connect_timeout).await?;
    tried_out(connection.clone(), settings.timeout).await?;
    Ok(connection)
}

/// Whether Redis is there and does what is asked of it.
pub async fn probe(settings: &RedisSettings) -> Result<(), RedisAway> {
    connect(settings).await.map(drop)
}
