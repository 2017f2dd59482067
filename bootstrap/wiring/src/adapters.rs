//! Chooses the adapter for each port of the marketplace. New adapters are wired here and nowhere else.

mod gateway;
mod limiter;
mod redis;

use std::sync::Arc;

use handover_outbox::ports::Broker;
use handover_runtime::stores::{AttachedDatabase, Database, Parts, transactor};
use handover_runtime::{Failure, brokers};
use marketplace::App;
use marketplace::ports::{Gateway, MarketTransactor};
use marketplace_gateway::Signer;
use marketplace_sql::{MIGRATIONS, SqlMarket};

use crate::settings::Config;

pub use gateway::check as check_gateway;
pub(crate) use limiter::admission;
pub(crate) use redis::Redis;

/// The parts of the schema besides the tables of the toolkit.
pub const PARTS: Parts = &[&MIGRATIONS];

/// Wraps the adapter of a port.
type Wrap<Port> = Box<dyn FnOnce(Arc<Port>) -> Arc<Port> + Send>;

/// Wrappers around the adapters of external systems, for instance to inject faults.
pub struct AdapterWrappers {
    pub broker: Wrap<dyn Broker>,
    pub gateway: Wrap<dyn Gateway>,
}

impl AdapterWrappers {
    pub fn none() -> AdapterWrappers {
        AdapterWrappers { broker: Box::new(|broker| broker), gateway: Box::new(|gateway| gateway) }
    }
}

/// The application, and the signer of its requests to the gateway, if it sends any over HTTP.
pub(crate) struct Application {
    pub(crate) app: App,
    pub(crate) signer: Option<Signer>,
}

/// Builds the application. A process that sends no requests to the gateway (`uses_gateway`) needs no gateway secret.
pub(crate) async fn application(
    config: &Config,
    database: &Database,
    wrappers: AdapterWrappers,
    uses_gateway: bool,
) -> Result<Application, Failure> {
    let store = SqlMarket::on(database.store().clone());
    let tx = transactor(Arc::new(store), database.clock())?;
    let broker = (wrappers.broker)(brokers::for_service(&config.broker, database).await?);
    let app = app(tx, broker, config).with_requests(config.requests.clone());
    if !uses_gateway {
        return Ok(Application { app, signer: None });
    }
    let (gateway, signer) = gateway::of(&app, config)?;
    Ok(Application { app: app.with_gateway((wrappers.gateway)(gateway)), signer })
}

/// An application for one command. Unlike the service, it removes no expired broker sessions and acquires no leases.
pub fn application_for_command(
    config: &Config,
    database: &AttachedDatabase,
    broker: Arc<dyn Broker>,
) -> Result<App, Failure> {
    let store = SqlMarket::on(database.store.clone());
    let tx = transactor(Arc::new(store), &database.clock)?;
    Ok(app(tx, broker, config))
}

fn app(tx: MarketTransactor, broker: Arc<dyn Broker>, config: &Config) -> App {
    let app = App::new(tx, broker, config.rules.clone())
        .with_on_failed(config.on_failed)
        .with_alerts(config.alerts.clone())
        .with_auto_completion(config.settings.auto_completion.after)
        .with_webhook_retention(config.webhook.keep);
    match handover_runtime::archive::storage(&config.archive) {
        Some(storage) => app.with_archive(storage, config.archive.policy.clone()),
        None => app,
    }
}
