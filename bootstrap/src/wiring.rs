//! Which adapter stands behind which port. A new adapter is wired here and nowhere else.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use handover_application::ports::{Broker, LeaseRepo, Store};
use handover_application::{App, Tasks, Transactor, TxPolicy, Wake};
use handover_memory::MemoryBroker;
use handover_sql::{DatabaseBroker, SqlStore, SqliteOptions};
use handover_system::{OsChance, SystemClock};

use crate::config::{BrokerChoice, Config};
use crate::{DatabaseLock, Failure};

/// An SQLite database that is this process's alone.
pub(crate) struct Database {
    path: PathBuf,
    store: SqlStore,
    _lock: DatabaseLock,
}

impl Database {
    /// Takes the lock, opens the file and brings its schema up to date.
    pub(crate) async fn open(path: &Path, wake: &Wake) -> Result<Database, Failure> {
        let lock = DatabaseLock::take(path)?;
        let store = SqlStore::open_sqlite(&SqliteOptions::file(path), Arc::new(SystemClock), wake.clone())
            .await
            .map_err(Failure::database(path))?;
        let database = Database { path: path.to_owned(), store, _lock: lock };
        match database.bring_up_to_date().await {
            Ok(()) => Ok(database),
            Err(failure) => {
                database.close().await;
                Err(failure)
            }
        }
    }

    /// Before anything is written: what a newer program made is left as it is.
    async fn bring_up_to_date(&self) -> Result<(), Failure> {
        let version = self.store.schema_version().await.map_err(Failure::database(&self.path))?;
        match Schema::of(version) {
            Schema::Newer { found, needed } => {
                Err(Failure::SchemaNewer { database: self.path.clone(), found, needed })
            }
            Schema::Current | Schema::Older { .. } => {
                let database = || self.path.clone();
                self.store.migrate().await.map_err(|cause| match cause.is_outage() {
                    true => Failure::Database { database: database(), cause },
                    false => Failure::Migration { database: database(), cause },
                })
            }
        }
    }

    /// Ends every lease: under the lock, whoever had one is gone.
    pub(crate) async fn take_over(&self) -> Result<(), Failure> {
        let ended = async {
            let mut unit = self.store.begin().await?;
            LeaseRepo::end_all_leases(unit.as_mut()).await?;
            unit.commit().await
        };
        ended.await.map_err(Failure::database(&self.path))
    }

    /// The store.
    pub(crate) fn store(&self) -> &SqlStore {
        &self.store
    }

    /// Closes it, then gives the lock back.
    pub(crate) async fn close(self) {
        self.store.close().await;
    }
}

/// How the schema of a database stands to this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Schema {
    /// The same.
    Current,
    /// Made by an older program; 0 is none at all.
    Older { found: i64, needed: i64 },
    /// Made by a newer one.
    Newer { found: i64, needed: i64 },
}

impl Schema {
    /// From the version that is there and the one that this program needs.
    pub(crate) fn of((found, needed): (Option<i64>, i64)) -> Schema {
        let found = found.unwrap_or(0);
        match found.cmp(&needed) {
            Ordering::Equal => Schema::Current,
            Ordering::Less => Schema::Older { found, needed },
            Ordering::Greater => Schema::Newer { found, needed },
        }
    }
}

/// A database beside whoever serves it: no lock, nothing made, nothing migrated.
pub(crate) struct Looked {
    pub(crate) path: PathBuf,
    pub(crate) store: SqlStore,
}

impl Looked {
    /// Opens the file, whatever its schema.
    pub(crate) async fn open(path: &Path) -> Result<Looked, Failure> {
        // An empty file is none either, and opening it would make one of it.
        if std::fs::metadata(path).is_ok_and(|file| file.len() == 0) || !path.exists() {
            return Err(Failure::NoDatabase { database: path.to_owned() });
        }
        let store = SqlStore::open_sqlite(&SqliteOptions::file(path), Arc::new(SystemClock), Wake::default())
            .await
            .map_err(Failure::database(path))?;
        Ok(Looked { path: path.to_owned(), store })
    }

    /// How its schema stands to this program.
    pub(crate) async fn schema(&self) -> Result<Schema, Failure> {
        Ok(Schema::of(self.store.schema_version().await.map_err(Failure::database(&self.path))?))
    }

    /// Opens the file if this program can read what is in it.
    pub(crate) async fn readable(path: &Path) -> Result<Looked, Failure> {
        let looked = Looked::open(path).await?;
        let database = || path.to_owned();
        match looked.schema().await? {
            Schema::Current => Ok(looked),
            Schema::Older { found, needed } => {
                Err(Failure::SchemaOlder { database: database(), found, needed })
            }
            Schema::Newer { found, needed } => {
                Err(Failure::SchemaNewer { database: database(), found, needed })
            }
        }
    }

    /// The broker of this configuration, as far as it can be seen from outside the process that serves.
    pub(crate) fn broker(&self, choice: BrokerChoice) -> Result<Arc<dyn Broker>, Failure> {
        match choice {
            BrokerChoice::Database => Ok(Arc::new(DatabaseBroker::new(&self.store))),
            BrokerChoice::Memory => Err(Failure::BrokerUnseen),
        }
    }

    /// An application beside the one that serves: it ends no sessions and takes no leases.
    pub(crate) fn application(&self, config: &Config, reach: Reach) -> Result<App, Failure> {
        let broker = match (self.broker(config.broker), reach) {
            (Ok(broker), _) => broker,
            (Err(unseen), Reach::Broker) => return Err(unseen),
            // Nothing will be asked of it.
            (Err(_), Reach::Store) => Arc::new(MemoryBroker::new(Arc::new(SystemClock))),
        };
        Ok(App::new(transactor(&self.store)?, broker, config.rules.clone()))
    }
}

/// How far an action reaches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// The database alone.
    Store,
    /// The broker too.
    Broker,
}

fn transactor(store: &SqlStore) -> Result<Transactor, Failure> {
    Ok(Transactor {
        store: Arc::new(store.clone()),
        tasks: Tasks::default(),
        clock: Arc::new(SystemClock),
        chance: Arc::new(OsChance::seeded()?),
        policy: TxPolicy::default(),
    })
}

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
    let tx = transactor(&database.store)?;
    let broker: Arc<dyn Broker> = match config.broker {
        BrokerChoice::Database => {
            let broker = DatabaseBroker::new(&database.store);
            broker.end_all_sessions().await?;
            Arc::new(broker)
        }
        BrokerChoice::Memory => Arc::new(MemoryBroker::new(Arc::clone(&tx.clock))),
    };
    Ok(App::new(tx, carriage(broker), config.rules.clone()))
}
