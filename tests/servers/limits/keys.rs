//! Idempotency keys in a Redis that is unavailable, slow, flushed or returns invalid responses: no claim is granted
//! that Redis did not grant, and no request waits beyond its timeout.

use std::sync::Arc;
use std::time::Duration;

use handover_contract::samples::start;
use handover_memory::ManualClock;
use handover_outbox::Tasks;
use handover_outbox::ports::{Changed, Clock, StoreError};
use handover_system::SystemClock;
use handover_tests::keys_rigs::is_available;
use handover_tests::process::eventually;
use handover_tests::servers::proxy::{Proxy, Traffic};
use handover_tests::servers::rabbitmq::Encryption;
use handover_tests::servers::redis::RedisServer;
use marketplace::ports::{
    IdempotencyError, IdempotencyStore, RequestRecord, RequestScope, RequestState, StoredResponse,
};
use marketplace_contract::samples::{completed_request, processing_request, user};
use marketplace_redis::{RedisConnection, RedisKeys, RedisSettings, RedisUse, probe};

use super::{Fault, TIMEOUT, assert_ends_at_timeout, without_clock_step};

/// Prefix of the keys of [`processing_request`], as in the README.
const NAME: &str = "idempotent:1:10:19:POST /api/v1/orders:";

fn keys(settings: RedisSettings) -> (Arc<RedisConnection>, RedisKeys) {
    keys_on(Arc::new(SystemClock), settings)
}

fn keys_on(clock: Arc<dyn Clock>, settings: RedisSettings) -> (Arc<RedisConnection>, RedisKeys) {
    let link = RedisConnection::keep(settings, vec![RedisUse::Keys], clock, &Tasks::default());
    (Arc::clone(&link), RedisKeys::new(link))
}

/// Idempotency keys with a long timeout, for tests that do not depend on time.
async fn patient(server: &RedisServer) -> (Arc<RedisConnection>, RedisKeys) {
    let mut settings = RedisSettings::parse(&server.url()).unwrap();
    settings.timeout = TIMEOUT;
    let (link, keys) = keys(settings);
    is_available(&link).await;
    (link, keys)
}

fn is_unavailable<T: std::fmt::Debug>(outcome: Result<T, IdempotencyError>) -> bool {
    matches!(outcome, Err(IdempotencyError::Unavailable(_)))
}

#[tokio::test(flavor = "multi_thread")]
async fn faulty_connection_grants_no_claim_and_delays_no_request() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let proxy = Proxy::start(server.port()).await.unwrap();
    let clock = ManualClock::new(start());
    let settings = RedisSettings::parse(&server.url_at(proxy.port())).unwrap();
    let (link, keys) = keys_on(Arc::new(clock.clone()), settings);
    let keys = Arc::new(keys);
    for fault in Fault::ALL {
        is_available(&link).await;
        let claim = processing_request(&format!("{fault:?}"), "t1");
        assert_eq!(keys.claim(&claim).await.unwrap(), None);
        fault.start(&proxy);
        let first = processing_request(&format!("{fault:?}"), "first");
        match fault {
            // The client detects the closed connection only after a moment.
            Fault::Closed => {
                eventually(TIMEOUT, async || {
                    match is_unavailable(without_clock_step(keys.claim(&first)).await) {
                        true => Ok(()),
                        false => Err("Redis is still used".into()),
                    }
                })
                .await;
            }
            Fault::Late | Fault::RequestsLost | Fault::ResponsesLost => {
                let shared_keys = Arc::clone(&keys);
                let first = async move { shared_keys.claim(&first).await };
                assert!(is_unavailable(assert_ends_at_timeout(&clock, first).await), "{fault:?}");
            }
        }
        for n in 0..20 {
            let other = processing_request(&format!("{fault:?}"), &format!("other-{n}"));
            let concluded = completed_request(&claim, "1");
            assert!(is_unavailable(without_clock_step(keys.claim(&other)).await), "{fault:?}");
            assert!(
                is_unavailable(without_clock_step(keys.store_response("t1", &concluded)).await),
                "{fault:?}"
            );
            assert!(is_unavailable(without_clock_step(keys.release(&claim.scope, "t1")).await), "{fault:?}");
        }
        fault.end(&proxy);
    }
    is_available(&link).await;
}

/// Redis may have stored the claim of the failed request. The claim then stays until its lease ends, and no other
/// request gets the key.
#[tokio::test(flavor = "multi_thread")]
async fn key_stays_claimed_until_lease_ends_when_response_to_claim_is_lost() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let proxy = Proxy::start(server.port()).await.unwrap();
    let (link, lossy) = keys(RedisSettings::parse(&server.url_at(proxy.port())).unwrap());
    is_available(&link).await;
    let (_, reliable) = patient(&server).await;
    proxy.set(Traffic { discard_from_server: true, ..Traffic::default() });
    let scope = processing_request("lost", "").scope;
    // The leases are short, because they end by the clock of the Redis server.
    let claim = |token: &str| RequestRecord {
        state: RequestState::Processing {
            until: processing_request("", "").create_time + Duration::from_secs(3),
        },
        scope: scope.clone(),
        ..processing_request("", token)
    };
    assert!(is_unavailable(lossy.claim(&claim("t1")).await));
    eventually(TIMEOUT, async || match reliable.claim(&claim("t2")).await {
        Err(IdempotencyError::InProgress) => Ok(()),
        other => panic!("unexpected result of the claim: {other:?}"),
    })
    .await;
    eventually(TIMEOUT, async || match reliable.claim(&claim("t3")).await {
        Ok(None) => Ok(()),
        Err(IdempotencyError::InProgress) => Err("the lease has not ended".into()),
        other => panic!("{other:?}"),
    })
    .await;
    let late = RequestRecord { token: "t4".into(), ..completed_request(&claim("t1"), "1") };
    assert_eq!(reliable.store_response("t1", &late).await.unwrap(), Changed::None);
}

#[tokio::test(flavor = "multi_thread")]
async fn stored_request_has_documented_layout_and_expires() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let (_, keys) = patient(&server).await;
    let claim = processing_request("key123", "t1");
    assert_eq!(keys.claim(&claim).await.unwrap(), None);
    let mut connection = server.connect().await.unwrap();
    let name = format!("{NAME}key123");
    let mut field = async |field: &str| -> Option<String> {
        redis::cmd("HGET").arg(&name).arg(field).query_async(&mut connection).await.unwrap()
    };
    assert_eq!(field("status").await.unwrap(), "PROCESSING");
    let [since, until, ends] = [field("createdAt").await, field("leaseUntil").await, field("expireAt").await]
        .map(|time| time.unwrap().parse::<i64>().unwrap());
    assert!(since > 1_700_000_000_000, "{since}");
    assert_eq!((until - since, ends - since), (40_000, 86_400_000));
    let answered = RequestRecord { token: "t2".into(), ..completed_request(&claim, "{\"id\":123}") };
    assert_eq!(keys.store_response("t1", &answered).await.unwrap(), Changed::One);
    for (name, value) in
        [("status", "SUCCESS"), ("result", "{\"id\":123}"), ("answerStatus", "201"), ("traceId", "trace-1")]
    {
        assert_eq!(field(name).await.as_deref(), Some(value));
    }
    let left: i64 = redis::cmd("PTTL").arg(&name).query_async(&mut connection).await.unwrap();
    assert!((86_000_000..=86_400_000).contains(&left), "{left}");
    // Redis removes expired keys.
    let soon = claim.create_time + Duration::from_millis(50);
    let brief = RequestRecord { expire_time: soon, ..processing_request("brief", "t1") };
    assert_eq!(keys.claim(&brief).await.unwrap(), None);
    eventually(TIMEOUT, async || {
        let found: i64 =
            redis::cmd("EXISTS").arg(format!("{NAME}brief")).query_async(&mut connection).await?;
        if found == 0 { Ok(()) } else { Err("the key still exists".into()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_stored_request_is_reported_and_too_long_response_is_not_stored() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let (link, keys) = patient(&server).await;
    let mut connection = server.connect().await.unwrap();
    let claim = processing_request("odd", "t9");
    let name = format!("{NAME}odd");
    for words in [
        "SET KEY nonsense",
        "RPUSH KEY 1 2 3",
        "HSET KEY token t1",
        "HSET KEY token t1 bodyHash b traceId t status LOST createdAt 1 expireAt 99999999999999",
        "HSET KEY token t1 bodyHash b traceId t status PROCESSING createdAt 1 expireAt 99999999999999",
        "HSET KEY token t1 bodyHash b traceId t status SUCCESS createdAt 1 expireAt 99999999999999 result x",
        "HSET KEY token t1 bodyHash b traceId t status PROCESSING leaseUntil soon createdAt 1 expireAt 9",
    ] {
        redis::cmd("DEL").arg(&name).exec_async(&mut connection).await.unwrap();
        let mut words_of = words.split(' ').map(|word| if word == "KEY" { name.as_str() } else { word });
        let mut command = redis::cmd(words_of.next().unwrap());
        command.arg(words_of.collect::<Vec<_>>());
        command.exec_async(&mut connection).await.unwrap();
        let refused = keys.claim(&claim).await;
        let is_corrupt =
            matches!(refused, Err(IdempotencyError::Store(StoreError::Corrupt { table: "redis", .. })));
        assert!(is_corrupt, "{words}: {refused:?}");
        let answered = completed_request(&claim, "1");
        assert_eq!(keys.store_response("another", &answered).await.unwrap(), Changed::None, "{words}");
        assert_eq!(keys.release(&claim.scope, "another").await.unwrap(), Changed::None, "{words}");
        assert!(link.is_available(), "{words}: an invalid key must not count as an outage");
    }
    let long = processing_request("long", "t1");
    assert_eq!(keys.claim(&long).await.unwrap(), None);
    let megabyte = "d".repeat(1024 * 1024);
    let answered = |data: &str| RequestRecord { token: "t2".into(), ..completed_request(&long, data) };
    let refused = keys.store_response("t1", &answered(&format!("{megabyte}d"))).await;
    assert!(matches!(refused, Err(IdempotencyError::Store(_))), "{refused:?}");
    assert_eq!(keys.store_response("t1", &answered(&megabyte)).await.unwrap(), Changed::One);
    let again = RequestRecord { token: "t3".into(), ..long };
    let response = StoredResponse { code: 201, text: megabyte };
    assert_eq!(keys.claim(&again).await.unwrap(), Some(response));
}

#[tokio::test(flavor = "multi_thread")]
async fn documented_redis_permissions_are_sufficient() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    server.command("ACL SETUSER reader on >hush ~* +@read +@connection").await.unwrap();
    let as_user = |name: &str| {
        RedisSettings::parse(&format!("redis://{name}:hush@127.0.0.1:{}/0", server.port())).unwrap()
    };
    let error = probe(&as_user("reader"), &[RedisUse::Keys]).await.unwrap_err();
    assert!(error.to_string().contains("no permissions"), "{error}");
    let rights = "ACL SETUSER shop on >hush ~ratelimit:* ~idempotent:* +evalsha +script|load +time +hmget +hset +del \
                  +pexpire";
    server.command(rights).await.unwrap();
    let mut settings = as_user("shop");
    settings.timeout = TIMEOUT;
    probe(&settings, &[RedisUse::Limits, RedisUse::Keys]).await.unwrap();
    let (link, keys) = keys(settings);
    is_available(&link).await;
    let claim = RequestRecord {
        scope: RequestScope { user: user(77), ..processing_request("key", "").scope },
        ..processing_request("key", "t1")
    };
    assert_eq!(keys.claim(&claim).await.unwrap(), None);
    let answered = RequestRecord { token: "t2".into(), ..completed_request(&claim, "1") };
    assert_eq!(keys.store_response("t1", &answered).await.unwrap(), Changed::One);
    assert_eq!(keys.release(&claim.scope, "t2").await.unwrap(), Changed::None);
}
