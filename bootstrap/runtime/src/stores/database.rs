//! The database of a serving process.

use std::sync::Arc;

use handover_outbox::ports::{Clock, LeaseRepo, Store, UnitOfWork};
use handover_outbox::{Tasks, WakeupNotifier};
use handover_sql::{PendingMigration, SchemaVersion, SqlStore, SqliteOptions};
use handover_system::{FollowingClock, SystemClock};

use super::{AttachedDatabase, Parts, Schema};
use crate::failure::Failure;
use crate::lock::DatabaseLock;
use crate::settings::DatabaseChoice;

/// A database that this process serves. A file is served by one process, a server's database by any number.
pub struct Database {
    choice: DatabaseChoice,
    parts: Parts,
    store: SqlStore,
    clock: Arc<dyn Clock>,
    following: Option<Arc<FollowingClock>>,
    is_new: bool,
    _lock: Option<DatabaseLock>,
}

impl Database {
    /// Opens the database for serving. A file is locked, created if it does not exist, and migrated. On a server the schema
    /// must be current: `migrate` is a separate step, run as a user with the necessary rights.
    pub async fn open(
        choice: &DatabaseChoice,
        parts: Parts,
        wake: &WakeupNotifier,
    ) -> Result<Database, Failure> {
        let database = Database::connect(choice, parts, wake).await?;
        let ready = match choice {
            DatabaseChoice::File(_) => database.migrate_schema().await,
            DatabaseChoice::Server(_) => database.check_schema().await,
        };
        match ready {
            Ok(()) => Ok(database),
            Err(failure) => {
                database.close().await;
                Err(failure)
            }
        }
    }

    /// Migrates the tables of the toolkit and these parts, closes the database and returns its schema versions.
    pub async fn migrate(choice: &DatabaseChoice, parts: Parts) -> Result<Vec<SchemaVersion>, Failure> {
        let database = Database::connect(choice, parts, &WakeupNotifier::default()).await?;
        let done = match database.migrate_schema().await {
            Ok(()) => Schema::versions(&database.store, parts).await.map_err(Failure::schema(choice)),
            Err(failure) => Err(failure),
        };
        database.close().await;
        done
    }

    /// The migrations that [`migrate`](Database::migrate) would apply. Fails if it would refuse the database. Changes nothing:
    /// a file that does not exist is not created.
    pub async fn pending(choice: &DatabaseChoice, parts: Parts) -> Result<Vec<PendingMigration>, Failure> {
        let database = match AttachedDatabase::open(choice, parts).await {
            Ok(database) => database,
            Err(Failure::NoDatabase { .. }) => {
                return SqlStore::migrations_of_new_file(parts).map_err(Failure::database(choice));
            }
            Err(failure) => return Err(failure),
        };
        let pending = match database.schema().await {
            Ok(newer @ Schema::Newer(_)) => newer.current(choice).map(|()| Vec::new()),
            Ok(Schema::Current | Schema::Older(_)) => {
                database.store.pending_migrations(parts).await.map_err(Failure::migration(choice))
            }
            Err(failure) => Err(failure),
        };
        database.store.close().await;
        pending
    }

    async fn connect(
        choice: &DatabaseChoice,
        parts: Parts,
        wake: &WakeupNotifier,
    ) -> Result<Database, Failure> {
        let choice = choice.clone();
        Ok(match &choice {
            DatabaseChoice::File(path) => {
                let lock = DatabaseLock::take(path)?;
                let is_new = !path.exists();
                let clock: Arc<dyn Clock> = Arc::new(SystemClock);
                let options = SqliteOptions::file(path);
                let store = SqlStore::open_sqlite(&options, Arc::clone(&clock), wake.clone())
                    .await
                    .map_err(Failure::database(&choice))?;
                Database { parts, store, clock, following: None, is_new, _lock: Some(lock), choice }
            }
            DatabaseChoice::Server(server) => {
                let following = Arc::new(FollowingClock::default());
                let clock: Arc<dyn Clock> = Arc::<FollowingClock>::clone(&following);
                let store = SqlStore::open_server(server, Arc::clone(&clock), wake.clone());
                store.probe().await.map_err(Failure::database(&choice))?;
                let unsuitable = store.unsuitable_settings().await.map_err(Failure::database(&choice))?;
                if let Some(setting) = unsuitable.into_iter().next() {
                    return Err(Failure::Setting { database: choice, setting });
                }
                Database {
                    parts,
                    store,
                    clock,
                    following: Some(following),
                    is_new: false,
                    _lock: None,
                    choice,
                }
            }
        })
    }

    /// Migrates the schema. A schema that a newer version of the program created is refused, and nothing is written.
    async fn migrate_schema(&self) -> Result<(), Failure> {
        match Schema::of(&self.store, self.parts, &self.choice).await? {
            newer @ Schema::Newer(_) => newer.current(&self.choice),
            Schema::Current | Schema::Older(_) => {
                self.store.migrate_with(self.parts).await.map_err(Failure::migration(&self.choice))
            }
        }
    }

    async fn check_schema(&self) -> Result<(), Failure> {
        Schema::of(&self.store, self.parts, &self.choice).await?.current(&self.choice)?;
        match &self.following {
            Some(clock) => {
                clock.sample(self.store.database_now()).await.map_err(Failure::database(&self.choice))
            }
            None => Ok(()),
        }
    }

    /// Ends every lease in a database file, because the lock of the file proves that the owners have ended. Does
    /// nothing on a server, where other processes may still run.
    pub async fn end_stale_leases(&self) -> Result<(), Failure> {
        if self.choice.file().is_none() {
            return Ok(());
        }
        let ended = async {
            let mut unit = self.store.begin().await?;
            LeaseRepo::release_all_leases(unit.outbox()).await?;
            unit.commit().await
        };
        ended.await.map_err(Failure::database(&self.choice))
    }

    /// Spawns tasks that listen for wake-up notifications of other processes and follow the server's clock.
    pub fn spawn_background_tasks(&self, tasks: &Tasks) {
        let Some(clock) = self.following.clone() else { return };
        let store = self.store.clone();
        tasks.spawn_until_stop(async move { store.watch().await });
        let store = self.store.clone();
        tasks.spawn_until_stop(async move { clock.keep_following(|| store.database_now()).await });
    }

    /// Whether the file did not exist before.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The URL of the database.
    pub fn choice(&self) -> &DatabaseChoice {
        &self.choice
    }

    /// The parts of the schema besides the tables of the toolkit.
    pub fn parts(&self) -> Parts {
        self.parts
    }

    /// The store of the toolkit's tables.
    pub fn store(&self) -> &SqlStore {
        &self.store
    }

    /// The clock of the deployment: the system's for a file, the server's otherwise.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Closes the connections, then releases the lock.
    pub async fn close(self) {
        self.store.close().await;
    }
}
