//! The databases of sqlx: connection options, store and tables of each.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use handover_events::{Partition, PartitionSet};
use handover_outbox::ports::{Broker, Clock, DatabaseMonitor, NewEvent, StoreError};
use handover_outbox::{Tasks, Transactor, WakeupNotifier};
use handover_sql::{AppendEvents, DatabaseBroker, HasConnection as _, Session, SqlStore, TablePrefix};
use sqlx::{Connection as _, Pool};

use crate::backend::{Backend, Needs, OpenStore, Opened, Started};
use crate::builder::Builder;
use crate::clock::OutboxClock;
use crate::error::{BuildError, EnqueueError, Error};
use crate::outbox::Outbox;

/// A database of sqlx in which an outbox can be: `Postgres`, `MySql` or `Sqlite`, each with the feature of this name.
pub trait Database: sqlx::Database<Connection: AppendEvents> + sealed::Sealed {
    #[doc(hidden)]
    fn location(pool: &Pool<Self>) -> Result<Location, BuildError>;
}

mod sealed {
    pub trait Sealed {}
}

/// Connection options of the database in which the tables of the outbox are.
#[doc(hidden)]
#[derive(Clone)]
pub enum Location {
    /// A database of a server.
    #[cfg(any(feature = "mysql", feature = "postgres"))]
    Server(handover_sql::ServerOptions),
    /// A file.
    #[cfg(feature = "sqlite")]
    File(Box<handover_sql::SqliteOptions>),
}

impl Location {
    pub(crate) fn with_table_prefix(self, prefix: TablePrefix) -> Location {
        match self {
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            Location::Server(options) => Location::Server(options.table_prefix(prefix)),
            #[cfg(feature = "sqlite")]
            Location::File(options) => Location::File(Box::new(options.table_prefix(prefix))),
        }
    }

    /// Number of units of work of handlers at the same time. Handlers take as long as they like, and connections are given in the
    /// order in which they are asked for: without this limit, relay and broker would wait for all handlers.
    #[cfg_attr(
        not(any(feature = "mysql", feature = "postgres")),
        allow(unused_variables, reason = "the pool of a file has a fixed size")
    )]
    fn handler_units(&self, connections: NonZeroU32) -> usize {
        match self {
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            Location::Server(_) => {
                let left = connections.get().saturating_sub(CONNECTIONS_OF_RELAY).max(1);
                usize::try_from(left).unwrap_or(usize::MAX)
            }
            #[cfg(feature = "sqlite")]
            Location::File(_) => UNITS_OF_FILE,
        }
    }

    /// Opens a pool of its own, with at most this many connections to a server.
    #[cfg_attr(
        not(any(feature = "mysql", feature = "postgres")),
        allow(unused_variables, reason = "the pool of a file has a fixed size")
    )]
    pub(crate) async fn open(
        &self,
        connections: NonZeroU32,
        clock: Arc<dyn Clock>,
        wake: WakeupNotifier,
    ) -> Result<SqlStore, StoreError> {
        match self {
            #[cfg(any(feature = "mysql", feature = "postgres"))]
            Location::Server(options) => {
                let store = SqlStore::open_server(&options.clone().connections(connections), clock, wake);
                store.probe().await?;
                Ok(store)
            }
            #[cfg(feature = "sqlite")]
            Location::File(options) => SqlStore::open_sqlite(options, clock, wake).await,
        }
    }
}

/// A pool of the service with the options of the builder.
#[doc(hidden)]
pub struct PoolSource<DB: sqlx::Database> {
    pool: Pool<DB>,
    table_prefix: String,
    connections: Option<NonZeroU32>,
}

/// The database of a pool, as the builder has checked it.
#[doc(hidden)]
pub struct DatabasePlace {
    location: Location,
    prefix: TablePrefix,
    connections: NonZeroU32,
    needs: Needs,
    /// Whether no relay of an older version was live when an event of a text key was enqueued.
    accepts_text_keys: AtomicBool,
}

impl DatabasePlace {
    async fn store(&self, wake: WakeupNotifier) -> Result<SqlStore, StoreError> {
        self.location.open(self.connections, self.needs.clock.port(), wake).await
    }
}

#[async_trait]
impl<DB: Database> Backend for DB {
    type Transaction = DB::Connection;
    type Unit = Session;
    type View = Session;
    type Source = PoolSource<DB>;
    type Place = DatabasePlace;

    fn place(source: PoolSource<DB>, needs: Needs) -> Result<DatabasePlace, BuildError> {
        let prefix = TablePrefix::new(source.table_prefix)?;
        let location = DB::location(&source.pool)?.with_table_prefix(prefix.clone());
        let connections = source.connections.unwrap_or_else(|| default_connections(needs.consumers));
        let connections = connections.max(FEWEST_CONNECTIONS);
        Ok(DatabasePlace { location, prefix, connections, needs, accepts_text_keys: AtomicBool::new(false) })
    }

    async fn open(place: &DatabasePlace, broker: Option<Arc<dyn Broker>>) -> Result<Opened<DB>, Error> {
        let wake = WakeupNotifier::default();
        let store = place.store(wake.clone()).await?;
        if let Err(error) = check(&store).await {
            store.close().await;
            return Err(error);
        }
        let broker = broker.unwrap_or_else(|| Arc::new(DatabaseBroker::new(&store)));
        let Needs { clock, random, .. } = &place.needs;
        let port = Arc::new(store.clone());
        let tx = Transactor::new(port, clock.port(), Arc::clone(random), Tasks::default());
        let handler_units = place.location.handler_units(place.connections);
        let store = Arc::new(OpenDatabase { store, hinted: AtomicU64::new(0), handler_units });
        Ok(Opened { tx, broker, wake, store })
    }

    async fn transaction(unit: &mut Session) -> Result<&mut DB::Connection, StoreError> {
        unit.connection().await
    }

    async fn append(
        place: &DatabasePlace,
        started: Option<Started>,
        connection: &mut DB::Connection,
        events: &[NewEvent],
    ) -> Result<(), EnqueueError> {
        if !connection.is_in_transaction() {
            return Err(EnqueueError::NoTransaction {});
        }
        let DatabasePlace { prefix, accepts_text_keys, .. } = place;
        let has_text_key = events.iter().any(|event| event.aggregate.id.key().is_some());
        if has_text_key && !accepts_text_keys.load(Ordering::Relaxed) {
            if let Some(cause) = connection.older_relay(prefix).await? {
                return Err(EnqueueError::OlderProcess { cause });
            }
            accepts_text_keys.store(true, Ordering::Relaxed);
        }
        connection.append_events(prefix, events).await?;
        if let Some(Started { store, tasks }) = started {
            let partitions =
                events.iter().map(|event| Partition::of(event.aggregate.tenant, event.aggregate.id.number()));
            store.wake_soon(partitions.collect(), &place.needs.clock, &tasks);
        }
        Ok(())
    }
}

/// Refuses a schema and a server that do not suit.
async fn check(store: &SqlStore) -> Result<(), Error> {
    if let Some(setting) = store.unsuitable_settings().await?.into_iter().next() {
        return Err(Error::Setting(setting));
    }
    let version = store.schema_version().await?;
    match version.found {
        Some(found) if version.is_newer() && !version.is_compatible => {
            Err(Error::NewerSchema { found, needed: version.needed })
        }
        _ if version.is_enough() => Ok(()),
        found => Err(Error::NotMigrated { found, needed: version.needed }),
    }
}

/// The relay needs a second connection to renew its leases during a search.
const FEWEST_CONNECTIONS: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);

/// Connections that handlers leave to the relay, and to the broker in the database.
#[cfg(any(feature = "mysql", feature = "postgres"))]
const CONNECTIONS_OF_RELAY: u32 = 2;

/// Units of work of handlers that wait for the one connection that writes a file, and share the flush of their commits.
#[cfg(feature = "sqlite")]
const UNITS_OF_FILE: usize = 4;

fn default_connections(consumers: usize) -> NonZeroU32 {
    let consumers = u32::try_from(consumers).unwrap_or(u32::MAX);
    NonZeroU32::MIN.saturating_add(consumers.saturating_add(2).min(7))
}

/// Pauses between the wake-ups of the relay after `enqueue`: the time of the caller's commit is not known, and NOTIFY in
/// the caller's transaction would make all commits wait for each other.
const WAKE_AFTER: [Duration; 5] = [
    Duration::from_millis(3),
    Duration::from_millis(12),
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(800),
];

struct OpenDatabase {
    store: SqlStore,
    /// Partitions of events that the next wake-up concerns, as bits.
    hinted: AtomicU64,
    handler_units: usize,
}

#[async_trait]
impl OpenStore for OpenDatabase {
    fn handler_units(&self) -> usize {
        self.handler_units
    }

    fn wake_relays(&self, partitions: PartitionSet) {
        self.store.wake_relays(partitions);
    }

    fn wake_soon(self: Arc<Self>, partitions: PartitionSet, clock: &OutboxClock, tasks: &Tasks) {
        let bits = partitions.iter().fold(0u64, |bits, partition| bits | (1 << partition.number()));
        if self.hinted.fetch_or(bits, Ordering::AcqRel) != 0 {
            // A task that has not taken the partitions yet will take these, too.
            return;
        }
        let clock = clock.clone();
        tasks.spawn_until_stop(async move {
            let [first, later @ ..] = WAKE_AFTER;
            clock.sleep(first).await;
            let bits = self.hinted.swap(0, Ordering::AcqRel);
            let hinted: PartitionSet =
                Partition::all().filter(|partition| bits & (1 << partition.number()) != 0).collect();
            self.store.wake_relays(hinted);
            for pause in later {
                clock.sleep(pause).await;
                self.store.wake_relays(hinted);
            }
        });
    }

    async fn watch(&self) {
        self.store.watch().await;
    }

    fn monitor(&self) -> Arc<dyn DatabaseMonitor> {
        Arc::new(self.store.clone())
    }

    async fn close(&self) {
        self.store.close().await;
    }
}

impl<DB: Database> Outbox<DB> {
    /// A builder for an outbox in the database of this pool.
    ///
    /// The pool itself is not used: relay and consumers have a small pool of their own, with the connection options of this
    /// one. What `after_connect` of the pool sets is not part of the options.
    pub fn builder(pool: Pool<DB>) -> Builder<DB> {
        Builder::new(PoolSource { pool, table_prefix: String::new(), connections: None })
    }

    /// Creates the tables of the outbox, or migrates them. Several processes may do this at the same time. The tables are
    /// `event_consume_log`, `dead_letters`, and those that begin with `outbox_` or `webhook_`; those of the service are not
    /// touched. If one of them has such a name, [`Builder::table_prefix`] is needed.
    pub async fn migrate(&self) -> Result<(), Error> {
        let store = self.place().store(WakeupNotifier::default()).await?;
        let migrated = store.migrate().await;
        store.close().await;
        Ok(migrated?)
    }
}

impl<DB: Database> Builder<DB> {
    /// Sets the maximum number of connections to a server that relay and consumers use, besides the service's own pool. The
    /// default is 3 and one for each consumer, at most 8; fewer than 2 count as 2, because the relay renews its leases while it searches
    /// due events. Handlers in the transaction use all of them but two, and at least one.
    /// PostgreSQL has one more, for notifications.
    pub fn connections(self, connections: NonZeroU32) -> Builder<DB> {
        self.map_source(|source| PoolSource { connections: Some(connections), ..source })
    }

    /// Sets a prefix of the names of the outbox's tables and indexes, such as `handover_`; the default is none. It is needed if
    /// tables of the service have the same names, or for two outboxes in one database.
    ///
    /// Set it before the first [`migrate`](Outbox::migrate), in every process, and do not change it: tables are not renamed.
    pub fn table_prefix(self, prefix: impl Into<String>) -> Builder<DB> {
        self.map_source(|source| PoolSource { table_prefix: prefix.into(), ..source })
    }
}

#[cfg(feature = "mysql")]
impl sealed::Sealed for sqlx::MySql {}
#[cfg(feature = "mysql")]
impl Database for sqlx::MySql {
    fn location(pool: &Pool<Self>) -> Result<Location, BuildError> {
        let options = pool.connect_options();
        options.get_database().ok_or(BuildError::NoDatabase {})?;
        Ok(Location::Server(handover_sql::ServerOptions::mysql(options.as_ref().clone())))
    }
}

#[cfg(feature = "postgres")]
impl sealed::Sealed for sqlx::Postgres {}
#[cfg(feature = "postgres")]
impl Database for sqlx::Postgres {
    fn location(pool: &Pool<Self>) -> Result<Location, BuildError> {
        let options = pool.connect_options();
        Ok(Location::Server(handover_sql::ServerOptions::postgres(options.as_ref().clone())))
    }
}

#[cfg(feature = "sqlite")]
impl sealed::Sealed for sqlx::Sqlite {}
#[cfg(feature = "sqlite")]
impl Database for sqlx::Sqlite {
    fn location(pool: &Pool<Self>) -> Result<Location, BuildError> {
        let options = pool.connect_options();
        let file = handover_sql::SqliteOptions::of(options.as_ref().clone());
        Ok(Location::File(Box::new(file.ok_or(BuildError::NoFile {})?)))
    }
}
