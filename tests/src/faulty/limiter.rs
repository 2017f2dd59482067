//! A rate limiter with one fault.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use marketplace::ports::{Bucket, LimitKey, Party, RateLimitDecision, RateLimiter};

use marketplace_contract::limiter::LimiterRig;

/// The guarantee that the limiter violates; `None` is a correct limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    OneTokenTooMany,
    RoutesShareBucket,
    TenantsShareBucket,
    AddressesShareBucket,
    RetryAfterTooShort,
    RetryAfterTooLong,
    RefusalDelaysRefill,
    RefillsTwiceAsFast,
    RefillsBeyondCapacity,
    ConcurrentTakesShareToken,
    WaitsAfterClockSetBack,
    RefillsWhenClockSetBack,
}

/// Tokens and the time in microseconds at which they were counted.
type Kept = (u64, i64);

/// A rate limiter on a wall clock, with one fault.
#[derive(Clone)]
pub struct FaultyLimiterRig {
    fault: Fault,
    clock_us: Arc<Mutex<i64>>,
    buckets: Arc<Mutex<HashMap<String, Kept>>>,
}

impl FaultyLimiterRig {
    /// A fresh rig with the given fault.
    pub fn new(fault: Fault) -> FaultyLimiterRig {
        // The clock starts far enough from zero that it can be set back.
        let clock_us = Arc::new(Mutex::new(1_000_000_000_000_000));
        FaultyLimiterRig { fault, clock_us, buckets: Arc::default() }
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn name(&self, key: &LimitKey) -> String {
        match key.party {
            Party::User(_, user) if self.has(Fault::TenantsShareBucket) => format!("{}:{user}", key.route),
            Party::Address(_) if self.has(Fault::AddressesShareBucket) => key.route.to_string(),
            party if self.has(Fault::RoutesShareBucket) => party.to_string(),
            _ => key.to_string(),
        }
    }
}

impl LimiterRig for FaultyLimiterRig {
    fn limiter(&self) -> Arc<dyn RateLimiter> {
        Arc::new(self.clone())
    }

    fn advance(&self, by: Duration) {
        *self.clock_us.lock().unwrap() += i64::try_from(by.as_micros()).unwrap();
    }

    fn set_clock(&self, by: TimeDelta) {
        *self.clock_us.lock().unwrap() += by.num_microseconds().unwrap();
    }
}

#[async_trait]
impl RateLimiter for FaultyLimiterRig {
    async fn take(&self, key: &LimitKey, bucket: Bucket) -> RateLimitDecision {
        let now = *self.clock_us.lock().unwrap();
        let name = self.name(key);
        let capacity = u64::from(bucket.capacity().get());
        let every = i64::try_from(bucket.refill_interval().as_micros()).unwrap();
        let mut seen = None;
        if self.has(Fault::ConcurrentTakesShareToken) {
            seen = Some(self.buckets.lock().unwrap().get(&name).copied());
            tokio::task::yield_now().await;
        }
        let mut buckets = self.buckets.lock().unwrap();
        let known = seen.unwrap_or_else(|| buckets.get(&name).copied());
        let (mut tokens, mut last) =
            known.unwrap_or((capacity + u64::from(self.has(Fault::OneTokenTooMany)), now));
        if now < last && !self.has(Fault::WaitsAfterClockSetBack) {
            (tokens, last) =
                if self.has(Fault::RefillsWhenClockSetBack) { (capacity, now) } else { (tokens, now) };
        }
        let interval_us = if self.has(Fault::RefillsTwiceAsFast) { every.midpoint(1) } else { every };
        let refilled = (now - last).max(0) / interval_us;
        tokens += refilled.unsigned_abs();
        last += refilled * interval_us;
        if tokens >= capacity && known.is_some() {
            tokens = if self.has(Fault::RefillsBeyondCapacity) { tokens } else { capacity };
            last = last.max(now);
        }
        if tokens == 0 {
            let wait = last + every - now;
            let reported = match self.fault {
                Fault::RetryAfterTooShort => wait / 2,
                Fault::RetryAfterTooLong => wait + every / 10,
                _ => wait,
            };
            if self.has(Fault::RefusalDelaysRefill) {
                last = now;
            }
            buckets.insert(name, (tokens, last));
            return RateLimitDecision::Refused {
                retry_after: Duration::from_micros(reported.max(1).unsigned_abs()),
            };
        }
        buckets.insert(name, (tokens - 1, last));
        RateLimitDecision::Token { remaining: u32::try_from(tokens - 1).unwrap() }
    }
}
