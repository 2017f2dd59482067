//! Which adapter stands behind which port. A new adapter is wired here and nowhere else.

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
        store.migrate().await.map_err(Failure::database(path))?;
        Ok(Database { path: path.to_owned(), store, _lock: lock })
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

/// The application on these adapters.
pub(crate) async fn application(config: &Config, database: &Database) -> Result<App, Failure> {
    let clock = Arc::new(SystemClock);
    let tx = Transactor {
        store: Arc::new(database.store.clone()),
        tasks: Tasks::default(),
        clock: clock.clone(),
        chance: Arc::new(OsChance::seeded()?),
        policy: TxPolicy::default(),
    };
    let broker: Arc<dyn Broker> = match config.broker {
        BrokerChoice::Database => {
            let broker = DatabaseBroker::new(&database.store);
            broker.end_all_sessions().await?;
            Arc::new(broker)
        }
        BrokerChoice::Memory => Arc::new(MemoryBroker::new(clock)),
    };
    Ok(App::new(tx, broker, config.rules.clone()))
}
