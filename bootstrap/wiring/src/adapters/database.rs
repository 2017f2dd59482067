//! The database that a process serves.

use std::sync::Arc;

use handover_outbox::ports::{Clock, LeaseRepo, Store, StoreError};
use handover_outbox::{Tasks, Wake};
use handover_sql::{SchemaError, SchemaVersion, SqlStore, SqliteOptions};
use handover_system::{FollowingClock, SystemClock};
use marketplace_sql::SqlMarket;

use super::Schema;
use crate::config::DatabaseChoice;
use crate::{DatabaseLock, Failure};

/// How often the database server is asked for its time.
const ASK_TIME: std::time::Duration = std::time::Duration::from_secs(10);

/// A database that this process serves: alone if it is a file, among others on a server.
pub struct Database {
    choice: DatabaseChoice,
    store: SqlMarket,
    clock: Arc<dyn Clock>,
    following: Option<Arc<FollowingClock>>,
    _lock: Option<DatabaseLock>,
}

impl Database {
    /// Ready to serve. A file is locked, made if it is not there, and brought up to date; on a server `migrate` does
    /// that, once, as a user that may.
    pub async fn open(choice: &DatabaseChoice, wake: &Wake) -> Result<Database, Failure> {
        let database = Database::connect(choice, wake).await?;
        let ready = match choice {
            DatabaseChoice::File(_) => database.bring_up_to_date().await,
            DatabaseChoice::Server(_) => database.is_up_to_date().await,
        };
        match ready {
            Ok(()) => Ok(database),
            Err(failure) => {
                database.close().await;
                Err(failure)
            }
        }
    }

    /// Migrates the database and closes it; returns the versions of its schema.
    pub async fn migrate(choice: &DatabaseChoice) -> Result<[SchemaVersion; 2], Failure> {
        let database = Database::connect(choice, &Wake::default()).await?;
        let done = match database.bring_up_to_date().await {
            Ok(()) => database.store.schema_versions().await.map_err(Failure::schema(choice)),
            Err(failure) => Err(failure),
        };
        database.close().await;
        done
    }

    async fn connect(choice: &DatabaseChoice, wake: &Wake) -> Result<Database, Failure> {
        let choice = choice.clone();
        Ok(match &choice {
            DatabaseChoice::File(path) => {
                let lock = DatabaseLock::take(path)?;
                let clock: Arc<dyn Clock> = Arc::new(SystemClock);
                let options = SqliteOptions::file(path);
                let store = SqlStore::open_sqlite(&options, Arc::clone(&clock), wake.clone())
                    .await
                    .map_err(Failure::database(&choice))?;
                Database { store: SqlMarket::on(store), clock, following: None, _lock: Some(lock), choice }
            }
            DatabaseChoice::Server(server) => {
                let following = Arc::new(FollowingClock::default());
                let clock: Arc<dyn Clock> = Arc::<FollowingClock>::clone(&following);
                let store = SqlStore::open_server(server, Arc::clone(&clock), wake.clone());
                store.probe().await.map_err(Failure::database(&choice))?;
                let store = SqlMarket::on(store);
                Database { store, clock, following: Some(following), _lock: None, choice }
            }
        })
    }

    /// Before anything is written: what a newer program made is left as it is.
    async fn bring_up_to_date(&self) -> Result<(), Failure> {
        match Schema::of(&self.store, &self.choice).await? {
            newer @ Schema::Newer { .. } => newer.current(&self.choice),
            Schema::Current | Schema::Older { .. } => {
                let database = self.choice.clone();
                self.store.migrate().await.map_err(|error| match error {
                    SchemaError::Store(cause) if !cause.is_outage() => Failure::Migration { database, cause },
                    error @ (SchemaError::Store(_)
                    | SchemaError::Unreleased
                    | SchemaError::ForeignTable(_)) => Failure::schema(&database)(error),
                })
            }
        }
    }

    async fn is_up_to_date(&self) -> Result<(), Failure> {
        Schema::of(&self.store, &self.choice).await?.current(&self.choice)?;
        match &self.following {
            Some(clock) => ask_time(&self.store, clock).await.map_err(Failure::database(&self.choice)),
            None => Ok(()),
        }
    }

    /// Ends every lease on a file: under the lock, whoever had one is gone. On a server others may live.
    pub(crate) async fn take_over(&self) -> Result<(), Failure> {
        if self.choice.file().is_none() {
            return Ok(());
        }
        let ended = async {
            let mut unit = self.store.begin().await?;
            LeaseRepo::end_all_leases(unit.outbox()).await?;
            unit.commit().await
        };
        ended.await.map_err(Failure::database(&self.choice))
    }

    /// Keeps in touch with the other processes and with the server's clock, as tasks of this process.
    pub fn keep_in_touch(&self, tasks: &Tasks) {
        let Some(clock) = self.following.clone() else { return };
        let (store, stopping) = (self.store.clone(), tasks.stopping().clone());
        let watching = async move {
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = store.watch() => {}
            }
        };
        drop(tasks.spawn(watching));
        let (store, stopping) = (self.store.clone(), tasks.stopping().clone());
        let following = async move {
            loop {
                tokio::select! {
                    biased;
                    () = stopping.cancelled() => return,
                    () = clock.sleep(ASK_TIME) => {}
                }
                if let Err(error) = ask_time(&store, &clock).await {
                    tracing::debug!(%error, "the database tells no time");
                }
            }
        };
        drop(tasks.spawn(following));
    }

    /// Where it is.
    pub fn choice(&self) -> &DatabaseChoice {
        &self.choice
    }

    /// The store.
    pub fn store(&self) -> &SqlMarket {
        &self.store
    }

    /// The clock of the deployment.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Closes it, then gives the lock back.
    pub async fn close(self) {
        self.store.close().await;
    }
}

/// Lets the clock follow the database's.
pub(super) async fn ask_time(store: &SqlStore, clock: &FollowingClock) -> Result<(), StoreError> {
    let asked = SystemClock.now();
    let theirs = store.database_now().await?;
    if let Some(moved) = clock.follow(asked, theirs, SystemClock.now()) {
        tracing::info!(by_ms = moved.num_milliseconds(), "the clock follows the database's");
    }
    Ok(())
}
