//! A database that another process may be serving.

use std::sync::Arc;

use handover_outbox::WakeupNotifier;
use handover_outbox::ports::Clock;
use handover_sql::{SqlStore, SqliteOptions};
use handover_system::{FollowingClock, SystemClock};

use super::{Parts, Schema};
use crate::failure::Failure;
use crate::settings::DatabaseChoice;

/// A database that another process may be serving: opened without the lock; never created or migrated.
pub struct AttachedDatabase {
    /// The URL of the database.
    pub choice: DatabaseChoice,
    /// The store of the toolkit's tables.
    pub store: SqlStore,
    /// The clock of the deployment: the system's for a file, the server's otherwise.
    pub clock: Arc<dyn Clock>,
    parts: Parts,
}

impl AttachedDatabase {
    /// Opens the database without checking its schema.
    pub async fn open(choice: &DatabaseChoice, parts: Parts) -> Result<AttachedDatabase, Failure> {
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
                clock.sample(store.database_now()).await.map_err(Failure::database(choice))?;
                (clock, store)
            }
        };
        Ok(AttachedDatabase { choice: choice.clone(), store, clock, parts })
    }

    /// The parts of the schema besides the tables of the toolkit.
    pub fn parts(&self) -> Parts {
        self.parts
    }

    /// Compares the schema version with the one that this program needs.
    pub async fn schema(&self) -> Result<Schema, Failure> {
        Schema::of(&self.store, self.parts, &self.choice).await
    }

    /// Opens the database if its schema is current.
    pub async fn readable(choice: &DatabaseChoice, parts: Parts) -> Result<AttachedDatabase, Failure> {
        let database = AttachedDatabase::open(choice, parts).await?;
        database.schema().await?.current(choice)?;
        Ok(database)
    }
}
