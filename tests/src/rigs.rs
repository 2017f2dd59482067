//! Rigs that run the contract suite on the adapters that need no server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_memory::{ManualClock, MemoryBroker};
use handover_outbox::WakeupNotifier;
use handover_outbox::ports::{Broker, Clock, OutboxStore, outbox_of};
use handover_sql::{DatabaseBroker, SqlStore, SqliteOptions, TablePrefix};
use marketplace::ports::{IdKind, MarketStore};
use marketplace_memory::MemoryStore;
use marketplace_sql::SqlMarket;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _};
use tempfile::TempDir;

use handover_contract::broker::BrokerRig;
use handover_contract::samples::start;
use handover_contract::store::{StoreCapabilities, StoreRig};
use marketplace_contract::store::MarketRig;

/// Rig of the in-memory store.
pub struct MemoryStoreRig {
    pub store: MemoryStore,
    wake: WakeupNotifier,
}

impl MemoryStoreRig {
    /// A rig with an empty store whose clock is at [`start`].
    pub fn new() -> MemoryStoreRig {
        let wake = WakeupNotifier::default();
        MemoryStoreRig { store: MemoryStore::new(Arc::new(ManualClock::new(start())), wake.clone()), wake }
    }
}

impl Default for MemoryStoreRig {
    fn default() -> Self {
        MemoryStoreRig::new()
    }
}

#[async_trait]
impl StoreRig for MemoryStoreRig {
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
impl MarketRig for MemoryStoreRig {
    fn market(&self) -> Arc<MarketStore> {
        Arc::new(self.store.clone())
    }

    async fn reopened_market(&self) -> Option<Arc<MarketStore>> {
        Some(Arc::new(self.store.for_process(WakeupNotifier::default())))
    }
}

/// Rig of the SQLite store, on a file that is deleted with the rig.
pub struct SqliteStoreRig {
    pub store: SqlMarket,
    wake: WakeupNotifier,
    clock: ManualClock,
    folder: TempDir,
    prefix: TablePrefix,
}

impl SqliteStoreRig {
    /// A rig with an empty, migrated database.
    pub async fn new() -> SqliteStoreRig {
        SqliteStoreRig::with(TablePrefix::default()).await
    }

    /// The same, where the tables of the toolkit have a prefix.
    pub async fn prefixed() -> SqliteStoreRig {
        SqliteStoreRig::with(TablePrefix::new("handover_").expect("a valid prefix")).await
    }

    async fn with(prefix: TablePrefix) -> SqliteStoreRig {
        let folder = tempfile::tempdir().expect("a folder");
        let wake = WakeupNotifier::default();
        let clock = ManualClock::new(start());
        let store = open(&folder, &prefix, &clock, &wake).await;
        store.migrate().await.expect("migrations run");
        SqliteStoreRig { store, wake, clock, folder, prefix }
    }

    async fn reopen(&self) -> SqlMarket {
        self.store.close().await;
        open(&self.folder, &self.prefix, &self.clock, &WakeupNotifier::default()).await
    }
}

/// The statement that changes the id of a row.
pub(crate) fn renumber(kind: IdKind, from: i64, to: i64) -> String {
    let table = match kind {
        IdKind::Product => "products",
        IdKind::Order => "orders",
        IdKind::Payment => "payments",
        IdKind::Refund => "refunds",
        IdKind::Coupon => "coupons",
        IdKind::Invoice => "invoices",
    };
    format!("UPDATE {table} SET id = {to} WHERE id = {from}")
}

async fn open(
    folder: &TempDir,
    prefix: &TablePrefix,
    clock: &ManualClock,
    wake: &WakeupNotifier,
) -> SqlMarket {
    let options = SqliteOptions::file(folder.path().join("handover.db")).table_prefix(prefix.clone());
    let clock = Arc::new(ShortSleepClock(clock.clone()));
    SqlMarket::on(SqlStore::open_sqlite(&options, clock, wake.clone()).await.expect("a database opens"))
}

#[async_trait]
impl StoreRig for SqliteStoreRig {
    fn store(&self) -> Arc<OutboxStore> {
        outbox_of(&self.market())
    }

    fn wake(&self) -> WakeupNotifier {
        self.wake.clone()
    }

    fn move_database_clock(&self, by: TimeDelta) {
        self.store.move_database_clock(by);
    }

    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities { concurrent_units: false }
    }

    async fn reopened(&self) -> Option<Arc<OutboxStore>> {
        self.reopened_market().await.map(|market| outbox_of(&market))
    }
}

#[async_trait]
impl MarketRig for SqliteStoreRig {
    fn market(&self) -> Arc<MarketStore> {
        Arc::new(self.store.clone())
    }

    async fn reopened_market(&self) -> Option<Arc<MarketStore>> {
        Some(Arc::new(self.reopen().await))
    }

    async fn import_row(&self, kind: IdKind, id: i64, imported: i64) -> bool {
        let options = SqliteConnectOptions::new().filename(self.folder.path().join("handover.db"));
        let mut connection = options.connect().await.expect("cannot open the file");
        let sql = AssertSqlSafe(renumber(kind, id, imported));
        let done = sqlx::query(sql).execute(&mut connection).await.expect("cannot change the id");
        done.rows_affected() == 1
    }
}

/// Rig of the in-memory broker.
pub struct MemoryBrokerRig {
    pub broker: MemoryBroker,
    clock: ManualClock,
}

impl MemoryBrokerRig {
    /// A broker without any declared topology, whose clock is at [`start`].
    pub fn new() -> MemoryBrokerRig {
        let clock = ManualClock::new(start());
        MemoryBrokerRig { broker: MemoryBroker::new(Arc::new(clock.clone())), clock }
    }
}

impl Default for MemoryBrokerRig {
    fn default() -> Self {
        MemoryBrokerRig::new()
    }
}

#[async_trait]
impl BrokerRig for MemoryBrokerRig {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::new(self.broker.clone())
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

/// Rig of the database broker on SQLite.
pub struct SqliteBrokerRig {
    pub broker: DatabaseBroker,
    store: SqliteStoreRig,
}

/// A clock that the test advances, and whose sleeps end after at most [`NAP`] of real time. Callers then read the clock
/// and sleep again, so that a step of the clock also reaches a caller that was about to sleep.
pub(crate) struct ShortSleepClock(pub(crate) ManualClock);

const NAP: Duration = Duration::from_millis(5);

#[async_trait]
impl Clock for ShortSleepClock {
    fn now(&self) -> DateTime<Utc> {
        self.0.now()
    }

    async fn sleep(&self, duration: Duration) {
        tokio::select! {
            () = self.0.sleep(duration) => {}
            () = tokio::time::sleep(NAP) => {}
        }
    }
}

impl SqliteBrokerRig {
    /// A broker without any declared topology on an empty, migrated database.
    pub async fn new() -> SqliteBrokerRig {
        SqliteBrokerRig::on(SqliteStoreRig::new().await)
    }

    /// The same, where the tables of the toolkit have a prefix.
    pub async fn prefixed() -> SqliteBrokerRig {
        SqliteBrokerRig::on(SqliteStoreRig::prefixed().await)
    }

    /// A broker for which every search is slow: each claim begins at a mark, beside searches of the whole queue.
    pub async fn with_slow_searches() -> SqliteBrokerRig {
        let store = SqliteStoreRig::new().await;
        SqliteBrokerRig { broker: DatabaseBroker::with_slow_search(&store.store, Duration::ZERO), store }
    }

    fn on(store: SqliteStoreRig) -> SqliteBrokerRig {
        SqliteBrokerRig { broker: DatabaseBroker::new(&store.store), store }
    }
}

#[async_trait]
impl BrokerRig for SqliteBrokerRig {
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
