//! The adapters of this workspace, ready for the contract suite.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, TimeDelta, Utc};
use handover_memory::{ManualClock, MemoryBroker};
use handover_outbox::Wake;
use handover_outbox::ports::{Broker, Clock, OutboxStore, outbox_of};
use handover_sql::{DatabaseBroker, SqlStore, SqliteOptions};
use marketplace::ports::MarketStore;
use marketplace_memory::MemoryStore;
use marketplace_sql::SqlMarket;
use tempfile::TempDir;

use handover_contract::broker::BrokerRig;
use handover_contract::samples::start;
use handover_contract::store::{StoreCapabilities, StoreRig};
use marketplace_contract::store::MarketRig;

/// The store in memory.
pub struct MemoryStoreRig {
    /// The store.
    pub store: MemoryStore,
    wake: Wake,
}

impl MemoryStoreRig {
    /// An empty store whose clock stands at [`start`].
    pub fn new() -> MemoryStoreRig {
        let wake = Wake::default();
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

    fn wake(&self) -> Wake {
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
        Some(Arc::new(self.store.for_process(Wake::default())))
    }
}

/// The store on SQLite, in a file of its own that goes with the rig.
pub struct SqliteStoreRig {
    /// The store.
    pub store: SqlMarket,
    wake: Wake,
    clock: ManualClock,
    folder: TempDir,
}

impl SqliteStoreRig {
    /// An empty, migrated database.
    pub async fn new() -> SqliteStoreRig {
        let folder = tempfile::tempdir().expect("a folder");
        let (wake, clock) = (Wake::default(), ManualClock::new(start()));
        let store = open(&folder, &clock, &wake).await;
        store.migrate().await.expect("migrations run");
        SqliteStoreRig { store, wake, clock, folder }
    }
}

async fn open(folder: &TempDir, clock: &ManualClock, wake: &Wake) -> SqlMarket {
    let options = SqliteOptions::file(folder.path().join("handover.db"));
    let clock = Arc::new(Restless(clock.clone()));
    SqlMarket::on(SqlStore::open_sqlite(&options, clock, wake.clone()).await.expect("a database opens"))
}

#[async_trait]
impl StoreRig for SqliteStoreRig {
    fn store(&self) -> Arc<OutboxStore> {
        outbox_of(&self.market())
    }

    fn wake(&self) -> Wake {
        self.wake.clone()
    }

    fn move_database_clock(&self, by: TimeDelta) {
        self.store.move_database_clock(by);
    }

    fn capabilities(&self) -> StoreCapabilities {
        StoreCapabilities { side_by_side: false }
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
        self.store.close().await;
        Some(Arc::new(open(&self.folder, &self.clock, &Wake::default()).await))
    }
}

/// The broker in memory.
pub struct MemoryBrokerRig {
    /// The broker.
    pub broker: MemoryBroker,
    clock: ManualClock,
}

impl MemoryBrokerRig {
    /// A broker with nothing declared, whose clock stands at [`start`].
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

/// The database broker on SQLite.
pub struct SqliteBrokerRig {
    /// The broker.
    pub broker: DatabaseBroker,
    store: SqliteStoreRig,
}

/// A clock that stands until it is moved, but on which nobody sleeps long: who sleeps a little looks at the time and
/// sleeps on, so that a step of the clock is noticed by those who were about to sleep as well.
pub(crate) struct Restless(pub(crate) ManualClock);

const NAP: Duration = Duration::from_millis(5);

#[async_trait]
impl Clock for Restless {
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
    /// A broker with nothing declared on an empty, migrated database.
    pub async fn new() -> SqliteBrokerRig {
        let store = SqliteStoreRig::new().await;
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
        self.store.store.close().await;
        let store = open(&self.store.folder, &self.store.clock, &Wake::default()).await;
        let broker = DatabaseBroker::new(&store);
        broker.end_all_sessions().await.expect("nobody else is there");
        Some(Arc::new(broker))
    }
}
