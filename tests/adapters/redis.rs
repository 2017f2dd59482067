//! Redis adapters against a scripted server: names of keys, validation of replies, settings. The contract suite and
//! `tests/servers/limits` use a real server.

mod server;
mod settings;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta};
use handover_outbox::Tasks;
use handover_system::SystemClock;
use marketplace::ports::{
    Bucket, IdempotencyStore, LimitKey, MockRateLimiter, Party, RateLimitDecision, RateLimiter,
    RequestRecord, RequestScope, RequestState,
};
use marketplace_redis::{RedisConnection, RedisKeys, RedisLimiter, RedisSettings, RedisUse};

use crate::{PATIENCE, eventually};
use server::Server;

/// Decision of the fallback limiter. No reply of the server leads to this decision.
const FALLBACK_TOKEN: RateLimitDecision = RateLimitDecision::Token { remaining: 77 };

/// Connects to the server for this use of Redis.
async fn link(server: &Server, usage: RedisUse, tasks: &Tasks) -> Arc<RedisConnection> {
    let mut settings = RedisSettings::parse(&server.url()).unwrap();
    settings.timeout = PATIENCE;
    settings.max_reconnect_pause = Duration::from_millis(1);
    let link = RedisConnection::keep(settings, vec![usage], Arc::new(SystemClock), tasks);
    eventually(async || link.is_available()).await;
    link
}

#[tokio::test]
async fn limiter_uses_fallback_when_reply_of_redis_is_invalid() {
    let server = Server::start().await;
    let tasks = Tasks::default();
    let link = link(&server, RedisUse::Limits, &tasks).await;
    let mut fallback = MockRateLimiter::new();
    // Each request first takes a token of the fallback limiter, so that the fallback is current when it is needed.
    fallback.expect_take().times(10).return_const(FALLBACK_TOKEN);
    let limiter = RedisLimiter::new(Arc::clone(&link), Arc::new(fallback));
    let bucket = Bucket::new(NonZeroU32::new(3).unwrap(), 1000).unwrap();
    let key = LimitKey { route: Arc::from("GET /"), party: Party::Unknown };
    let wait = Duration::from_millis(1);
    for (reply, taken) in [
        ((1, 2), Some(RateLimitDecision::Token { remaining: 2 })),
        ((1, 0), Some(RateLimitDecision::Token { remaining: 0 })),
        ((0, 1000), Some(RateLimitDecision::Refused { retry_after: wait })),
        ((1, 3), None),
        ((1, -1), None),
        ((0, 0), None),
        ((0, 1001), None),
        ((0, -5), None),
        ((2, 1), None),
        ((-1, 1), None),
    ] {
        eventually(async || limiter.is_shared()).await;
        server.set_take_reply(reply);
        assert_eq!(limiter.take(&key, bucket).await, taken.unwrap_or(FALLBACK_TOKEN), "{reply:?}");
        let connections = server.connections();
        if taken.is_none() {
            // An invalid reply makes the adapter replace the connection.
            eventually(async || server.connections() > connections).await;
        }
    }
    assert_eq!(server.connections(), 8);
    tasks.stop().await;
}

fn request(scope: RequestScope) -> RequestRecord {
    let now = DateTime::UNIX_EPOCH;
    RequestRecord {
        scope,
        body_hash: "ab".repeat(32),
        token: "token".to_owned(),
        state: RequestState::Processing { until: now + TimeDelta::seconds(40) },
        trace_id: "trace".to_owned(),
        create_time: now,
        expire_time: now + TimeDelta::days(1),
    }
}

#[tokio::test]
async fn distinct_request_scopes_have_distinct_key_names() {
    let server = Server::start().await;
    let tasks = Tasks::default();
    let keys = RedisKeys::new(link(&server, RedisUse::Keys, &tasks).await);
    let name = async |tenant: i64, user: i64, route: &str, key: &str| {
        let scope = RequestScope {
            tenant: tenant.try_into().unwrap(),
            user: user.try_into().unwrap(),
            route: route.to_owned(),
            key: key.to_owned(),
        };
        assert_eq!(keys.claim(&request(scope)).await.unwrap(), None);
        server.last_key()
    };
    assert_eq!(name(1, 9, "POST /a", "k").await, "idempotent:1:9:7:POST /a:k");
    let names = [
        name(1, 11, "POST /a", "k").await,
        name(11, 1, "POST /a", "k").await,
        name(1, 1, "POST /a:b", "c").await,
        name(1, 1, "POST /a", "b:c").await,
        name(1, 1, "POST /a:", "b:c").await,
        name(1, 1, "POST /a:b:c", "").await,
    ];
    assert_eq!(names.iter().collect::<std::collections::BTreeSet<_>>().len(), names.len());
    tasks.stop().await;
}
