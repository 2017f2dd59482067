//! Rigs that run the contract suite on the stores of idempotency keys.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use handover_memory::SeededRandom;
use handover_outbox::{Tasks, Transactor};
use handover_system::SystemClock;
use marketplace::idempotency::DatabaseIdempotencyStore;
use marketplace::ports::IdempotencyStore;
use marketplace_redis::{RedisConnection, RedisKeys, RedisSettings, RedisUse};

use crate::limiter_rigs::shared;
use crate::process::eventually;
use handover_contract::TIMEOUT;
use handover_contract::samples::start;
use marketplace_contract::keys::KeysRig;
use marketplace_contract::store::MarketRig;

/// Idempotency keys in the database of a store rig.
pub struct DatabaseKeysRig<R> {
    keys: Arc<DatabaseIdempotencyStore>,
    passed: Mutex<Duration>,
    _store: R,
}

impl<R: MarketRig> DatabaseKeysRig<R> {
    /// Stores the idempotency keys in the database of the given store rig.
    pub fn of(store: R) -> DatabaseKeysRig<R> {
        // The clock is used only for the pauses between attempts: a claim contains the current time.
        let clock = Arc::new(SystemClock);
        let tx = Transactor::new(store.market(), clock, Arc::new(SeededRandom::new(1)), Tasks::default());
        DatabaseKeysRig {
            keys: Arc::new(DatabaseIdempotencyStore::new(tx)),
            passed: Mutex::default(),
            _store: store,
        }
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

/// Idempotency keys in Redis, on a server clock that the test moves forward.
pub struct RedisKeysRig {
    keys: Arc<RedisKeys>,
    ahead_ms: Arc<AtomicI64>,
}

impl RedisKeysRig {
    /// Uses the server that all tests of this binary share.
    pub async fn new() -> RedisKeysRig {
        let mut settings = RedisSettings::parse(&shared().await.url()).expect("a valid URL");
        // A long timeout, so that the contract rules do not fail on a busy machine.
        settings.timeout = TIMEOUT;
        let link =
            RedisConnection::keep(settings, vec![RedisUse::Keys], Arc::new(SystemClock), &Tasks::default());
        is_available(&link).await;
        let ahead_ms = Arc::<AtomicI64>::default();
        let ahead = Arc::clone(&ahead_ms);
        let keys = RedisKeys::new(link).with_clock_ahead(move || ahead.load(Ordering::SeqCst));
        RedisKeysRig { keys: Arc::new(keys), ahead_ms }
    }
}

/// Waits until the connection to Redis is established.
pub async fn is_available(link: &RedisConnection) {
    eventually(
        TIMEOUT,
        async || {
            if link.is_available() { Ok(()) } else { Err("no connection to Redis yet".into()) }
        },
    )
    .await;
}

impl KeysRig for RedisKeysRig {
    fn keys(&self) -> Arc<dyn IdempotencyStore> {
        self.keys.clone()
    }

    /// Returns a time that differs from the server's time on purpose: Redis receives durations only.
    fn now(&self) -> DateTime<Utc> {
        start()
    }

    fn advance(&self, by: Duration) {
        let ms = i64::try_from(by.as_millis()).expect("a duration within range");
        self.ahead_ms.fetch_add(ms, Ordering::SeqCst);
    }
}
