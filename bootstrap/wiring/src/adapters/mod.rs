//! Which adapter stands behind which port. A new adapter is wired here and nowhere else.

mod broker;
mod database;
mod gateway;
mod limiter;
mod looked;
mod redis;
mod schema;

use std::sync::Arc;

use handover_outbox::ports::{Broker, Clock};
use handover_outbox::{Tasks, Transactor, TxPolicy};
use handover_system::OsChance;
use marketplace::ports::Gateway;
use marketplace::{App, MarketTransactor};
use marketplace_sql::SqlMarket;

use crate::Failure;
use crate::config::Config;

pub use broker::{database_broker, rabbit_beside};
pub use database::Database;
pub use gateway::allow as allow_gateway;
pub(crate) use limiter::admission;
pub use looked::{Looked, Reach};
pub(crate) use redis::Redis;
pub use schema::Schema;

/// Puts something before what is behind a port.
type Wrap<Port> = Box<dyn FnOnce(Arc<Port>) -> Arc<Port> + Send>;

/// What stands between the application and those outside whom it talks to.
pub struct Between {
    /// On the way to the broker.
    pub broker: Wrap<dyn Broker>,
    /// On the way to the payment gateway.
    pub gateway: Wrap<dyn Gateway>,
}

impl Between {
    /// Nothing.
    pub fn nothing() -> Between {
        Between { broker: Box::new(|broker| broker), gateway: Box::new(|gateway| gateway) }
    }
}

/// The application on these adapters. Who does not ask the gateway needs no secret for it.
pub async fn application(
    config: &Config,
    database: &Database,
    between: Between,
    asks_the_gateway: bool,
) -> Result<App, Failure> {
    let tx = transactor(database.store(), database.clock())?;
    let broker = (between.broker)(broker::serving(&config.broker, database).await?);
    let app = App::new(tx, broker, config.rules.clone()).with_requests(config.requests.clone());
    if !asks_the_gateway {
        return Ok(app);
    }
    let gateway = (between.gateway)(gateway::of(&app, config)?);
    Ok(app.with_gateway(gateway))
}

fn transactor(store: &SqlMarket, clock: &Arc<dyn Clock>) -> Result<MarketTransactor, Failure> {
    Ok(Transactor {
        store: Arc::new(store.clone()),
        tasks: Tasks::default(),
        clock: Arc::clone(clock),
        chance: Arc::new(OsChance::seeded()?),
        policy: TxPolicy::default(),
    })
}
