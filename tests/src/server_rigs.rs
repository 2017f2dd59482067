//! Rigs that run the contract suite for the SQL store and the database broker on database servers: one server per kind
//! for all tests of a binary, one database per test.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use handover_memory::ManualClock;
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Broker, Clock, OutboxStore, outbox_of};
use handover_sql::{DatabaseBroker, ServerOptions, SqlStore};
use marketplace::ports::{IdKind, MarketStore};
use marketplace_sql::SqlMarket;
use sqlx::mysql::MySqlConnection;
use sqlx::postgres::PgConnection;
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::sync::OnceCell;

use crate::process::BoxError;
use crate::rigs::{ShortSleepClock, renumber};
use crate::servers::Durability;
use crate::servers::database::{DatabaseServer, ServerKind, TestDatabase};
use handover_contract::broker::BrokerRig;
use handover_contract::samples::start;
use handover_contract::store::StoreRig;
use marketplace_contract::store::MarketRig;

/// Name of the migrated database that other databases are copied from.
const TEMPLATE: &str = "handover_template";

static MARIADB: OnceCell<Arc<DatabaseServer>> = OnceCell::const_new();
static POSTGRES: OnceCell<Arc<DatabaseServer>> = OnceCell::const_new();

/// The server of this kind that all tests of this binary share.
pub async fn shared(kind: ServerKind) -> &'static Arc<DatabaseServer> {
    let server = match kind {
        ServerKind::MariaDb => &MARIADB,
        ServerKind::Postgres => &POSTGRES,
    };
    server.get_or_try_init(|| start_shared(kind)).await.expect("cannot start a database server")
}

async fn start_shared(kind: ServerKind) -> Result<Arc<DatabaseServer>, BoxError> {
    let server = DatabaseServer::start(kind, Durability::None).await?;
    server.execute(&format!("CREATE DATABASE {TEMPLATE}")).await?;
    migrate(&server.url(TEMPLATE, server.port())).await?;
    server.set_template(TEMPLATE).await?;
    Ok(server)
}

async fn migrate(url: &str) -> Result<(), BoxError> {
    let store = open(url, Arc::new(ManualClock::new(start())), &WakeupNotifier::default());
    store.migrate().await?;
    store.close().await;
    Ok(())
}

/// Creates a migrated database on the shared server of this kind.
pub async fn migrated(kind: ServerKind) -> TestDatabase {
    let server = shared(kind).await;
    let database = server.database(Some(TEMPLATE)).await.expect("cannot create a database");
    match kind {
        ServerKind::MariaDb => migrate(&database.url()).await.expect("migrations run"),
        ServerKind::Postgres => {}
    }
    database
}

/// A migrated database for a test that uses only the store's ports; earlier tests may have used it.
async fn recycled(kind: ServerKind) -> TestDatabase {
    let server = shared(kind).await;
    match server.recycled().await.expect("cannot restore a database") {
        Some(database) => database,
        None => migrated(kind).await.recyclable(),
    }
}

/// Opens a store on the database at the given URL.
pub fn open(url: &str, clock: Arc<dyn Clock>, wake: &WakeupNotifier) -> SqlMarket {
    let options = ServerOptions::parse(url).expect("a valid URL");
    SqlMarket::on(SqlStore::open_server(&options, clock, wake.clone()))
}

/// Executes a statement outside the store. Returns the number of changed rows.
pub async fn outside(database: &TestDatabase, sql: &str) -> Result<u64, sqlx::Error> {
    let sql = AssertSqlSafe(sql.to_owned());
    match database.server().kind() {
        ServerKind::MariaDb => {
            let mut connection = MySqlConnection::connect(&database.url()).await?;
            Ok(sqlx::raw_sql(sql).execute(&mut connection).await?.rows_affected())
        }
        ServerKind::Postgres => {
            let mut connection = PgConnection::connect(&database.url()).await?;
            Ok(sqlx::raw_sql(sql).execute(&mut connection).await?.rows_affected())
        }
    }
}

/// Rig of the SQL store on a database server.
pub struct ServerStoreRig {
    pub store: SqlMarket,
    pub database: TestDatabase,
    wake: WakeupNotifier,
    clock: ManualClock,
}

impl ServerStoreRig {
    /// A rig with an empty, migrated database.
    pub async fn new(kind: ServerKind) -> ServerStoreRig {
        let database = recycled(kind).await;
        let wake = WakeupNotifier::default();
        let clock = ManualClock::new(start());
        let store = open(&database.url(), Arc::new(ShortSleepClock(clock.clone())), &wake);
        ServerStoreRig { store, database, wake, clock }
    }

    async fn reopen(&self) -> SqlMarket {
        self.store.close().await;
        let clock = Arc::new(ShortSleepClock(self.clock.clone()));
        open(&self.database.url(), clock, &WakeupNotifier::default())
    }
}

#[async_trait]
impl StoreRig for ServerStoreRig {
    fn store(&self) -> Arc<OutboxStore> {
        outbox_of(&self.market())
    }

    fn wake(&self) -> WakeupNotifier {
        self.wake.clone()
    }

    fn move_database_clock(&self, by: TimeDelta) {
        self.store.move_database_clock(by);
    }

    async fn reopened(&self) -> Option<Arc<OutboxStore>> {
        self.reopened_market().await.map(|market| outbox_of(&market))
    }
}

#[async_trait]
impl MarketRig for ServerStoreRig {
    fn market(&self) -> Arc<MarketStore> {
        Arc::new(self.store.clone())
    }

    async fn reopened_market(&self) -> Option<Arc<MarketStore>> {
        Some(Arc::new(self.reopen().await))
    }

    async fn import_row(&self, kind: IdKind, id: i64, imported: i64) -> bool {
        let sql = renumber(kind, id, imported);
        outside(&self.database, &sql).await.expect("cannot change the id") == 1
    }
}

/// Rig of the database broker on a database server.
pub struct ServerBrokerRig {
    pub broker: DatabaseBroker,
    store: ServerStoreRig,
}

impl ServerBrokerRig {
    /// A broker without any declared topology on an empty, migrated database.
    pub async fn new(kind: ServerKind) -> ServerBrokerRig {
        let store = ServerStoreRig::new(kind).await;
        ServerBrokerRig { broker: DatabaseBroker::new(&store.store), store }
    }
}

#[async_trait]
impl BrokerRig for ServerBrokerRig {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::new(self.broker.clone())
    }

    async fn advance(&self, by: Duration) {
        self.store.clock.advance(by);
        self.store.move_database_clock(TimeDelta::from_std(by).expect("a length within range"));
    }

    async fn reopened(&self) -> Option<Arc<dyn Broker>> {
        let store = self.store.reopen().await;
        let broker = DatabaseBroker::new(&store);
        broker.end_all_sessions().await.expect("cannot end the sessions of the broker");
        Some(Arc::new(broker))
    }
}
