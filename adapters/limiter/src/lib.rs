//! Rate limiter of one process: token buckets in memory (the generic cell rate algorithm of `governor`).
//!
//! **Invariant:** memory is bounded, and no bucket is removed before it is full again.

mod buckets;
mod time;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use async_trait::async_trait;
use governor::Quota;
use governor::clock::Clock;
use governor::middleware::StateInformationMiddleware;
use marketplace::ports::{Bucket, LimitKey, RateLimitDecision, RateLimiter};

use buckets::Buckets;
use time::Since;

pub use buckets::MAX_BUCKETS;
pub use time::Time;

/// Interval for removing full buckets; they need no memory, because a missing bucket counts as full.
const PRUNE_INTERVAL: Duration = Duration::from_secs(10);
/// Interval for removing full buckets while the store is full.
const PRUNE_INTERVAL_WHEN_FULL: Duration = Duration::from_secs(1);

/// Limits the requests of one process. It uses a monotonic clock, which cannot be set.
pub struct LocalLimiter {
    time: Time,
    /// One limiter per bucket size (capacity and refill rate) of the configuration.
    by_size: RwLock<HashMap<Bucket, Arc<SizeLimiter>>>,
}

impl Default for LocalLimiter {
    /// Creates a limiter that uses the monotonic clock of the process.
    fn default() -> Self {
        LocalLimiter::with_time(Time::monotonic())
    }
}

impl LocalLimiter {
    pub fn with_time(time: Time) -> LocalLimiter {
        LocalLimiter { time, by_size: RwLock::default() }
    }

    fn size_limiter(&self, bucket: Bucket) -> Arc<SizeLimiter> {
        if let Some(found) = self.by_size.read().unwrap_or_else(PoisonError::into_inner).get(&bucket) {
            return Arc::clone(found);
        }
        let mut all = self.by_size.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(all.entry(bucket).or_insert_with(|| Arc::new(SizeLimiter::new(bucket, &self.time))))
    }
}

/// The buckets of one size, that is, of one capacity and refill rate.
struct SizeLimiter {
    limiter: governor::RateLimiter<LimitKey, Buckets, Since, StateInformationMiddleware>,
    pruned: Mutex<Duration>,
}

impl SizeLimiter {
    fn new(bucket: Bucket, time: &Time) -> SizeLimiter {
        // `with_period` returns `None` only if the refill interval is zero; `Bucket` does not allow that.
        let quota = Quota::with_period(bucket.refill_interval())
            .unwrap_or(Quota::per_second(bucket.capacity()))
            .allow_burst(bucket.capacity());
        let limiter = governor::RateLimiter::new(quota, Buckets::default(), Since::now(time));
        SizeLimiter { limiter, pruned: Mutex::default() }
    }

    /// Removes full buckets if the interval has passed. A missing bucket counts as full.
    fn prune(&self) {
        let now = self.limiter.clock().now();
        let interval =
            if self.limiter.len() < MAX_BUCKETS { PRUNE_INTERVAL } else { PRUNE_INTERVAL_WHEN_FULL };
        {
            let mut pruned = self.pruned.lock().unwrap_or_else(PoisonError::into_inner);
            if now.saturating_sub(*pruned) < interval {
                return;
            }
            *pruned = now;
        }
        self.limiter.retain_recent();
        self.limiter.shrink_to_fit();
    }
}

#[async_trait]
impl RateLimiter for LocalLimiter {
    async fn take(&self, key: &LimitKey, bucket: Bucket) -> RateLimitDecision {
        let limiter = self.size_limiter(bucket);
        limiter.prune();
        match limiter.limiter.check_key(key) {
            Ok(state) => RateLimitDecision::Token { remaining: state.remaining_burst_capacity() },
            Err(until) => {
                let wait = until.wait_time_from(limiter.limiter.clock().now());
                RateLimitDecision::Refused { retry_after: wait.max(Duration::from_nanos(1)) }
            }
        }
    }
}
