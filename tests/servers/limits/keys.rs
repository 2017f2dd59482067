//! Idempotency keys in a Redis that goes away, is late, forgets and talks nonsense: nobody gets a claim that Redis did not
//! give, and nobody waits.

use std::sync::Arc;
use std::time::Duration;

use handover_contract::samples::start;
use handover_memory::ManualClock;
use handover_outbox::Tasks;
use handover_outbox::ports::{Changed, Clock, StoreError};
use handover_system::SystemClock;
use handover_tests::keys_rigs::is_there;
use handover_tests::process::eventually;
use handover_tests::servers::proxy::{Proxy, Traffic};
use handover_tests::servers::rabbitmq::Encryption;
use handover_tests::servers::redis::RedisServer;
use marketplace::ports::{
    IdempotencyError, IdempotencyStore, KeptRequest, RequestScope, RequestState, StoredAnswer,
};
use marketplace_contract::samples::{answered_request, kept_request, user};
use marketplace_redis::{Link, RedisKeys, RedisSettings, Use, probe};

use super::{Fault, PATIENCE, at_once, ends_at_its_deadline};

/// Where the requests of [`kept_request`] are, as the README draws it.
const NAME: &str = "idempotent:1:10:19:POST /api/v1/orders:";

fn keys(settings: RedisSettings) -> (Arc<Link>, RedisKeys) {
    keys_on(Arc::new(SystemClock), settings)
}

fn keys_on(clock: Arc<dyn Clock>, settings: RedisSettings) -> (Arc<Link>, RedisKeys) {
    let link = Link::keep(settings, vec![Use::Keys], clock, &Tasks::default());
    (Arc::clone(&link), RedisKeys::new(link))
}

/// Waits for Redis as long as a busy machine needs: for what it decides, and not how fast.
async fn patient(server: &RedisServer) -> (Arc<Link>, RedisKeys) {
    let mut settings = RedisSettings::parse(&server.url()).unwrap();
    settings.timeout = PATIENCE;
    let (link, keys) = keys(settings);
    is_there(&link).await;
    (link, keys)
}

fn is_away<T: std::fmt::Debug>(outcome: Result<T, IdempotencyError>) -> bool {
    matches!(outcome, Err(IdempotencyError::Away(_)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_stalls_or_is_late_hands_out_no_claims_and_keeps_nobody_waiting() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let proxy = Proxy::start(server.port()).await.unwrap();
    let clock = ManualClock::new(start());
    let settings = RedisSettings::parse(&server.url_at(proxy.port())).unwrap();
    let (link, keys) = keys_on(Arc::new(clock.clone()), settings);
    let keys = Arc::new(keys);
    for fault in Fault::ALL {
        is_there(&link).await;
        let claim = kept_request(&format!("{fault:?}"), "t1");
        assert_eq!(keys.claim(&claim).await.unwrap(), None);
        fault.strike(&proxy);
        let first = kept_request(&format!("{fault:?}"), "first");
        match fault {
            // The cut takes a moment to arrive.
            Fault::Closed => {
                eventually(PATIENCE, async || match is_away(at_once(keys.claim(&first)).await) {
                    true => Ok(()),
                    false => Err("Redis is still asked".into()),
                })
                .await;
            }
            Fault::Late | Fault::Deaf | Fault::Dumb => {
                let asked = Arc::clone(&keys);
                let first = async move { asked.claim(&first).await };
                assert!(is_away(ends_at_its_deadline(&clock, first).await), "{fault:?}");
            }
        }
        for n in 0..20 {
            let other = kept_request(&format!("{fault:?}"), &format!("other-{n}"));
            let concluded = answered_request(&claim, "1");
            assert!(is_away(at_once(keys.claim(&other)).await), "{fault:?}");
            assert!(is_away(at_once(keys.conclude("t1", &concluded)).await), "{fault:?}");
            assert!(is_away(at_once(keys.release(&claim.scope, "t1")).await), "{fault:?}");
        }
        fault.end(&proxy);
    }
    is_there(&link).await;
}

/// The request that is refused may have got the key after all: it stands until its lease ends, and nobody else has it.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_whose_answer_was_lost_stands_until_its_lease_ends() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let proxy = Proxy::start(server.port()).await.unwrap();
    let (link, lossy) = keys(RedisSettings::parse(&server.url_at(proxy.port())).unwrap());
    is_there(&link).await;
    let (_, sound) = patient(&server).await;
    proxy.set(Traffic { from_server_vanishes: true, ..Traffic::default() });
    let scope = kept_request("lost", "").scope;
    // Short leases: the clock is the server's own.
    let claim = |token: &str| KeptRequest {
        state: RequestState::Processing { until: kept_request("", "").create_time + Duration::from_secs(3) },
        scope: scope.clone(),
        ..kept_request("", token)
    };
    assert!(is_away(lossy.claim(&claim("t1")).await));
    eventually(PATIENCE, async || match sound.claim(&claim("t2")).await {
        Err(IdempotencyError::InProgress) => Ok(()),
        other => panic!("it has a claim, or none came: {other:?}"),
    })
    .await;
    eventually(PATIENCE, async || match sound.claim(&claim("t3")).await {
        Ok(None) => Ok(()),
        Err(IdempotencyError::InProgress) => Err("its lease has not ended".into()),
        other => panic!("{other:?}"),
    })
    .await;
    let late = KeptRequest { token: "t4".into(), ..answered_request(&claim("t1"), "1") };
    assert_eq!(sound.conclude("t1", &late).await.unwrap(), Changed::None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_looks_as_the_readme_draws_it_and_goes_when_its_time_is_over() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let (_, keys) = patient(&server).await;
    let claim = kept_request("key123", "t1");
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
    let answered = KeptRequest { token: "t2".into(), ..answered_request(&claim, "{\"id\":123}") };
    assert_eq!(keys.conclude("t1", &answered).await.unwrap(), Changed::One);
    for (name, value) in
        [("status", "SUCCESS"), ("result", "{\"id\":123}"), ("answerStatus", "201"), ("traceId", "trace-1")]
    {
        assert_eq!(field(name).await.as_deref(), Some(value));
    }
    let left: i64 = redis::cmd("PTTL").arg(&name).query_async(&mut connection).await.unwrap();
    assert!((86_000_000..=86_400_000).contains(&left), "{left}");
    // What nobody comes for is removed by Redis itself.
    let soon = claim.create_time + Duration::from_millis(50);
    let brief = KeptRequest { expire_time: soon, ..kept_request("brief", "t1") };
    assert_eq!(keys.claim(&brief).await.unwrap(), None);
    eventually(PATIENCE, async || {
        let found: i64 =
            redis::cmd("EXISTS").arg(format!("{NAME}brief")).query_async(&mut connection).await?;
        if found == 0 { Ok(()) } else { Err("it is still there".into()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_request_is_reported_and_an_answer_too_long_is_not_kept() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let (link, keys) = patient(&server).await;
    let mut connection = server.connect().await.unwrap();
    let claim = kept_request("odd", "t9");
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
        let told =
            matches!(refused, Err(IdempotencyError::Store(StoreError::Corrupt { table: "redis", .. })));
        assert!(told, "{words}: {refused:?}");
        let answered = answered_request(&claim, "1");
        assert_eq!(keys.conclude("another", &answered).await.unwrap(), Changed::None, "{words}");
        assert_eq!(keys.release(&claim.scope, "another").await.unwrap(), Changed::None, "{words}");
        assert!(link.is_there(), "{words}: one odd key is no outage");
    }
    let long = kept_request("long", "t1");
    assert_eq!(keys.claim(&long).await.unwrap(), None);
    let megabyte = "d".repeat(1024 * 1024);
    let answered = |data: &str| KeptRequest { token: "t2".into(), ..answered_request(&long, data) };
    let refused = keys.conclude("t1", &answered(&format!("{megabyte}d"))).await;
    assert!(matches!(refused, Err(IdempotencyError::Store(_))), "{refused:?}");
    assert_eq!(keys.conclude("t1", &answered(&megabyte)).await.unwrap(), Changed::One);
    let again = KeptRequest { token: "t3".into(), ..long };
    let answer = StoredAnswer { status: 201, data: megabyte };
    assert_eq!(keys.claim(&again).await.unwrap(), Some(answer));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rights_that_the_readme_names_are_enough() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    server.command("ACL SETUSER reader on >hush ~* +@read +@connection").await.unwrap();
    let as_user = |name: &str| {
        RedisSettings::parse(&format!("redis://{name}:hush@127.0.0.1:{}/0", server.port())).unwrap()
    };
    let told = probe(&as_user("reader"), &[Use::Keys]).await.unwrap_err();
    assert!(told.to_string().contains("no permissions"), "{told}");
    let rights = "ACL SETUSER shop on >hush ~ratelimit:* ~idempotent:* +evalsha +script|load +time +hmget +hset +del \
                  +pexpire";
    server.command(rights).await.unwrap();
    let mut settings = as_user("shop");
    settings.timeout = PATIENCE;
    probe(&settings, &[Use::Limits, Use::Keys]).await.unwrap();
    let (link, keys) = keys(settings);
    is_there(&link).await;
    let claim = KeptRequest {
        scope: RequestScope { user: user(77), ..kept_request("key", "").scope },
        ..kept_request("key", "t1")
    };
    assert_eq!(keys.claim(&claim).await.unwrap(), None);
    let answered = KeptRequest { token: "t2".into(), ..answered_request(&claim, "1") };
    assert_eq!(keys.conclude("t1", &answered).await.unwrap(), Changed::One);
    assert_eq!(keys.release(&claim.scope, "t2").await.unwrap(), Changed::None);
}
