//! A rate limiter with one fault.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use chrono::TimeDelta;
use marketplace::ports::{Bucket, LimitKey, Party, RateLimiter, Taken};

use marketplace_contract::limiter::LimiterRig;

/// The broken promise; `None` is a correct limiter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flaw {
    None,
    OneTokenTooMany,
    RoutesShareABucket,
    TenantsShareABucket,
    AddressesShareABucket,
    WaitsAreTooShort,
    WaitsAreTooLong,
    RefusalsCost,
    FillsTwiceAsFast,
    FillsBeyondFull,
    TwoAtOnceTakeOneToken,
    WaitsForAClockThatWasSetBack,
    AClockSetBackFills,
}

/// Tokens and the time in microseconds at which they were counted.
type Kept = (u64, i64);

/// A rate limiter on a wall clock, with one fault.
#[derive(Clone)]
pub struct FlawedLimiterRig {
    fault: Flaw,
    clock_us: Arc<Mutex<i64>>,
    buckets: Arc<Mutex<HashMap<String, Kept>>>,
}

impl FlawedLimiterRig {
    /// A fresh rig with this fault.
    pub fn new(fault: Flaw) -> FlawedLimiterRig {
        // Far enough from zero that the clock can be set back.
        let clock_us = Arc::new(Mutex::new(1_000_000_000_000_000));
        FlawedLimiterRig { fault, clock_us, buckets: Arc::default() }
    }

    fn has(&self, fault: Flaw) -> bool {
        self.fault == fault
    }

    fn name(&self, key: &LimitKey) -> String {
        match key.party {
            Party::User(_, user) if self.has(Flaw::TenantsShareABucket) => format!("{}:{user}", key.route),
            Party::Address(_) if self.has(Flaw::AddressesShareABucket) => key.route.to_string(),
            party if self.has(Flaw::RoutesShareABucket) => party.to_string(),
            _ => key.to_string(),
        }
    }
}

impl LimiterRig for FlawedLimiterRig {
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
impl RateLimiter for FlawedLimiterRig {
    async fn take(&self, key: &LimitKey, bucket: Bucket) -> Taken {
        let now = *self.clock_us.lock().unwrap();
        let name = self.name(key);
        let capacity = u64::from(bucket.capacity().get());
        let every = i64::try_from(bucket.token_every().as_micros()).unwrap();
        let mut seen = None;
        if self.has(Flaw::TwoAtOnceTakeOneToken) {
            seen = Some(self.buckets.lock().unwrap().get(&name).copied());
            tokio::task::yield_now().await;
        }
        let mut buckets = self.buckets.lock().unwrap();
        let known = seen.unwrap_or_else(|| buckets.get(&name).copied());
        let (mut tokens, mut last) =
            known.unwrap_or((capacity + u64::from(self.has(Flaw::OneTokenTooMany)), now));
        if now < last && !self.has(Flaw::WaitsForAClockThatWasSetBack) {
            (tokens, last) = if self.has(Flaw::AClockSetBackFills) { (capacity, now) } else { (tokens, now) };
        }
        let interval_us = if self.has(Flaw::FillsTwiceAsFast) { every.midpoint(1) } else { every };
        let refilled = (now - last).max(0) / interval_us;
        tokens += refilled.unsigned_abs();
        last += refilled * interval_us;
        if tokens >= capacity && known.is_some() {
            tokens = if self.has(Flaw::FillsBeyondFull) { tokens } else { capacity };
            last = last.max(now);
        }
        if tokens == 0 {
            let wait = last + every - now;
            let reported = match self.fault {
                Flaw::WaitsAreTooShort => wait / 2,
                Flaw::WaitsAreTooLong => wait + every / 10,
                _ => wait,
            };
            if self.has(Flaw::RefusalsCost) {
                last = now;
            }
            buckets.insert(name, (tokens, last));
            return Taken::Refused { retry_after: Duration::from_micros(reported.max(1).unsigned_abs()) };
        }
        buckets.insert(name, (tokens - 1, last));
        Taken::Token { remaining: u32::try_from(tokens - 1).unwrap() }
    }
}
