//! Chooses the adapter for each port. New adapters are wired here and nowhere else.

mod attached_database;
mod backup;
mod broker;
mod database;
mod gateway;
mod limiter;
mod redis;
mod schema;

use std::sync::Arc;

use handover_outbox::ports::{Broker, Clock};
use handover_outbox::{Tasks, Transactor, TxPolicy};
use handover_system::OsRandom;
use marketplace::ports::Gateway;
use marketplace::{App, MarketTransactor};
use marketplace_gateway::Signer;
use marketplace_sql::SqlMarket;

use crate::Failure;
use crate::config::Config;

pub use attached_database::{AttachedDatabase, Reach};
pub use backup::backup;
pub(crate) use broker::report_policies;
pub use broker::{database_broker, rabbit_for_command};
pub use database::Database;
pub use gateway::check as check_gateway;
pub(crate) use limiter::admission;
pub(crate) use redis::Redis;
pub use schema::Schema;

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
    let tx = transactor(database.store(), database.clock())?;
    let broker = (wrappers.broker)(broker::for_service(&config.broker, database).await?);
    let app = App::new(tx, broker, config.rules.clone()).with_requests(config.requests.clone());
    if !uses_gateway {
        return Ok(Application { app, signer: None });
    }
    let (gateway, signer) = gateway::of(&app, config)?;
    Ok(Application { app: app.with_gateway((wrappers.gateway)(gateway)), signer })
}

fn transactor(store: &SqlMarket, clock: &Arc<dyn Clock>) -> Result<MarketTransactor, Failure> {
    Ok(Transactor {
        store: Arc::new(store.clone()),
        tasks: Tasks::default(),
        clock: Arc::clone(clock),
        random: Arc::new(OsRandom::seeded()?),
        policy: TxPolicy::default(),
    })
}
