//! The HTTP edge of one process: bound, served, asked to stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use handover_events::TenantId;
use handover_outbox::ports::Clock;
use handover_system::SystemClock;
use marketplace::{App, Role};
use marketplace_domain::UserId;
use marketplace_http::{
    CallbackVerifier, Edge, Limits, Problem, Readiness, SharedReadiness, Tokens, apart, router_with, serve,
};
use marketplace_sql::SqlMarket;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::adapters::{Database, Redis, admission};
use crate::config::{Config, Secret};
use crate::{Failure, Secrets, descriptors, keys};

/// How long requests in flight may take once the process is asked to stop.
const DRAIN: Duration = Duration::from_secs(5);
/// A database that does not answer within this is away.
const PROBE_WITHIN: Duration = Duration::from_secs(1);

type Served = Option<std::io::Result<()>>;

/// Listens there.
pub async fn bind(listen: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(listen).await.map_err(|cause| Failure::Listen { listen, cause })
}

/// The listeners of the API.
pub(crate) struct Listeners {
    public: TcpListener,
    /// Where operators' calls have one of their own.
    operators: Option<TcpListener>,
}

impl Listeners {
    /// Listens wherever this configuration says.
    pub(crate) async fn bind(config: &Config) -> Result<Listeners, Failure> {
        let public = bind(config.listen).await?;
        let operators = match config.http.ops_listen {
            Some(listen) => Some(bind(listen).await?),
            None => None,
        };
        Ok(Listeners { public, operators })
    }
}

/// The token that somebody asks for.
pub struct TokenAsked<'a> {
    /// Whose it is.
    pub user: i64,
    /// In which marketplace.
    pub tenant: i64,
    /// What the user may do.
    pub roles: &'a [Role],
    /// For how long it is good.
    pub ttl: Duration,
}

/// A token that signs a user in.
pub fn token(secret: &Secret, config: &Config, asked: &TokenAsked<'_>) -> Result<String, Failure> {
    let usage = |what: String| Failure::Usage { what, remedy: "see handover token --help".to_owned() };
    let user = UserId::try_from(asked.user).map_err(|error| usage(format!("--user {error}")))?;
    let tenant = TenantId::try_from(asked.tenant).map_err(|error| usage(format!("--tenant {error}")))?;
    own(secret)?
        .under(config.auth.rules.clone())
        .issue(user, tenant, asked.roles, asked.ttl, SystemClock.now())
        .map_err(|error| usage(error.to_string()))
}

/// Tokens under our own secret.
fn own(secret: &Secret) -> Result<Tokens, Failure> {
    Tokens::new(secret.reveal().as_bytes())
        .map_err(|error| Failure::SecretRefused { key: "auth.jwt-secret", why: error.to_string() })
}

/// Whatever tokens this configuration takes.
fn tokens(config: &Config, secrets: &Secrets) -> Result<Tokens, Failure> {
    let keys = keys::configured(config)?;
    let tokens = match (&secrets.jwt, keys) {
        (Some(secret), Some(keys)) => own(secret)?.and_keys(keys),
        (Some(secret), None) => own(secret)?,
        (None, keys) => Tokens::of_keys(keys.unwrap_or_default()),
    };
    Ok(tokens.under(config.auth.rules.clone()))
}

/// The API, being served.
pub(crate) struct Listening {
    address: SocketAddr,
    operators: Option<SocketAddr>,
    stopping: Arc<AtomicBool>,
    stop: CancellationToken,
    served: JoinHandle<Served>,
}

impl Listening {
    /// Serves the API of this application on the listeners.
    pub(crate) fn start(
        listeners: Listeners,
        config: &Config,
        app: &App,
        database: &Database,
        secrets: &Secrets,
    ) -> Result<Listening, Failure> {
        let address = |listener: &TcpListener| {
            let unknown = |cause| Failure::System { what: "the listener has no address", cause };
            listener.local_addr().map_err(unknown)
        };
        let operators = listeners.operators.as_ref().map(address).transpose()?;
        let address = address(&listeners.public)?;
        let Listeners { public: listener, operators: for_operators } = listeners;
        let callbacks = CallbackVerifier::new(secrets.gateway.reveal())
            .map_err(|error| Failure::SecretRefused { key: "gateway.secret", why: error.to_string() })?;
        let stopping = Arc::new(AtomicBool::new(false));
        let limits = limits(config);
        let tokens = tokens(config, secrets)?;
        if let Some(path) = &config.auth.keys {
            keys::follow(app, tokens.clone(), path.clone());
        }
        let redis = Redis::keep(config.redis.as_ref(), &app.tx);
        let edge = Edge {
            app: redis.keys_of(app.clone()),
            tokens,
            callbacks,
            readiness: Box::new(Ready {
                stopping: Arc::clone(&stopping),
                database: SharedReadiness::new(Answers(database.store().clone())),
            }),
            admission: admission(&config.limits, &redis),
            limits: limits.clone(),
        };
        let metrics = crate::metrics::render();
        let (public, of_operators) = match for_operators {
            Some(listener) => {
                let (public, operators) = apart(edge, metrics);
                (public, Some((listener, operators)))
            }
            None => (router_with(edge, metrics), None),
        };
        let (stop, tasks) = (CancellationToken::new(), app.tx.tasks.clone());
        let asked = stop.clone();
        let serving = async move {
            let public = serve(listener, public, &tasks, asked.clone(), &limits);
            let operators = async {
                match of_operators {
                    Some((listener, router)) => serve(listener, router, &tasks, asked.clone(), &limits).await,
                    None => Ok(()),
                }
            };
            tokio::try_join!(public, operators).map(|_| ())
        };
        let served = app.tx.tasks.spawn(serving);
        Ok(Listening { address, operators, stopping, stop, served })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where operators' calls have a listener of their own.
    pub(crate) fn operators(&self) -> Option<SocketAddr> {
        self.operators
    }

    /// Not ready from now on, and no new connections.
    pub(crate) fn close(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.stop.cancel();
    }

    /// Waits until the requests in flight have their answers.
    pub(crate) async fn ended(self) {
        if let Err(error) = self.served.await {
            tracing::error!(%error, "the HTTP server did not end well");
        }
    }

    /// Waits until it ends without being asked to.
    pub(crate) async fn failed(&mut self) -> Failure {
        Failure::Http(match (&mut self.served).await {
            Ok(Some(Err(error))) => error.to_string(),
            Ok(Some(Ok(())) | None) => "it ended without being asked to".to_owned(),
            Err(error) => error.to_string(),
        })
    }
}

fn limits(config: &Config) -> Limits {
    let standard = Limits::default();
    let listeners = 1 + u32::from(config.http.ops_listen.is_some());
    Limits {
        drain: DRAIN,
        connections: descriptors::room_for(standard.connections, listeners),
        idle: config.http.idle_timeout,
        concurrent_requests: config.http.concurrent_requests,
        cors_origins: config.http.cors_origins.clone(),
        ..standard
    }
}

/// Ready: not stopping, and the database answers with the right schema.
struct Ready {
    stopping: Arc<AtomicBool>,
    database: SharedReadiness<Answers>,
}

#[async_trait]
impl Readiness for Ready {
    async fn problems(&self) -> Vec<Problem> {
        if self.stopping.load(Ordering::SeqCst) {
            return problem("process", "it is stopping");
        }
        self.database.problems().await
    }
}

/// Ready: the database answers with the right schema.
struct Answers(SqlMarket);

#[async_trait]
impl Readiness for Answers {
    async fn problems(&self) -> Vec<Problem> {
        match tokio::time::timeout(PROBE_WITHIN, self.0.is_ready()).await {
            Ok(Ok(true)) => Vec::new(),
            Ok(Ok(false)) => problem("database", "its schema is older than this program"),
            Ok(Err(_)) => problem("database", "it does not answer"),
            Err(_) => problem("database", "it does not answer in time"),
        }
    }
}

fn problem(part: &str, what: &str) -> Vec<Problem> {
    vec![Problem { part: part.to_owned(), what: what.to_owned() }]
}
