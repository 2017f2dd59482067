//! The stores of idempotency keys, ready for the contract suite.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_memory::SeededChance;
use handover_outbox::{Tasks, Transactor, TxPolicy};
use handover_system::SystemClock;
use marketplace::idempotency::DatabaseKeys;
use marketplace::ports::IdempotencyStore;
use marketplace_redis::{Link, RedisKeys, RedisSettings, Use};

use crate::limiter_rigs::shared;
use crate::process::eventually;
use handover_contract::PATIENCE;
use handover_contract::samples::start;
use marketplace_contract::keys::KeysRig;
use marketplace_contract::store::MarketRig;

/// Keys in the database of a rig.
pub struct DatabaseKeysRig<R> {
    keys: Arc<DatabaseKeys>,
    passed: Mutex<Duration>,
    _store: R,
}

impl<R: MarketRig> DatabaseKeysRig<R> {
    /// In this database.
    pub fn of(store: R) -> DatabaseKeysRig<R> {
        let tx = Transactor {
            store: store.market(),
            tasks: Tasks::default(),
            // For the pauses between attempts alone: what time it is stands in the claims.
            clock: Arc::new(SystemClock),
            chance: Arc::new(SeededChance::new(1)),
            policy: TxPolicy::default(),
        };
        DatabaseKeysRig { keys: Arc::new(DatabaseKeys::new(tx)), passed: Mutex::default(), _store: store }
    }
}

impl<R: MarketRig> KeysRig for DatabaseKeysRig<R> {
    fn keys(&self) -> Arc<dyn IdempotencyStore> {
        self.keys.clone()
    }

    fn now(&self) -> DateTime<Utc> {
        start() + *self.passed.lock().unwrap()
    }

    fn advance(&self, by: Duration) {
        *self.passed.lock().unwrap() += by;
    }
}

/// Keys in Redis, on a server whose clock is said to be ahead.
pub struct RedisKeysRig {
    keys: Arc<RedisKeys>,
    ahead_ms: Arc<AtomicI64>,
}

impl RedisKeysRig {
    /// On the server that all tests of this binary share.
    pub async fn new() -> RedisKeysRig {
        let mut settings = RedisSettings::parse(&shared().await.url()).expect("its URL is one");
        // A rule asks what is decided, not how fast on a machine that does other things too.
        settings.timeout = PATIENCE;
        let link = Link::keep(settings, vec![Use::Keys], Arc::new(SystemClock), &Tasks::default());
        is_there(&link).await;
        let ahead_ms = Arc::<AtomicI64>::default();
        let told = Arc::clone(&ahead_ms);
        let keys = RedisKeys::new(link).with_clock_ahead(move || told.load(Ordering::SeqCst));
        RedisKeysRig { keys: Arc::new(keys), ahead_ms }
    }
}

/// Waits until Redis is asked.
pub async fn is_there(link: &Link) {
    eventually(
        PATIENCE,
        async || {
            if link.is_there() { Ok(()) } else { Err("Redis is not asked yet".into()) }
        },
    )
    .await;
}

impl KeysRig for RedisKeysRig {
    fn keys(&self) -> Arc<dyn IdempotencyStore> {
        self.keys.clone()
    }

    /// Another time than the server's: it takes lengths alone.
    fn now(&self) -> DateTime<Utc> {
        start()
    }

    fn advance(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).expect("not for ever");
        self.ahead_ms.fetch_add(ms, Ordering::SeqCst);
    }
}
