//! The rate limiters, ready for the contract suite.

#![allow(clippy::disallowed_methods, reason = "a real server runs on real time")]

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::TimeDelta;
use handover_outbox::Tasks;
use handover_system::SystemClock;
use marketplace::ports::{Bucket, LimitKey, RateLimiter, Taken};
use marketplace_limiter::{LocalLimiter, Time};
use marketplace_redis::{Link, RedisLimiter, RedisSettings, Use};
use tokio::sync::OnceCell;

use crate::process::eventually;
use crate::servers::rabbitmq::Encryption;
use crate::servers::redis::RedisServer;
use handover_contract::PATIENCE;
use marketplace_contract::limiter::LimiterRig;

static SERVER: OnceCell<RedisServer> = OnceCell::const_new();

/// The server that all tests of this binary share.
pub async fn shared() -> &'static RedisServer {
    SERVER.get_or_try_init(|| RedisServer::start(Encryption::Offered)).await.expect("Redis starts")
}

/// A time that only a test moves.
#[derive(Debug, Clone, Default)]
struct ByHand(Arc<Mutex<Duration>>);

impl ByHand {
    fn advance(&self, by: Duration) {
        *self.0.lock().unwrap() += by;
    }

    fn time(&self) -> Time {
        let now = Arc::clone(&self.0);
        Time::told_by(move || *now.lock().unwrap())
    }
}

/// The limiter of one process. It follows no clock on the wall, so there is none to set.
pub struct LocalLimiterRig {
    limiter: Arc<LocalLimiter>,
    time: ByHand,
}

impl LocalLimiterRig {
    /// With nothing taken yet.
    pub fn new() -> LocalLimiterRig {
        let time = ByHand::default();
        LocalLimiterRig { limiter: Arc::new(LocalLimiter::on(time.time())), time }
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

/// Lets everybody in: what stands behind it decides alone.
pub struct Unlimited;

#[async_trait]
impl RateLimiter for Unlimited {
    async fn take(&self, _: &LimitKey, bucket: Bucket) -> Taken {
        Taken::Token { remaining: bucket.capacity().get().saturating_sub(1) }
    }
}

/// The limiter that processes share, on a server whose clock is said to be ahead.
pub struct RedisLimiterRig {
    limiter: Arc<RedisLimiter>,
    ahead_us: Arc<AtomicI64>,
    time: ByHand,
    is_alone: bool,
}

impl RedisLimiterRig {
    /// What Redis decides, alone.
    pub async fn alone() -> RedisLimiterRig {
        RedisLimiterRig::with(Arc::new(Unlimited), ByHand::default(), true).await
    }

    /// As it is shipped, with the limiter of the process before it.
    pub async fn whole() -> RedisLimiterRig {
        let (time, began) = (ByHand::default(), Instant::now());
        let (by_hand, real) = (Arc::clone(&time.0), move || began.elapsed());
        let both = Time::told_by(move || *by_hand.lock().unwrap() + real());
        RedisLimiterRig::with(Arc::new(LocalLimiter::on(both)), time, false).await
    }

    async fn with(own: Arc<dyn RateLimiter>, time: ByHand, is_alone: bool) -> RedisLimiterRig {
        let mut settings = RedisSettings::parse(&shared().await.url()).expect("its URL is one");
        // A rule asks what is decided, not how fast on a machine that does other things too.
        settings.timeout = PATIENCE;
        let ahead_us = Arc::<AtomicI64>::default();
        let told = Arc::clone(&ahead_us);
        let link = Link::keep(settings, vec![Use::Limits], Arc::new(SystemClock), &Tasks::default());
        let limiter = RedisLimiter::new(link, own).with_clock_ahead(move || told.load(Ordering::SeqCst));
        let limiter = Arc::new(limiter);
        shares(&limiter).await;
        RedisLimiterRig { limiter, ahead_us, time, is_alone }
    }
}

/// Waits until Redis decides.
pub async fn shares(limiter: &RedisLimiter) {
    eventually(
        PATIENCE,
        async || {
            if limiter.is_shared() { Ok(()) } else { Err("Redis is not asked yet".into()) }
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
        self.ahead_us.fetch_add(i64::try_from(by.as_micros()).expect("not for ever"), Ordering::SeqCst);
    }

    fn set_clock(&self, by: TimeDelta) {
        self.ahead_us.fetch_add(by.num_microseconds().expect("not for ever"), Ordering::SeqCst);
    }

    fn tells_exactly(&self) -> bool {
        self.is_alone
    }
}
