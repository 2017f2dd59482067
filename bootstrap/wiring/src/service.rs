//! The service of one process: starts and stops its components in the order of their dependencies.
//!
//! **Invariant:** components stop before their dependencies: first HTTP requests and the loops, then the database, and last
//! the lock.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use handover_outbox::archive::{Archive, ArchiveJob};
use handover_outbox::consumers::Bound;
use handover_outbox::operations::RunningSetting;
use handover_outbox::state::{StateMetrics, StateSource};
use handover_outbox::webhooks::{WebhookDispatcher, WebhookRetention, Webhooks};
use handover_outbox::{AuditRetention, ConsumerSettings, Outbox, RelaySettings, WakeupNotifier, runtime};
use handover_runtime::archive::check_storage;
use handover_runtime::config::{Described, Description};
use handover_runtime::http::{HttpServer, Listeners};
use handover_runtime::roles::{self, Background, Role, Roles, SendsWebhooks};
use handover_runtime::stores::Database;
use handover_runtime::webhooks::webhooks;
use handover_runtime::{DatabaseLock, Failure, Stop, brokers, metrics, telemetry};
use marketplace::consumers::webhook_offer;
use marketplace::{App, MarketState, service};
use marketplace_gateway::Signer;
use tracing::{info, warn};

use crate::adapters::{AdapterWrappers, Application, PARTS, application, check_gateway};
use crate::edge::{Api, ApiParts};
use crate::secrets::Secrets;
use crate::settings::Config;

/// Name of the role that serves the API.
pub const API: &str = "api";
/// The periodic jobs: sweeps, refunds, consistency scans.
const JOBS: &str = "jobs";

/// The roles of the service (`serve --roles`).
pub static ROLES: [Role<Starting>; 5] = [
    Role { name: API, start: Starting::start_api },
    roles::relay(),
    roles::consumers(),
    Role { name: JOBS, start: Starting::start_jobs },
    roles::webhooks(),
];

/// A prepared service whose roles start.
pub struct Starting {
    config: Config,
    app: App,
    /// The application for background tasks.
    background: App,
    database: Database,
    wake: WakeupNotifier,
    listeners: Option<Listeners>,
    webhooks: Option<Webhooks>,
    state: Option<StateMetrics>,
    api: Option<Api>,
}

impl SendsWebhooks for Starting {
    fn webhook_dispatcher(&self) -> Option<WebhookDispatcher> {
        Some(self.webhooks.as_ref()?.dispatcher(self.config.webhook.settings.clone()))
    }
}

impl Background for Starting {
    fn outbox(&self) -> &Outbox {
        &self.background.outbox
    }

    fn wake(&self) -> &WakeupNotifier {
        &self.wake
    }

    fn consumers(&self) -> Vec<Bound> {
        self.background.bound()
    }

    fn relay_settings(&self) -> &RelaySettings {
        &self.config.settings.relay
    }

    fn consumer_settings(&self) -> &ConsumerSettings {
        &self.config.settings.consumer
    }
}

impl Starting {
    fn start_api(&mut self) -> Result<(), Failure> {
        if let Some(listeners) = self.listeners.take() {
            let parts = ApiParts { webhooks: self.webhooks.clone(), state: self.state.clone() };
            self.api = Some(Api::start(listeners, &self.config, &self.app, &self.database, parts)?);
        }
        Ok(())
    }

    fn start_jobs(&mut self) -> Result<(), Failure> {
        let leader = service::start_jobs(&self.background, &self.config.settings);
        let monitor = Arc::new(self.database.store().clone());
        let outbox = &self.background.outbox;
        WebhookRetention::new(outbox, self.config.webhook.keep).start(&leader);
        AuditRetention::new(outbox, self.config.audit.keep_reads).start(&leader);
        let job = ArchiveJob::new(Archive::of(outbox), monitor);
        job.start(&outbox.tx, &leader, self.config.archive.interval);
        Ok(())
    }
}

/// A running service. Dropping it without [`Service::stop`] aborts it, as a crash would.
pub struct Service {
    app: App,
    database: Database,
    api: Option<Api>,
    /// Metrics and health checks of a process without an API.
    monitoring: Option<HttpServer>,
    signer: Option<Signer>,
    settings: Vec<RunningSetting>,
}

impl Service {
    /// Opens the database and starts the roles. A database file is migrated, and leases that a crashed process left in it
    /// are ended.
    pub async fn start(config: &Config, roles: &Roles<Starting>) -> Result<Service, Failure> {
        Service::start_with_wrappers(config, roles, AdapterWrappers::none()).await
    }

    /// Like [`Service::start`], with wrappers around broker and gateway.
    pub async fn start_with_wrappers(
        config: &Config,
        roles: &Roles<Starting>,
        wrappers: AdapterWrappers,
    ) -> Result<Service, Failure> {
        let has_api = roles.has(API);
        let listens = if has_api { config.listens() } else { Vec::new() };
        Secrets::allow(config, &listens)?;
        check_gateway(config, &listens)?;
        check_storage(&config.archive)?;
        // Bind first: a port that is in use must fail the start before any file or row is changed.
        let bound = match (has_api, config.metrics.listen) {
            (true, _) => Listeners::bind(config.listen, &config.http).await.map(Some),
            (false, Some(listen)) => Listeners::bind_metrics(listen).await.map(Some),
            (false, None) => Ok(None),
        };
        let listeners = bound.map_err(|failure| DatabaseLock::in_use(&config.database).unwrap_or(failure))?;
        let wake = WakeupNotifier::default();
        let database = Database::open(&config.database, PARTS, &wake).await?;
        if database.is_new() {
            info!(code = "database.created", database = %config.database, "database: created, because it did not exist");
        }
        if config.database.file().is_some() && !roles.has(roles::RELAY) {
            warn!(code = "roles.no-relay", %roles, "no event is published: one process serves a database file, and this one \
                runs without the role relay; add relay to --roles, or use a database server");
        }
        database.end_stale_leases().await?;
        // Only jobs send requests to the gateway, so a process without jobs needs no gateway secret.
        let Application { mut app, signer } =
            application(config, &database, wrappers, roles.has(JOBS)).await?;
        app.outbox = telemetry::with_spans(app.outbox, &config.log, &config.broker);
        service::prepare(&app).await.map_err(Failure::prepare(&config.database))?;
        app.outbox.log_event_flows();
        if !config.log.events {
            runtime::start_summary(&app.outbox);
        }
        database.spawn_background_tasks(app.tx.tasks());
        brokers::report_policies(&config.broker, &app.outbox);
        let sources: Vec<Arc<dyn StateSource>> =
            vec![Arc::new(MarketState::of(&app, &config.settings.consistency))];
        let interval = config.metrics.state_interval;
        let state = metrics::start(&app.outbox, database.store(), marketplace::METRICS, sources, interval);
        let background = app.for_background_tasks();
        let webhooks = match has_api || roles.has(roles::WEBHOOKS) {
            true => webhooks(&app.outbox, webhook_offer(), &config.webhook, &config.database)?,
            false => None,
        };
        let config = config.clone();
        let mut starting =
            Starting { config, app, background, database, wake, listeners, webhooks, state, api: None };
        roles.start(&mut starting)?;
        // The role `api` has taken the listeners; without it they are for metrics and health checks.
        let Starting { config, app, database, state, listeners, api, .. } = starting;
        let monitoring = listeners
            .map(|bound| HttpServer::start_monitoring(bound, &config.http, &app.outbox, &database, state))
            .transpose()?;
        Ok(Service { app, database, api, monitoring, signer, settings: Vec::new() })
    }

    /// Address of the API, if it is served. Contains the actual port if port 0 was configured.
    pub fn address(&self) -> Option<SocketAddr> {
        self.api.as_ref().map(|api| api.server.address())
    }

    /// Address of the separate listener for operators' calls, if `http.ops-listen` is set.
    pub fn operators_address(&self) -> Option<SocketAddr> {
        self.api.as_ref().and_then(|api| api.server.operators())
    }

    /// Address of metrics and health checks, if this process has no API and `metrics.listen` is set.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.monitoring.as_ref().map(HttpServer::address)
    }

    /// The secrets in use, if the API is served.
    pub fn secrets(&self) -> Option<&Secrets> {
        self.api.as_ref().map(|api| &api.secrets)
    }

    /// Replaces the secrets in use, and the public keys, by those of this configuration. After an error the previous
    /// ones stay in use.
    pub(crate) fn replace_secrets(&mut self, config: &Config) -> Result<(), Failure> {
        // A process without the API needs no secret of tokens.
        let gateway = self.signer.as_ref().map(|_| Secrets::reread_gateway(config)).transpose()?;
        if let Some(api) = &mut self.api {
            Secrets::allow(config, &config.listens())?;
            let secrets = Secrets::reread(config)?;
            api.verifiers.replace(config, &secrets)?;
            api.secrets = secrets;
        }
        if let (Some(signer), Some(gateway)) = (&self.signer, gateway) {
            signer.replace(gateway.reveal());
        }
        Ok(())
    }

    /// Reports these settings to the database, for `config show --running`.
    pub fn report_settings(&mut self, description: &Description) {
        self.settings = description.settings.iter().map(Described::as_text).collect();
        self.app.outbox.report_settings(self.settings.clone());
    }

    /// Reports the settings with these keys again, which changed while the service runs.
    pub(crate) fn report_changed_settings(&mut self, description: &Description, keys: &[&str]) {
        for changed in description.settings.iter().filter(|setting| keys.contains(&setting.key)) {
            self.settings
                .iter_mut()
                .filter(|it| it.key == changed.key)
                .for_each(|it| *it = changed.as_text());
        }
        self.app.outbox.report_settings(self.settings.clone());
    }

    /// Whether this start created the database.
    pub fn created_database(&self) -> bool {
        self.database.is_new()
    }

    pub fn app(&self) -> &App {
        &self.app
    }

    /// Waits until the HTTP server ends unexpectedly.
    pub async fn failed(&mut self) -> Failure {
        match self.api.as_mut().map(|api| &mut api.server).or(self.monitoring.as_mut()) {
            Some(server) => server.failed().await,
            None => std::future::pending().await,
        }
    }

    /// Stops gracefully: reports not ready, accepts no new requests, finishes work in progress, releases leases, closes
    /// the database. The error names the component that did not finish in time.
    pub async fn stop(self, within: Duration) -> Result<(), Failure> {
        let stop = Stop::within(within);
        let server = self.api.map(|api| api.server).or(self.monitoring);
        server.iter().for_each(HttpServer::close);
        // Together with the requests: both get the same seconds, and one after the other would take too long.
        self.app.outbox.tasks().begin_stop();
        if let Some(server) = server {
            stop.wait_for("HTTP requests", server.ended()).await?;
        }
        stop.finish("relay, consumers or jobs", self.app.outbox.tasks(), self.database).await
    }
}

#[cfg(test)]
mod tests {
    use handover_runtime::config::{Configuration, Sources};

    use super::*;

    fn all() -> Roles<Starting> {
        Roles::all(&ROLES)
    }

    fn config(folder: &std::path::Path, broker: &str) -> Config {
        let database = format!("sqlite://{}", folder.join("shop.db").display());
        let variables = [
            ("HANDOVER_DATABASE__URL", database.as_str()),
            ("HANDOVER_HTTP__LISTEN", "127.0.0.1:0"),
            ("HANDOVER_BROKER__URL", broker),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        Config::load(&Sources { variables, ..Sources::default() }).unwrap()
    }

    const WITHIN: Duration = Duration::from_secs(30);

    #[tokio::test(flavor = "multi_thread")]
    async fn service_starts_stops_and_starts_again_in_one_process() {
        let folder = tempfile::tempdir().unwrap();
        for broker in ["database:", "memory:", "database:"] {
            let service = Service::start(&config(folder.path(), broker), &all()).await.unwrap();
            assert_ne!(service.address().unwrap().port(), 0);
            service.stop(WITHIN).await.unwrap();
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn second_service_on_same_database_is_refused_until_first_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let config = config(folder.path(), "database:");
        let first = Service::start(&config, &all()).await.unwrap();
        assert!(matches!(Service::start(&config, &all()).await, Err(Failure::InUse { .. })));
        first.app().tx.tasks().kill();
        first.app().tx.tasks().ended().await;
        drop(first);
        Service::start(&config, &all()).await.unwrap().stop(WITHIN).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn service_without_role_api_opens_no_listener() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["relay", "consumers", "jobs"];
        let chosen = names.map(|name| Role::named(&ROLES, name).unwrap());
        let roles = Roles::chosen(&ROLES, &chosen);
        let service = Service::start(&config(folder.path(), "database:"), &roles).await.unwrap();
        assert_eq!(service.address(), None);
        service.stop(WITHIN).await.unwrap();
    }
}
