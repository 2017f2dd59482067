//! A database beside whoever serves it.

use std::sync::Arc;

use handover_memory::MemoryBroker;
use handover_outbox::Wake;
use handover_outbox::ports::{Broker, Clock};
use handover_sql::{SqlStore, SqliteOptions};
use handover_system::{FollowingClock, SystemClock};
use marketplace::App;
use marketplace_sql::SqlMarket;

use super::database::ask_time;
use super::{Schema, broker, transactor};
use crate::Failure;
use crate::config::{Config, DatabaseChoice};

/// A database beside whoever serves it: no lock, nothing made, nothing migrated.
pub struct Looked {
    /// Where it is.
    pub choice: DatabaseChoice,
    /// Its store.
    pub store: SqlMarket,
    clock: Arc<dyn Clock>,
}

impl Looked {
    /// Opens it, whatever its schema.
    pub async fn open(choice: &DatabaseChoice) -> Result<Looked, Failure> {
        let (clock, store): (Arc<dyn Clock>, SqlStore) = match choice {
            DatabaseChoice::File(path) => {
                // An empty file is none either, and opening it would make one of it.
                if std::fs::metadata(path).is_ok_and(|file| file.len() == 0) || !path.exists() {
                    return Err(Failure::NoDatabase { database: path.clone() });
                }
                let store =
                    SqlStore::open_sqlite(&SqliteOptions::file(path), Arc::new(SystemClock), Wake::default())
                        .await
                        .map_err(Failure::database(choice))?;
                (Arc::new(SystemClock), store)
            }
            DatabaseChoice::Server(server) => {
                let clock = Arc::new(FollowingClock::default());
                let store =
                    SqlStore::open_server(server, Arc::<FollowingClock>::clone(&clock), Wake::default());
                store.probe().await.map_err(Failure::database(choice))?;
                ask_time(&store, &clock).await.map_err(Failure::database(choice))?;
                (clock, store)
            }
        };
        Ok(Looked { choice: choice.clone(), store: SqlMarket::on(store), clock })
    }

    /// How its schema stands to this program.
    pub async fn schema(&self) -> Result<Schema, Failure> {
        Schema::of(&self.store, &self.choice).await
    }

    /// Opens it if this program can read what is in it.
    pub async fn readable(choice: &DatabaseChoice) -> Result<Looked, Failure> {
        let looked = Looked::open(choice).await?;
        looked.schema().await?.current(choice)?;
        Ok(looked)
    }

    /// An application beside the one that serves: it ends no sessions and takes no leases.
    pub fn application(&self, config: &Config, reach: Reach) -> Result<App, Failure> {
        let clock = &self.clock;
        let broker: Arc<dyn Broker> = match reach {
            Reach::Broker => broker::beside(config, &self.store)?,
            // Nothing will be asked of it.
            Reach::Store => Arc::new(MemoryBroker::new(Arc::clone(clock))),
        };
        Ok(App::new(transactor(&self.store, clock)?, broker, config.rules.clone()))
    }
}

/// How far an action reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The database alone.
    Store,
    /// The broker too.
    Broker,
}
