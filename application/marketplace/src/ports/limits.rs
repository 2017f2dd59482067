//! How often somebody may ask: token buckets (spec §4 "Rate limit"; seed 003 §3).

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use handover_events::TenantId;
use marketplace_domain::UserId;

/// How great a bucket is, and how fast it fills. An untouched one is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket {
    capacity: NonZeroU32,
    token_every: Duration,
}

/// A token takes less than a microsecond, or a full bucket more than [`Bucket::SLOWEST`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a bucket fills within a day, and not faster than with a token each microsecond")]
pub struct NoBucket;

impl Bucket {
    /// The longest that an empty bucket may take to be full again.
    pub const SLOWEST: Duration = Duration::from_secs(24 * 60 * 60);

    /// A bucket of so many tokens, with another one each time that so many microseconds are over.
    pub fn new(capacity: NonZeroU32, token_every_us: u64) -> Result<Bucket, NoBucket> {
        let bucket = Bucket { capacity, token_every: Duration::from_micros(token_every_us) };
        let fills =
            bucket.token_every.checked_mul(capacity.get()).is_some_and(|time| time <= Bucket::SLOWEST);
        if fills && token_every_us > 0 { Ok(bucket) } else { Err(NoBucket) }
    }

    /// How many tokens it holds.
    pub const fn capacity(self) -> NonZeroU32 {
        self.capacity
    }

    /// How long one more token takes.
    pub const fn token_every(self) -> Duration {
        self.token_every
    }

    /// How long an empty one takes to be full.
    pub const fn fills_in(self) -> Duration {
        self.token_every.saturating_mul(self.capacity.get())
    }
}

/// Whose bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Party {
    /// A signed-in user of a tenant.
    User(TenantId, UserId),
    /// Somebody at an address: see [`Party::at`].
    Address(IpAddr),
    /// Somebody whose address is not known: all of them are one.
    Unknown,
}

impl Party {
    /// Whoever is at this address. Of an IPv6 address the first 64 bits count: the others are its owner's to choose.
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

/// Which bucket: one of each party for each route.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitKey {
    /// Method and pattern of the path: `POST /api/v1/orders/{id}/ship`.
    pub route: Arc<str>,
    /// Whose.
    pub party: Party,
}

impl fmt::Display for LimitKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.route, self.party)
    }
}

/// What became of a request for a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Here it is.
    Token {
        /// How many are left.
        remaining: u32,
    },
    /// The bucket is empty.
    Refused {
        /// When there will be one, if nobody is faster; never zero.
        retry_after: Duration,
    },
}

/// Hands out tokens.
///
/// In no stretch of time may it hand out more from a bucket than what it holds and what fills it meanwhile, by the
/// limiter's clock; and a clock that is set MUST NOT keep a bucket empty, nor give more than one full bucket.
#[async_trait]
pub trait RateLimiter: Send + Sync {
    /// Takes a token, of a bucket that is always named with the same measures. It MUST answer within milliseconds, also
    /// where what it works with does not.
    async fn take(&self, key: &LimitKey, bucket: Bucket) -> Taken;
}
