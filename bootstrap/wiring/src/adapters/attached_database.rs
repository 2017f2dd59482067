//! A database that another process may be serving.

use std::sync::Arc;

use handover_memory::MemoryBroker;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Broker, Clock};
use handover_sql::{SqlStore, SqliteOptions};
use handover_system::{FollowingClock, SystemClock};
use marketplace::App;
use marketplace_sql::SqlMarket;

use super::database::sample_time;
use super::{Schema, broker, transactor};
use crate::Failure;
use crate::config::{Config, DatabaseChoice};

/// A database that another process may be serving: opened without the lock; never created or migrated.
pub struct AttachedDatabase {
    pub choice: DatabaseChoice,
    pub store: SqlMarket,
    clock: Arc<dyn Clock>,
}

impl AttachedDatabase {
    /// Opens the database without checking its schema.
    pub async fn open(choice: &DatabaseChoice) -> Result<AttachedDatabase, Failure> {
        let (clock, store): (Arc<dyn Clock>, SqlStore) = match choice {
            DatabaseChoice::File(path) => {
                // SQLite would turn an empty file into a database, so an empty file counts as missing.
                if std::fs::metadata(path).is_ok_and(|file| file.len() == 0) || !path.exists() {
                    return Err(Failure::NoDatabase { database: path.clone() });
                }
                let store = SqlStore::open_sqlite(
                    &SqliteOptions::file(path),
                    Arc::new(SystemClock),
                    WakeupNotifier::default(),
                )
                .await
                .map_err(Failure::database(choice))?;
                (Arc::new(SystemClock), store)
            }
            DatabaseChoice::Server(server) => {
                let clock = Arc::new(FollowingClock::default());
                let store = SqlStore::open_server(
                    server,
                    Arc::<FollowingClock>::clone(&clock),
                    WakeupNotifier::default(),
                );
                store.probe().await.map_err(Failure::database(choice))?;
                sample_time(&store, &clock).await.map_err(Failure::database(choice))?;
                (clock, store)
            }
        };
        Ok(AttachedDatabase { choice: choice.clone(), store: SqlMarket::on(store), clock })
    }

    /// Compares the schema version with the one that this program needs.
    pub async fn schema(&self) -> Result<Schema, Failure> {
        Schema::of(&self.store, &self.choice).await
    }

    /// Opens the database if its schema is current.
    pub async fn readable(choice: &DatabaseChoice) -> Result<AttachedDatabase, Failure> {
        let database = AttachedDatabase::open(choice).await?;
        database.schema().await?.current(choice)?;
        Ok(database)
    }

    /// An application for one command. Unlike the service, it removes no expired broker sessions and acquires no leases.
    pub fn application(&self, config: &Config, reach: Reach) -> Result<App, Failure> {
        let clock = &self.clock;
        let broker: Arc<dyn Broker> = match reach {
            Reach::Broker => broker::for_command(config, &self.store)?,
            // A placeholder: a command with `Reach::Store` never uses the broker.
            Reach::Store => Arc::new(MemoryBroker::new(Arc::clone(clock))),
        };
        Ok(App::new(transactor(&self.store, clock)?, broker, config.rules.clone()))
    }
}

/// Systems that a command accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The command accesses only the database.
    Store,
    /// The command accesses the database and the broker.
    Broker,
}
