//! Rate limiting with token buckets.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_events::TenantId;
use marketplace_domain::UserId;

/// Capacity and refill rate of a bucket. A new bucket is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket {
    capacity: NonZeroU32,
    refill_interval: Duration,
}

/// The refill interval is below one microsecond, or the bucket takes longer than [`Bucket::MAX_REFILL_TIME`] to fill.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid bucket: the refill interval of a token must be at least 1 µs, and an empty bucket must be full within 24 h"
)]
pub struct InvalidBucket;

impl Bucket {
    /// Maximum time in which an empty bucket must be full again.
    pub const MAX_REFILL_TIME: Duration = Duration::from_secs(24 * 60 * 60);

    /// Creates a bucket with a capacity and a refill interval per token, in microseconds.
    pub fn new(capacity: NonZeroU32, token_every_us: u64) -> Result<Bucket, InvalidBucket> {
        let bucket = Bucket { capacity, refill_interval: Duration::from_micros(token_every_us) };
        let fills = bucket
            .refill_interval
            .checked_mul(capacity.get())
            .is_some_and(|time| time <= Bucket::MAX_REFILL_TIME);
        if fills && token_every_us > 0 { Ok(bucket) } else { Err(InvalidBucket) }
    }

    /// Maximum number of tokens in the bucket.
    pub const fn capacity(self) -> NonZeroU32 {
        self.capacity
    }

    /// Refill interval of one token.
    pub const fn refill_interval(self) -> Duration {
        self.refill_interval
    }

    /// Time in which an empty bucket becomes full.
    pub const fn refill_time(self) -> Duration {
        self.refill_interval.saturating_mul(self.capacity.get())
    }
}

/// The client that a bucket belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Party {
    /// A signed-in user of a tenant.
    User(TenantId, UserId),
    /// A client address, as normalized by [`Party::at`].
    Address(IpAddr),
    /// A client with unknown address. All such clients share one bucket.
    Unknown,
}

impl Party {
    /// The client at this address. Of an IPv6 address only the first 64 bits count, because a client can choose the
    /// others.
    pub fn at(address: IpAddr) -> Party {
        const NETWORK: u128 = !(u64::MAX as u128);
        Party::Address(match address.to_canonical() {
            IpAddr::V4(address) => IpAddr::V4(address),
            IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & NETWORK)),
        })
    }
}

impl fmt::Display for Party {
    /// `user:1:42`, `address:192.0.2.7`, `address:2001:db8::/64`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Party::User(tenant, user) => write!(f, "user:{tenant}:{user}"),
            Party::Address(IpAddr::V4(address)) => write!(f, "address:{address}"),
            Party::Address(IpAddr::V6(address)) => write!(f, "address:{address}/64"),
            Party::Unknown => f.write_str("unknown"),
        }
    }
}

/// Key of a bucket: one bucket per party and route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitKey {
    /// Method and pattern of the path: `POST /api/v1/orders/{id}/ship`.
    pub route: Arc<str>,
    pub party: Party,
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.route, self.party)
    }
}

/// Result of taking a token from a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateLimitDecision {
    /// The request is allowed: a token was taken from its bucket.
    Token {
        /// Number of tokens left in the bucket.
        remaining: u32,
    },
    /// The request is refused, because its bucket is empty.
    Refused {
        /// Time until the next token, which another request may take; never zero.
        retry_after: Duration,
    },
}

/// A rate limiter.
///
/// In any period of the limiter's clock, a bucket MUST NOT give more tokens than its capacity plus the refill in that
/// period. Setting the clock MUST NOT keep a bucket empty, and MUST NOT add more tokens than the capacity of the
/// bucket.
#[cfg_attr(feature = "mocks", mockall::automock)]
#[async_trait]
pub trait RateLimiter: Send + Sync {
    /// Takes a token. Every call with the same key MUST pass the same bucket. The limiter MUST return within
    /// milliseconds, even if its backend does not respond.
    async fn take(&self, key: &LimitKey, bucket: Bucket) -> RateLimitDecision;
}
