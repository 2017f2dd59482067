//! Rules for taking tokens.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use marketplace::ports::{LimitKey, Party, RateLimitDecision};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::{LimiterRig, SLOW, drain, fresh_key, refused, slow, take};

/// Tolerance for waits: longer than the run time of a rule, but short compared with [`SLOW`].
const TOLERANCE: Duration = Duration::from_secs(30);

/// A new bucket is full, each granted token reduces `remaining` by one, and an empty bucket refuses requests.
pub async fn bucket_grants_exactly_its_capacity(rig: &dyn LimiterRig) {
    for capacity in [1, 3, 200] {
        let key = fresh_key();
        for remaining in (0..capacity).rev() {
            assert_eq!(take(rig, &key, slow(capacity)).await, RateLimitDecision::Token { remaining });
        }
        refused(rig, &key, slow(capacity)).await;
    }
}

/// Each combination of route and user, tenant or address has a separate bucket.
pub async fn each_party_and_route_has_a_separate_bucket(rig: &dyn LimiterRig) {
    let key = fresh_key();
    let user = match key.party {
        Party::User(_, user) => user,
        other @ (Party::Address(_) | Party::Unknown) => panic!("{other}"),
    };
    let address = |text: &str| Party::at(text.parse::<IpAddr>().unwrap());
    let parties = [
        key.party,
        Party::User(2.try_into().unwrap(), user),
        address("192.0.2.1"),
        address("192.0.2.11"),
        address("2001:db8::1"),
        address("2001:db8:0:1::1"),
        Party::Unknown,
    ];
    for route in ["POST /api/v1/orders", "GET /api/v1/orders", "GET /api/v1/orders/{id}"] {
        // The addresses are the same in every run and may already have buckets, so the route is made unique.
        let route: Arc<str> = Arc::from(format!("{route} of {}", key.party));
        for party in parties {
            assert_eq!(
                drain(rig, &LimitKey { route: Arc::clone(&route), party }, slow(2)).await,
                2,
                "{party}"
            );
        }
    }
}

/// A client that waits for the reported time gets a token; one that does not wait long enough is refused.
pub async fn refusal_reports_wait_for_next_token(rig: &dyn LimiterRig) {
    let key = fresh_key();
    let bucket = slow(2);
    drain(rig, &key, bucket).await;
    for _ in 0..3 {
        let wait = refused(rig, &key, bucket).await;
        assert!(wait > SLOW - TOLERANCE && wait <= SLOW, "{wait:?}");
        rig.advance(wait / 2);
        let rest = refused(rig, &key, bucket).await;
        assert!(rest <= wait - wait / 2, "{rest:?} of {wait:?}");
        rig.advance(rest);
        assert_eq!(take(rig, &key, bucket).await, RateLimitDecision::Token { remaining: 0 });
    }
}

/// Refused requests do not delay the next token.
pub async fn refusal_does_not_delay_next_token(rig: &dyn LimiterRig) {
    let key = fresh_key();
    let bucket = slow(1);
    drain(rig, &key, bucket).await;
    let wait = refused(rig, &key, bucket).await;
    for _ in 0..10 {
        rig.advance(wait / 11);
        refused(rig, &key, bucket).await;
    }
    rig.advance(wait / 11 + Duration::from_micros(11));
    assert_eq!(take(rig, &key, bucket).await, RateLimitDecision::Token { remaining: 0 });
}

/// An empty bucket gains one token per interval, up to its capacity.
pub async fn bucket_refills_at_its_rate_up_to_capacity(rig: &dyn LimiterRig) {
    let key = fresh_key();
    let bucket = slow(5);
    drain(rig, &key, bucket).await;
    rig.advance(3 * SLOW);
    assert_eq!(drain(rig, &key, bucket).await, 3);
    for longer in [5, 6, 100] {
        rig.advance(longer * SLOW);
        assert_eq!(drain(rig, &key, bucket).await, 5);
    }
}

/// Exactly as many concurrent requests are granted as there are tokens.
pub async fn concurrent_requests_get_at_most_the_capacity(rig: &dyn LimiterRig) {
    const REQUESTS: usize = 40;
    for _ in 0..10 {
        let key = fresh_key();
        let bucket = slow(7);
        let ready = Arc::new(Barrier::new(REQUESTS));
        let mut requests = JoinSet::new();
        for _ in 0..REQUESTS {
            let limiter = rig.limiter();
            let key = key.clone();
            let ready = Arc::clone(&ready);
            requests.spawn(async move {
                ready.wait().await;
                matches!(limiter.take(&key, bucket).await, RateLimitDecision::Token { .. })
            });
        }
        let granted = requests.join_all().await.into_iter().filter(|granted| *granted).count();
        assert_eq!(granted, 7);
    }
}
