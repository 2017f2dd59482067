//! Which adapter stands behind which port. A new adapter is wired here and nowhere else.

mod broker;
mod database;
mod gateway;
mod limiter;
mod looked;
mod redis;
mod schema;

use std::sync::Arc;

use handover_application::ports::{Broker, Clock};
use handover_application::{App, Tasks, Transactor, TxPolicy};
use handover_sql::SqlStore;
use handover_system::OsChance;

use crate::Failure;
use crate::config::Config;

pub(crate) use broker::{database_broker, rabbit_beside};
pub(crate) use database::Database;
pub(crate) use gateway::{allow as allow_gateway, paid_back_by};
pub(crate) use limiter::admission;
pub(crate) use looked::{Looked, Reach};
pub(crate) use redis::Redis;
pub(crate) use schema::Schema;

/// What stands between the application and its broker; [`direct`] is nothing.
pub(crate) type Carriage = Box<dyn FnOnce(Arc<dyn Broker>) -> Arc<dyn Broker> + Send>;

/// Nothing between the application and its broker.
pub(crate) fn direct() -> Carriage {
    Box::new(|broker| broker)
}

/// The application on these adapters.
pub(crate) async fn application(
    config: &Config,
    database: &Database,
    carriage: Carriage,
) -> Result<App, Failure> {
    let tx = transactor(database.store(), database.clock())?;
    let broker = broker::serving(&config.broker, database).await?;
    Ok(App::new(tx, carriage(broker), config.rules.clone()).with_requests(config.requests.clone()))
}

fn transactor(store: &SqlStore, clock: &Arc<dyn Clock>) -> Result<Transactor, Failure> {
    Ok(Transactor {
        store: Arc::new(store.clone()),
        tasks: Tasks::default(),
        clock: Arc::clone(clock),
        chance: Arc::new(OsChance::seeded()?),
        policy: TxPolicy::default(),
    })
}
