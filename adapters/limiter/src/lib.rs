//! The rate limiter of one process: token buckets in memory (the generic cell rate algorithm of `governor`).
//!
//! **Invariant:** its memory is bounded, and no bucket is forgotten before it is full again.

mod buckets;
mod time;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use governor::Quota;
use governor::clock::Clock;
use governor::middleware::StateInformationMiddleware;
use marketplace::ports::{Bucket, LimitKey, RateLimiter, Taken};

use buckets::Buckets;
use time::Since;

pub use buckets::MOST_BUCKETS;
pub use time::Time;

/// How often full buckets are thrown away.
const TIDY_EVERY: Duration = Duration::from_secs(10);
/// How often when there is no room left.
const TIDY_WHEN_CROWDED: Duration = Duration::from_secs(1);

/// Limits what one process takes. It reads no clock that can be set.
pub struct LocalLimiter {
    time: Time,
    /// As many as there are measures in the configuration.
    by_measure: RwLock<HashMap<Bucket, Arc<OfOneMeasure>>>,
}

impl Default for LocalLimiter {
    /// On the monotonic clock of the process.
    fn default() -> Self {
        LocalLimiter::on(Time::monotonic())
    }
}

impl LocalLimiter {
    /// On this time.
    pub fn on(time: Time) -> LocalLimiter {
        LocalLimiter { time, by_measure: RwLock::default() }
    }

    fn of(&self, bucket: Bucket) -> Arc<OfOneMeasure> {
        if let Some(found) = self.by_measure.read().unwrap_or_else(PoisonError::into_inner).get(&bucket) {
            return Arc::clone(found);
        }
        let mut all = self.by_measure.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(bucket).or_insert_with(|| Arc::new(OfOneMeasure::new(bucket, &self.time))))
    }
}

/// The buckets of one measure.
struct OfOneMeasure {
    limiter: governor::RateLimiter<LimitKey, Buckets, Since, StateInformationMiddleware>,
    tidied: Mutex<Duration>,
}

impl OfOneMeasure {
    fn new(bucket: Bucket, time: &Time) -> OfOneMeasure {
        // `None` is for a period of zero, which no bucket has.
        let quota = Quota::with_period(bucket.token_every())
            .unwrap_or(Quota::per_second(bucket.capacity()))
            .allow_burst(bucket.capacity());
        let limiter = governor::RateLimiter::new(quota, Buckets::default(), Since::now(time));
        OfOneMeasure { limiter, tidied: Mutex::default() }
    }

    /// Throws full buckets away, now and then; a full one and none are the same.
    fn tidy(&self) {
        let now = self.limiter.clock().now();
        let pause = if self.limiter.len() < MOST_BUCKETS { TIDY_EVERY } else { TIDY_WHEN_CROWDED };
        {
            let mut tidied = self.tidied.lock().unwrap_or_else(PoisonError::into_inner);
            if now.saturating_sub(*tidied) < pause {
                return;
            }
            *tidied = now;
        }
        self.limiter.retain_recent();
        self.limiter.shrink_to_fit();
    }
}

#[async_trait]
impl RateLimiter for LocalLimiter {
    async fn take(&self, key: &LimitKey, bucket: Bucket) -> Taken {
        let of = self.of(bucket);
        of.tidy();
        match of.limiter.check_key(key) {
            Ok(state) => Taken::Token { remaining: state.remaining_burst_capacity() },
            Err(until) => {
                let wait = until.wait_time_from(of.limiter.clock().now());
                Taken::Refused { retry_after: wait.max(Duration::from_nanos(1)) }
            }
        }
    }
}
