//! Memory limit of the in-process rate limiter. The contract suite covers the rules for every limiter.

use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use marketplace::ports::{Bucket, LimitKey, Party, RateLimitDecision, RateLimiter};
use marketplace_limiter::{LocalLimiter, MAX_BUCKETS};

fn key(client: usize) -> LimitKey {
    let address = Ipv4Addr::from_bits(u32::try_from(client).unwrap());
    LimitKey { route: Arc::from("GET /"), party: Party::at(address.into()) }
}

#[tokio::test(start_paused = true)]
async fn local_limiter_shares_one_bucket_among_clients_beyond_its_memory_limit() {
    let limiter = LocalLimiter::default();
    let bucket = Bucket::new(NonZeroU32::new(2).unwrap(), 60_000_000).unwrap();
    let take = async |client| limiter.take(&key(client), bucket).await;
    let is_refused = |taken| matches!(taken, RateLimitDecision::Refused { .. });
    for client in 0..MAX_BUCKETS {
        assert_eq!(take(client).await, RateLimitDecision::Token { remaining: 1 });
    }
    let late = [MAX_BUCKETS, MAX_BUCKETS + 1, MAX_BUCKETS + 2];
    assert_eq!(take(late[0]).await, RateLimitDecision::Token { remaining: 1 });
    assert_eq!(take(late[1]).await, RateLimitDecision::Token { remaining: 0 });
    for client in late {
        assert!(is_refused(take(client).await));
    }
    assert_eq!(take(0).await, RateLimitDecision::Token { remaining: 0 }, "client 0 must have its own bucket");
    // After 121 s, all buckets are full and are evicted, so each of these clients gets its own bucket.
    tokio::time::advance(Duration::from_secs(121)).await;
    for client in [0, late[0], late[1], late[2]] {
        assert_eq!(take(client).await, RateLimitDecision::Token { remaining: 1 });
    }
}
