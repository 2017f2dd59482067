//! The HTTP server of one process: binding, serving, graceful stop, readiness.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use handover_events::TenantId;
use handover_http::{CachedReadiness, Limits, Problem, Readiness, Tokens, serve};
use handover_outbox::ports::{Clock, StoreError};
use handover_runtime::config::Secret;
use handover_runtime::stores::Database;
use handover_runtime::{Failure, descriptors, metrics};
use handover_system::SystemClock;
use marketplace::{App, Role};
use marketplace_domain::UserId;
use marketplace_http::{CallbackVerifier, Edge, router_with, split_routers};
use marketplace_sql::SqlMarket;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::adapters::{Redis, admission};
use crate::config::{Config, GATEWAY_SECRET, JWT_SECRET};
use crate::{MarketFailure, Secrets, jwks};

/// Maximum time for requests in flight to finish after the stop signal.
const DRAIN: Duration = Duration::from_secs(5);
/// A database that does not answer within this time counts as unavailable.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

type ServeResult = Option<std::io::Result<()>>;

/// Opens the listening socket; the error names the address.
async fn bind(listen: SocketAddr) -> Result<TcpListener, Failure> {
    TcpListener::bind(listen).await.map_err(|cause| Failure::Listen { listen, cause })
}

/// The listeners of the API.
pub(crate) struct Listeners {
    public: TcpListener,
    /// `http.ops-listen`, if set.
    operators: Option<TcpListener>,
}

impl Listeners {
    /// Binds the configured addresses.
    pub(crate) async fn bind(config: &Config) -> Result<Listeners, Failure> {
        let public = bind(config.listen).await?;
        let operators = match config.http.ops_listen {
            Some(listen) => Some(bind(listen).await?),
            None => None,
        };
        Ok(Listeners { public, operators })
    }
}

/// Claims of a token to issue.
pub struct TokenRequest<'a> {
    /// `sub`: the user's id.
    pub user: i64,
    /// The marketplace.
    pub tenant: i64,
    pub roles: &'a [Role],
    /// Time for which the token is valid, from now.
    pub ttl: Duration,
}

/// Issues a token for a user.
pub fn token(secret: &Secret, config: &Config, asked: &TokenRequest<'_>) -> Result<String, Failure> {
    let usage = |what: String| Failure::Usage { what, remedy: "see handover token --help".to_owned() };
    let user = UserId::try_from(asked.user).map_err(|error| usage(format!("--user {error}")))?;
    let tenant = TenantId::try_from(asked.tenant).map_err(|error| usage(format!("--tenant {error}")))?;
    let roles: Vec<&str> = asked.roles.iter().map(|role| role.as_str()).collect();
    own_tokens(secret)?
        .with_rules(config.auth.rules.clone())
        .issue(user.get(), tenant, &roles, asked.ttl, SystemClock.now())
        .map_err(|error| usage(error.to_string()))
}

/// Tokens signed with `auth.jwt-secret`.
fn own_tokens(secret: &Secret) -> Result<Tokens, Failure> {
    Tokens::new(secret.reveal().as_bytes()).map_err(|error| refused(JWT_SECRET, &error))
}

/// Verifies all tokens and callbacks that a configuration accepts. Clones share secrets and keys.
#[derive(Clone)]
pub(crate) struct Verifiers {
    tokens: Tokens,
    callbacks: CallbackVerifier,
}

impl Verifiers {
    fn new(config: &Config, secrets: &Secrets) -> Result<Verifiers, Failure> {
        let keys = jwks::load(config)?;
        let tokens = match (&secrets.jwt, keys) {
            (Some(secret), Some(keys)) => own_tokens(secret)?.with_keys(keys),
            (Some(secret), None) => own_tokens(secret)?,
            (None, keys) => Tokens::from_keys(keys.unwrap_or_default()),
        };
        let callbacks = CallbackVerifier::new(secrets.gateway.reveal())
            .map_err(|error| refused(GATEWAY_SECRET, &error))?;
        let verifiers = Verifiers { tokens: tokens.with_rules(config.auth.rules.clone()), callbacks };
        verifiers.replace_secrets(secrets)?;
        Ok(verifiers)
    }

    /// Replaces secrets and keys by those of this configuration, or changes nothing.
    pub(crate) fn replace(&self, config: &Config, secrets: &Secrets) -> Result<(), Failure> {
        let keys = jwks::load(config)?;
        self.replace_secrets(secrets)?;
        if let Some(keys) = keys {
            self.tokens.replace_keys(keys);
        }
        Ok(())
    }

    fn replace_secrets(&self, secrets: &Secrets) -> Result<(), Failure> {
        let jwt = secrets.jwt.as_ref().map(|secret| secret.reveal().as_bytes());
        let previous_jwt = secrets.previous_jwt.as_ref().map(|secret| secret.reveal().as_bytes());
        self.callbacks
            .replace(secrets.gateway.reveal(), secrets.previous_gateway.as_ref().map(Secret::reveal))
            .map_err(|error| refused(GATEWAY_SECRET, &error))?;
        self.tokens.replace_secrets(jwt, previous_jwt).map_err(|error| refused(JWT_SECRET, &error))
    }
}

fn refused(key: &'static str, why: &impl ToString) -> Failure {
    MarketFailure::SecretRefused { key, reason: why.to_string() }.into()
}

/// The running HTTP server.
pub(crate) struct HttpServer {
    address: SocketAddr,
    operators: Option<SocketAddr>,
    stopping: Arc<AtomicBool>,
    stop: CancellationToken,
    served: JoinHandle<ServeResult>,
    verifiers: Verifiers,
}

impl HttpServer {
    /// Starts serving the API on the listeners.
    pub(crate) fn start(
        listeners: Listeners,
        config: &Config,
        app: &App,
        database: &Database,
        secrets: &Secrets,
    ) -> Result<HttpServer, Failure> {
        let address = |listener: &TcpListener| {
            let unknown = |cause| Failure::System { what: "cannot read the address of the listener", cause };
            listener.local_addr().map_err(unknown)
        };
        let operators = listeners.operators.as_ref().map(address).transpose()?;
        let address = address(&listeners.public)?;
        let Listeners { public: listener, operators: for_operators } = listeners;
        let stopping = Arc::new(AtomicBool::new(false));
        let limits = limits(config);
        let verifiers = Verifiers::new(config, secrets)?;
        if let Some(path) = &config.auth.keys {
            jwks::watch(app, verifiers.tokens.clone(), path.clone());
        }
        let redis = Redis::keep(config.redis.as_ref(), &app.tx);
        let edge = Edge {
            app: redis.with_idempotency_keys(app.clone()),
            tokens: verifiers.tokens.clone(),
            callbacks: verifiers.callbacks.clone(),
            requires_reference: config.gateway.requires_reference,
            readiness: Arc::new(ServiceReadiness {
                stopping: Arc::clone(&stopping),
                database: CachedReadiness::new(DatabaseReadiness(SqlMarket::on(database.store().clone()))),
            }),
            admission: admission(&config.limits, &redis),
            limits: limits.clone(),
        };
        let metrics = metrics::render();
        let (public, of_operators) = match for_operators {
            Some(listener) => {
                let (public, operators) = split_routers(edge, metrics);
                (public, Some((listener, operators)))
            }
            None => (router_with(edge, metrics), None),
        };
        let stop = CancellationToken::new();
        let tasks = app.tx.tasks.clone();
        let stop_signal = stop.clone();
        let serving = async move {
            let public = serve(listener, public, &tasks, stop_signal.clone(), &limits);
            let operators = async {
                match of_operators {
                    Some((listener, router)) => {
                        serve(listener, router, &tasks, stop_signal.clone(), &limits).await
                    }
                    None => Ok(()),
                }
            };
            tokio::try_join!(public, operators).map(|_| ())
        };
        let served = app.tx.tasks.spawn(serving);
        Ok(HttpServer { address, operators, stopping, stop, served, verifiers })
    }

    /// Address of the API.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address of the operators' listener, if there is one.
    pub(crate) fn operators(&self) -> Option<SocketAddr> {
        self.operators
    }

    /// Verifies tokens and callbacks.
    pub(crate) fn verifiers(&self) -> &Verifiers {
        &self.verifiers
    }

    /// Reports not ready and stops accepting connections.
    pub(crate) fn close(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.stop.cancel();
    }

    /// Waits for the requests in flight.
    pub(crate) async fn ended(self) {
        if let Err(error) = self.served.await {
            tracing::error!(%error, "http: server task failed while stopping");
        }
    }

    /// Waits until the server ends without having been stopped; returns the reason.
    pub(crate) async fn failed(&mut self) -> Failure {
        let message = match (&mut self.served).await {
            Ok(Some(Err(error))) => error.to_string(),
            Ok(Some(Ok(())) | None) => "it ended unexpectedly".to_owned(),
            Err(error) => error.to_string(),
        };
        Failure::Http { message }
    }
}

fn limits(config: &Config) -> Limits {
    let standard = Limits::default();
    let listeners = 1 + u32::from(config.http.ops_listen.is_some());
    Limits {
        drain: DRAIN,
        connections: descriptors::connection_limit(standard.connections, listeners),
        idle: config.http.idle_timeout,
        concurrent_requests: config.http.concurrent_requests,
        cors_origins: config.http.cors_origins.clone(),
        ..standard
    }
}

/// Ready while the process is not stopping and the database is ready.
struct ServiceReadiness {
    stopping: Arc<AtomicBool>,
    database: CachedReadiness<DatabaseReadiness>,
}

#[async_trait]
impl Readiness for ServiceReadiness {
    async fn problems(&self) -> Vec<Problem> {
        if self.stopping.load(Ordering::SeqCst) {
            return problem("process", "stopping");
        }
        self.database.problems().await
    }
}

/// Ready while the database answers, its schema is current and writes succeed.
struct DatabaseReadiness(SqlMarket);

#[async_trait]
impl Readiness for DatabaseReadiness {
    async fn problems(&self) -> Vec<Problem> {
        let ready = async {
            let is_ready = self.0.is_ready().await?;
            Ok::<_, StoreError>((is_ready, self.0.storage_problem().await))
        };
        match tokio::time::timeout(PROBE_TIMEOUT, ready).await {
            Ok(Ok((_, Some(problem)))) => vec![Problem { part: "database".to_owned(), what: problem }],
            Ok(Ok((true, None))) => Vec::new(),
            Ok(Ok((false, None))) => {
                problem("database", "schema is older than this program; run `handover migrate`")
            }
            Ok(Err(_)) => problem("database", "unreachable"),
            Err(_) => problem("database", "no answer within 1 s"),
        }
    }
}

fn problem(part: &str, what: &str) -> Vec<Problem> {
    vec![Problem { part: part.to_owned(), what: what.to_owned() }]
}
