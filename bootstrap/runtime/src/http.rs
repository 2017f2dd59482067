//! The HTTP server of a process: binding, serving, readiness, graceful stop.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use handover_http::{CachedReadiness, Layers, Limits, Problem, Readiness, routes, serve};
use handover_outbox::ports::StoreError;
use handover_outbox::state::StateMetrics;
use handover_outbox::{Outbox, Tasks};
use handover_sql::SqlStore;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::doctor::is_handover;
use crate::failure::Failure;
use crate::metrics;
use crate::names::in_own_name;
use crate::settings::HttpConfig;
use crate::stores::{Database, Parts};

/// A database that does not answer within this time counts as unavailable.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of connections of a process without an API: scrapers and health checks.
const MONITORING_CONNECTIONS: u32 = 64;

/// The listeners of a process.
pub struct Listeners {
    public: TcpListener,
    operators: Option<TcpListener>,
}

impl Listeners {
    /// Binds the addresses of `http.listen` and, if it is set, `http.ops-listen`; the error names the address.
    pub async fn bind(listen: SocketAddr, http: &HttpConfig) -> Result<Listeners, Failure> {
        let public = bind(listen).await?;
        let operators = match http.ops_listen {
            Some(listen) => Some(bind(listen).await?),
            None => None,
        };
        Ok(Listeners { public, operators })
    }

    /// Binds the address of `metrics.listen`, for a process without an API; the error names the address.
    pub async fn bind_metrics(listen: SocketAddr) -> Result<Listeners, Failure> {
        let bound = TcpListener::bind(listen).await;
        let public = bound.map_err(|cause| Failure::ListenMetrics { listen, cause })?;
        Ok(Listeners { public, operators: None })
    }

    /// Whether operators' routes have a listener of their own.
    pub fn has_operators(&self) -> bool {
        self.operators.is_some()
    }
}

async fn bind(listen: SocketAddr) -> Result<TcpListener, Failure> {
    match TcpListener::bind(listen).await {
        Ok(listener) => Ok(listener),
        Err(cause) if cause.kind() == ErrorKind::AddrInUse && is_handover(listen).await => {
            Err(Failure::ListenTaken { listen })
        }
        Err(cause) => Err(Failure::Listen { listen, cause }),
    }
}

/// The routes of an API.
pub struct Routers {
    /// Routes on the address of `http.listen`.
    pub public: Router,
    /// Routes on the address of `http.ops-listen`.
    pub operators: Option<Router>,
}

/// A running HTTP server.
pub struct HttpServer {
    address: SocketAddr,
    operators: Option<SocketAddr>,
    stop: CancellationToken,
    served: JoinHandle<Option<std::io::Result<()>>>,
}

impl HttpServer {
    /// Starts serving these routes until `stop` is cancelled.
    pub fn start(
        listeners: Listeners,
        routers: Routers,
        limits: Limits,
        tasks: &Tasks,
        stop: CancellationToken,
    ) -> Result<HttpServer, Failure> {
        let address = |listener: &TcpListener| {
            let unknown = |cause| Failure::System { what: "cannot read the address of the listener", cause };
            listener.local_addr().map_err(unknown)
        };
        let operators = listeners.operators.as_ref().map(address).transpose()?;
        let address = address(&listeners.public)?;
        let serving = {
            let tasks = tasks.clone();
            let stop = stop.clone();
            async move {
                let public = serve(listeners.public, routers.public, &tasks, stop.clone(), &limits);
                let operators = async {
                    match listeners.operators.zip(routers.operators) {
                        Some((listener, router)) => {
                            serve(listener, router, &tasks, stop.clone(), &limits).await
                        }
                        None => Ok(()),
                    }
                };
                tokio::try_join!(public, operators).map(|_| ())
            }
        };
        let served = tasks.spawn(serving);
        Ok(HttpServer { address, operators, stop, served })
    }

    /// Starts serving `/metrics`, `/healthz` and `/readyz` for a process without an API.
    pub fn start_monitoring(
        listeners: Listeners,
        http: &HttpConfig,
        outbox: &Outbox,
        database: &Database,
        state: Option<StateMetrics>,
    ) -> Result<HttpServer, Failure> {
        let standard = http.limits();
        let limits = Limits {
            connections: standard.connections.min(MONITORING_CONNECTIONS),
            cors_origins: Vec::new(),
            ..standard
        };
        let layers = Layers::new(Arc::clone(outbox.random()), limits.clone());
        let stop = CancellationToken::new();
        let public = routes::monitoring(&layers, readiness(database, stop.clone()), metrics::render(state));
        HttpServer::start(listeners, Routers { public, operators: None }, limits, outbox.tasks(), stop)
    }

    /// Address of the server. Contains the actual port if port 0 was configured.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Address of the operators' listener, if there is one.
    pub fn operators(&self) -> Option<SocketAddr> {
        self.operators
    }

    /// Reports not ready and stops accepting connections.
    pub fn close(&self) {
        self.stop.cancel();
    }

    /// Waits for the requests in flight.
    pub async fn ended(self) {
        if let Err(error) = self.served.await {
            tracing::error!(%error, "http: server task failed while stopping");
        }
    }

    /// Waits until the server ends without having been stopped; returns the reason.
    pub async fn failed(&mut self) -> Failure {
        let message = match (&mut self.served).await {
            Ok(Some(Err(error))) => error.to_string(),
            Ok(Some(Ok(())) | None) => "it ended unexpectedly".to_owned(),
            Err(error) => error.to_string(),
        };
        Failure::Http { message }
    }
}

/// Readiness of a process: ready until `stop` is cancelled, while the database answers, its schema is current and writes
/// succeed.
pub fn readiness(database: &Database, stop: CancellationToken) -> Arc<dyn Readiness> {
    let database = DatabaseReadiness { store: database.store().clone(), parts: database.parts() };
    Arc::new(ServiceReadiness { stop, database: CachedReadiness::new(database) })
}

struct ServiceReadiness {
    stop: CancellationToken,
    database: CachedReadiness<DatabaseReadiness>,
}

#[async_trait]
impl Readiness for ServiceReadiness {
    async fn problems(&self) -> Vec<Problem> {
        if self.stop.is_cancelled() {
            return problem("process", "stopping");
        }
        self.database.problems().await
    }
}

struct DatabaseReadiness {
    store: SqlStore,
    parts: Parts,
}

#[async_trait]
impl Readiness for DatabaseReadiness {
    async fn problems(&self) -> Vec<Problem> {
        let ready = async {
            let is_ready = self.store.is_ready(self.parts).await?;
            Ok::<_, StoreError>((is_ready, self.store.storage_problem().await))
        };
        match tokio::time::timeout(PROBE_TIMEOUT, ready).await {
            Ok(Ok((_, Some(what)))) => problem("database", what),
            Ok(Ok((true, None))) => Vec::new(),
            Ok(Ok((false, None))) => {
                problem("database", in_own_name("schema is older than this program; run `handover migrate`"))
            }
            Ok(Err(_)) => problem("database", "unreachable"),
            Err(_) => problem("database", "no answer within 1 s"),
        }
    }
}

fn problem(part: &str, what: impl Into<String>) -> Vec<Problem> {
    vec![Problem { part: part.to_owned(), what: what.into() }]
}
