//! The limiter of two processes that share a Redis.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use handover_contract::samples::start;
use handover_memory::ManualClock;
use handover_outbox::Tasks;
use handover_outbox::ports::Clock;
use handover_system::SystemClock;
use handover_tests::limiter_rigs::shares;
use handover_tests::process::eventually;
use handover_tests::servers::proxy::Proxy;
use handover_tests::servers::rabbitmq::Encryption;
use handover_tests::servers::redis::RedisServer;
use marketplace::ports::{Bucket, LimitKey, Party, RateLimiter, Taken};
use marketplace_limiter::LocalLimiter;
use marketplace_redis::{Link, RedisLimiter, RedisSettings, Use, probe};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::load::{Load, within_limits};
use super::{Fault, PATIENCE, at_once, ends_at_its_deadline};

fn bucket(capacity: u32, every_us: u64) -> Bucket {
    Bucket::new(NonZeroU32::new(capacity).unwrap(), every_us).unwrap()
}

fn key(route: &str) -> LimitKey {
    LimitKey { route: Arc::from(route), party: Party::at("192.0.2.1".parse().unwrap()) }
}

/// The limiter of a process of its own.
fn process(url: &str) -> Arc<RedisLimiter> {
    started(RedisSettings::parse(url).unwrap())
}

/// One that waits for Redis as long as a busy machine needs: for what Redis decides, and not how fast.
fn patient(url: &str) -> Arc<RedisLimiter> {
    let mut settings = RedisSettings::parse(url).unwrap();
    settings.timeout = PATIENCE;
    started(settings)
}

fn started(settings: RedisSettings) -> Arc<RedisLimiter> {
    started_on(Arc::new(SystemClock), settings)
}

fn started_on(clock: Arc<dyn Clock>, settings: RedisSettings) -> Arc<RedisLimiter> {
    let link = Link::keep(settings, vec![Use::Limits], clock, &Tasks::default());
    Arc::new(RedisLimiter::new(link, Arc::new(LocalLimiter::default())))
}

/// Waits until no process asks Redis.
async fn away(processes: &[Arc<RedisLimiter>]) {
    eventually(PATIENCE, async || match processes.iter().any(|limiter| limiter.is_shared()) {
        true => Err("Redis is still asked".into()),
        false => Ok(()),
    })
    .await;
}

async fn shared(processes: &[Arc<RedisLimiter>]) {
    for limiter in processes {
        shares(limiter).await;
    }
}

async fn drained(limiter: &RedisLimiter, key: &LimitKey, bucket: Bucket) -> u32 {
    let mut taken = 0;
    while let Taken::Token { .. } = limiter.take(key, bucket).await {
        taken += 1;
    }
    taken
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_share_one_bucket() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let [one, two] = [patient(&server.url()), patient(&server.url())];
    shares(&one).await;
    shares(&two).await;
    let (key, slow) = (key("shared"), bucket(10, 600_000_000));
    for limiter in [&one, &two, &one, &two, &one, &two] {
        assert!(matches!(limiter.take(&key, slow).await, Taken::Token { .. }));
    }
    assert_eq!(drained(&one, &key, slow).await + drained(&two, &key, slow).await, 4);
    // What it looks like there, as 003 draws it.
    let mut connection = server.connect().await.unwrap();
    let name = format!("ratelimit:{key}");
    let kept: Vec<Option<u64>> = redis::cmd("HMGET")
        .arg(&name)
        .arg("tokens")
        .arg("lastRefillTime")
        .query_async(&mut connection)
        .await
        .unwrap();
    assert!(kept[0] == Some(0) && kept[1].unwrap() > 1_700_000_000_000_000, "{kept:?}");
    let expires: i64 = redis::cmd("PTTL").arg(&name).query_async(&mut connection).await.unwrap();
    assert!((11_000_000..=12_001_000).contains(&expires), "twice as long as it takes to fill: {expires}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_redis_does_requests_go_on_and_no_process_lets_in_more_than_alone() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let processes = [process(&server.url()), process(&server.url())];
    shared(&processes).await;
    let (key, bucket) = (key("under load"), bucket(20, 10_000));
    let load = |limiter: &Arc<RedisLimiter>| Load::start(limiter.clone(), &key, bucket, 4);
    let loads = processes.each_ref().map(load);
    let phase = Duration::from_millis(700);
    tokio::time::sleep(phase).await;
    server.kill().unwrap();
    away(&processes).await;
    for load in &loads {
        load.lets_in().await;
    }
    server.restart().await.unwrap();
    shared(&processes).await;
    server.command("FLUSHALL").await.unwrap();
    server.command("SCRIPT FLUSH").await.unwrap();
    tokio::time::sleep(phase).await;
    server.pause().unwrap();
    away(&processes).await;
    for load in &loads {
        load.lets_in().await;
    }
    server.go_on().unwrap();
    shared(&processes).await;
    let mut all = Vec::new();
    for load in loads {
        let asked = load.stop().await;
        within_limits(&asked, bucket, 1);
        all.extend(asked);
    }
    // Two processes apart are two limits, and never more.
    within_limits(&all, bucket, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_stalls_or_is_late_is_left_for_another() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let proxy = Proxy::start(server.port()).await.unwrap();
    let clock = ManualClock::new(start());
    let settings = RedisSettings::parse(&server.url_at(proxy.port())).unwrap();
    let limiter = started_on(Arc::new(clock.clone()), settings);
    let (key, bucket) = (key("proxied"), bucket(1000, 1000));
    for fault in Fault::ALL {
        shares(&limiter).await;
        fault.strike(&proxy);
        match fault {
            // The cut takes a moment to arrive.
            Fault::Closed => {
                eventually(PATIENCE, async || {
                    let taken = at_once(limiter.take(&key, bucket)).await;
                    assert!(matches!(taken, Taken::Token { .. }), "{fault:?}");
                    if limiter.is_shared() { Err("Redis is still asked".into()) } else { Ok(()) }
                })
                .await;
            }
            Fault::Late | Fault::Deaf | Fault::Dumb => {
                let (asked, of) = (Arc::clone(&limiter), key.clone());
                let first = async move { asked.take(&of, bucket).await };
                let taken = ends_at_its_deadline(&clock, first).await;
                assert!(matches!(taken, Taken::Token { .. }), "{fault:?}");
            }
        }
        assert!(!limiter.is_shared(), "{fault:?}");
        // From now on nobody waits for it.
        for _ in 0..20 {
            assert!(matches!(at_once(limiter.take(&key, bucket)).await, Taken::Token { .. }), "{fault:?}");
        }
        fault.end(&proxy);
    }
    shares(&limiter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_no_bucket_becomes_one() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let (key, bucket) = (key("odd"), bucket(2, 600_000_000));
    let mut connection = server.connect().await.unwrap();
    let name = format!("ratelimit:{key}");
    let odd = |words: &str| words.replace("KEY", "ratelimit:odd:address:192.0.2.1");
    assert_eq!(odd("KEY"), name);
    for words in [
        "SET KEY nonsense",
        "RPUSH KEY 1 2 3",
        "HSET KEY tokens many lastRefillTime x",
        "HSET KEY tokens nan lastRefillTime nan",
        "HSET KEY tokens -5 lastRefillTime -5",
        "HSET KEY tokens 1e300 lastRefillTime 0",
        "HSET KEY tokens 1 lastRefillTime 1e300",
    ] {
        redis::cmd("DEL").arg(&name).exec_async(&mut connection).await.unwrap();
        server.command(&odd(words)).await.unwrap();
        let limiter = patient(&server.url());
        shares(&limiter).await;
        let taken = drained(&limiter, &key, bucket).await;
        assert!((1..=2).contains(&taken), "{words}: {taken}");
        assert!(limiter.is_shared(), "{words}");
        let kind: String = redis::cmd("TYPE").arg(&name).query_async(&mut connection).await.unwrap();
        assert_eq!(kind, "hash", "{words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_talks_nonsense_is_not_asked() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut part = [0; 4096];
                while let Ok(1..) = stream.read(&mut part).await {
                    if stream.write_all(b"+OK\r\n").await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    let settings = RedisSettings::parse(&format!("redis://127.0.0.1:{port}")).unwrap();
    assert!(probe(&settings, &[Use::Limits]).await.is_err());
    let limiter = started(settings);
    let slow = bucket(3, 600_000_000);
    assert_eq!(drained(&limiter, &key("nonsense"), slow).await, 3);
    assert!(!limiter.is_shared());
    serving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_password_and_a_user_without_rights_are_told_by_the_probe() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let probed = async |url: &str| probe(&RedisSettings::parse(url).unwrap(), &[Use::Limits]).await;
    probed(&server.url()).await.unwrap();
    let wrong = format!("redis://:another@127.0.0.1:{}/0", server.port());
    let told = probed(&wrong).await.unwrap_err().to_string();
    assert!(told.contains("authentication failed") && !told.contains("another"), "{told}");
    server.command("ACL SETUSER reader on >hush ~* +@read +@connection").await.unwrap();
    let told = probed(&format!("redis://reader:hush@127.0.0.1:{}/0", server.port())).await.unwrap_err();
    assert!(told.to_string().contains("no permissions"), "{told}");
    // What the README says is enough is enough.
    let rights =
        "ACL SETUSER limiter on >hush ~ratelimit:* +evalsha +script|load +time +hmget +hset +del +pexpire";
    server.command(rights).await.unwrap();
    probed(&format!("redis://limiter:hush@127.0.0.1:{}/0", server.port())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_encrypted_connection_checks_the_certificate() {
    let server = RedisServer::start(Encryption::Offered).await.unwrap();
    let (url, authorities) = server.encrypted_url().unwrap();
    let trusting = RedisSettings::parse(&url).unwrap().trusting(&authorities).unwrap();
    probe(&trusting, &[Use::Limits]).await.unwrap();
    let limiter = started(trusting);
    shares(&limiter).await;
    // Its authority is none of the machine's, and its name is localhost.
    assert!(probe(&RedisSettings::parse(&url).unwrap(), &[Use::Limits]).await.is_err());
    let by_address = url.replace("localhost", "127.0.0.1");
    let by_address = RedisSettings::parse(&by_address).unwrap().trusting(&authorities).unwrap();
    assert!(probe(&by_address, &[Use::Limits]).await.is_err());
}
