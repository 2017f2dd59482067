//! Rigs that run the contract suite on the rate limiters.

#![allow(clippy::disallowed_methods, reason = "a real server runs in real time")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::TimeDelta;
use handover_outbox::Tasks;
use handover_system::SystemClock;
use marketplace::ports::{Bucket, LimitKey, RateLimitDecision, RateLimiter};
use marketplace_limiter::{LocalLimiter, Time};
use marketplace_redis::{RedisConnection, RedisLimiter, RedisSettings, RedisUse};
use tokio::sync::OnceCell;

use crate::process::eventually;
use crate::servers::rabbitmq::Encryption;
use crate::servers::redis::RedisServer;
use handover_contract::TIMEOUT;
use marketplace_contract::limiter::LimiterRig;

static SERVER: OnceCell<RedisServer> = OnceCell::const_new();

/// The server that all tests of this binary share.
pub async fn shared() -> &'static RedisServer {
    SERVER.get_or_try_init(|| RedisServer::start(Encryption::Offered)).await.expect("Redis starts")
}

/// A time that advances only when the test moves it.
#[derive(Debug, Clone, Default)]
struct ByHand(Arc<Mutex<Duration>>);

impl ByHand {
    fn advance(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }

    fn time(&self) -> Time {
        let now = Arc::clone(&self.0);
        Time::from_fn(move || *now.lock().unwrap())
    }
}

/// The limiter of one process. It uses no wall clock, so `set_clock` has no effect.
pub struct LocalLimiterRig {
    limiter: Arc<LocalLimiter>,
    time: ByHand,
}

impl LocalLimiterRig {
    /// A rig with full buckets.
    pub fn new() -> LocalLimiterRig {
        let time = ByHand::default();
        LocalLimiterRig { limiter: Arc::new(LocalLimiter::with_time(time.time())), time }
    }
}

impl Default for LocalLimiterRig {
    fn default() -> Self {
        LocalLimiterRig::new()
    }
}

impl LimiterRig for LocalLimiterRig {
    fn limiter(&self) -> Arc<dyn RateLimiter> {
        self.limiter.clone()
    }

    fn advance(&self, by: Duration) {
        self.time.advance(by);
    }

    fn set_clock(&self, _: TimeDelta) {}
}

/// Grants every request, so that only the limiter behind it decides.
pub struct Unlimited;

#[async_trait]
impl RateLimiter for Unlimited {
    async fn take(&self, _: &LimitKey, bucket: Bucket) -> RateLimitDecision {
        RateLimitDecision::Token { remaining: bucket.capacity().get().saturating_sub(1) }
    }
}

/// The limiter that processes share in Redis, on a server clock that the test moves forward.
pub struct RedisLimiterRig {
    limiter: Arc<RedisLimiter>,
    ahead_us: Arc<AtomicI64>,
    time: ByHand,
    is_redis_only: bool,
}

impl RedisLimiterRig {
    /// The Redis limiter without a local limiter in front.
    pub async fn redis_only() -> RedisLimiterRig {
        RedisLimiterRig::with(Arc::new(Unlimited), ByHand::default(), true).await
    }

    /// The Redis limiter with the local limiter in front, as shipped.
    pub async fn with_local_limiter() -> RedisLimiterRig {
        let time = ByHand::default();
        let began = Instant::now();
        let by_hand = Arc::clone(&time.0);
        let real = move || began.elapsed();
        let both = Time::from_fn(move || *by_hand.lock().unwrap() + real());
        RedisLimiterRig::with(Arc::new(LocalLimiter::with_time(both)), time, false).await
    }

    async fn with(own: Arc<dyn RateLimiter>, time: ByHand, is_redis_only: bool) -> RedisLimiterRig {
        let mut settings = RedisSettings::parse(&shared().await.url()).expect("a valid URL");
        // A long timeout, so that the contract rules do not fail on a busy machine.
        settings.timeout = TIMEOUT;
        let ahead_us = Arc::<AtomicI64>::default();
        let ahead = Arc::clone(&ahead_us);
        let link =
            RedisConnection::keep(settings, vec![RedisUse::Limits], Arc::new(SystemClock), &Tasks::default());
        let limiter = RedisLimiter::new(link, own).with_clock_ahead(move || ahead.load(Ordering::SeqCst));
        let limiter = Arc::new(limiter);
        shares(&limiter).await;
        RedisLimiterRig { limiter, ahead_us, time, is_redis_only }
    }
}

/// Waits until the limiter uses Redis.
pub async fn shares(limiter: &RedisLimiter) {
    eventually(
        TIMEOUT,
        async || {
            if limiter.is_shared() { Ok(()) } else { Err("no connection to Redis yet".into()) }
        },
    )
    .await;
}

impl LimiterRig for RedisLimiterRig {
    fn limiter(&self) -> Arc<dyn RateLimiter> {
        self.limiter.clone()
    }

    fn advance(&self, by: Duration) {
        self.time.advance(by);
        self.ahead_us
            .fetch_add(i64::try_from(by.as_micros()).expect("a duration within range"), Ordering::SeqCst);
    }

    fn set_clock(&self, by: TimeDelta) {
        self.ahead_us.fetch_add(by.num_microseconds().expect("a duration within range"), Ordering::SeqCst);
    }

    fn reports_exact_wait(&self) -> bool {
        self.is_redis_only
    }
}
