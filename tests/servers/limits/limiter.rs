//! The limiter of two processes that share a Redis server.

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
use marketplace::ports::{Bucket, LimitKey, Party, RateLimitDecision, RateLimiter};
use marketplace_limiter::LocalLimiter;
use marketplace_redis::{RedisConnection, RedisLimiter, RedisSettings, RedisUse, probe};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::load::{Load, assert_within_limits};
use super::{Fault, TIMEOUT, assert_ends_at_timeout, without_clock_step};

fn bucket(capacity: u32, every_us: u64) -> Bucket {
    Bucket::new(NonZeroU32::new(capacity).unwrap(), every_us).unwrap()
}

fn key(route: &str) -> LimitKey {
    LimitKey { route: Arc::from(route), party: Party::at("192.0.2.1".parse().unwrap()) }
}

/// A limiter like that of a separate process.
fn process(url: &str) -> Arc<RedisLimiter> {
    started(RedisSettings::parse(url).unwrap())
}

/// A limiter with a long timeout, for tests that do not depend on time.
fn patient(url: &str) -> Arc<RedisLimiter> {
    let mut settings = RedisSettings::parse(url).unwrap();
    settings.timeout = TIMEOUT;
    started(settings)
}

fn started(settings: RedisSettings) -> Arc<RedisLimiter> {
    started_on(Arc::new(SystemClock), settings)
}

fn started_on(clock: Arc<dyn Clock>, settings: RedisSettings) -> Arc<RedisLimiter> {
    let link = RedisConnection::keep(settings, vec![RedisUse::Limits], clock, &Tasks::default());
    Arc::new(RedisLimiter::new(link, Arc::new(LocalLimiter::default())))
}

/// Waits until no process uses Redis.
async fn wait_until_unavailable(processes: &[Arc<RedisLimiter>]) {
    eventually(TIMEOUT, async || match processes.iter().any(|limiter| limiter.is_shared()) {
        true => Err("Redis is still used".into()),
        false => Ok(()),
    })
    .await;
}

async fn shared(processes: &[Arc<RedisLimiter>]) {
    for limiter in processes {
        shares(limiter).await;
    }
}

async fn take_all(limiter: &RedisLimiter, key: &LimitKey, bucket: Bucket) -> u32 {
    let mut taken = 0;
    while let RateLimitDecision::Token { .. } = limiter.take(key, bucket).await {
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
    let key = key("shared");
    let slow = bucket(10, 600_000_000);
    for limiter in [&one, &two, &one, &two, &one, &two] {
        assert!(matches!(limiter.take(&key, slow).await, RateLimitDecision::Token { .. }));
    }
    assert_eq!(take_all(&one, &key, slow).await + take_all(&two, &key, slow).await, 4);
    // Redis contains the bucket in the layout that document 003 specifies.
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
    assert!(
        (11_000_000..=12_001_000).contains(&expires),
        "the key expires in {expires} ms, not in twice the time that fills the bucket"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_continue_during_redis_faults_and_no_process_exceeds_its_limit() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let processes = [process(&server.url()), process(&server.url())];
    shared(&processes).await;
    let key = key("under load");
    let bucket = bucket(20, 10_000);
    let load = |limiter: &Arc<RedisLimiter>| Load::start(limiter.clone(), &key, bucket, 4);
    let loads = processes.each_ref().map(load);
    let phase = Duration::from_millis(700);
    tokio::time::sleep(phase).await;
    server.kill().unwrap();
    wait_until_unavailable(&processes).await;
    for load in &loads {
        load.wait_for_grant().await;
    }
    server.restart().await.unwrap();
    shared(&processes).await;
    server.command("FLUSHALL").await.unwrap();
    server.command("SCRIPT FLUSH").await.unwrap();
    tokio::time::sleep(phase).await;
    server.pause().unwrap();
    wait_until_unavailable(&processes).await;
    for load in &loads {
        load.wait_for_grant().await;
    }
    server.resume().unwrap();
    shared(&processes).await;
    let mut all = Vec::new();
    for load in loads {
        let results = load.stop().await;
        assert_within_limits(&results, bucket, 1);
        all.extend(results);
    }
    // Without Redis each process applies its own limit, so the two processes together grant at most twice the limit.
    assert_within_limits(&all, bucket, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn faulty_connection_is_replaced() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let proxy = Proxy::start(server.port()).await.unwrap();
    let clock = ManualClock::new(start());
    let settings = RedisSettings::parse(&server.url_at(proxy.port())).unwrap();
    let limiter = started_on(Arc::new(clock.clone()), settings);
    let key = key("proxied");
    let bucket = bucket(1000, 1000);
    for fault in Fault::ALL {
        shares(&limiter).await;
        fault.start(&proxy);
        match fault {
            // The client detects the closed connection only after a moment.
            Fault::Closed => {
                eventually(TIMEOUT, async || {
                    let taken = without_clock_step(limiter.take(&key, bucket)).await;
                    assert!(matches!(taken, RateLimitDecision::Token { .. }), "{fault:?}");
                    if limiter.is_shared() { Err("Redis is still used".into()) } else { Ok(()) }
                })
                .await;
            }
            Fault::Late | Fault::RequestsLost | Fault::ResponsesLost => {
                let shared_limiter = Arc::clone(&limiter);
                let of = key.clone();
                let first = async move { shared_limiter.take(&of, bucket).await };
                let taken = assert_ends_at_timeout(&clock, first).await;
                assert!(matches!(taken, RateLimitDecision::Token { .. }), "{fault:?}");
            }
        }
        assert!(!limiter.is_shared(), "{fault:?}");
        // After the limiter has detected the fault, no request waits for Redis.
        for _ in 0..20 {
            assert!(
                matches!(
                    without_clock_step(limiter.take(&key, bucket)).await,
                    RateLimitDecision::Token { .. }
                ),
                "{fault:?}"
            );
        }
        fault.end(&proxy);
    }
    shares(&limiter).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_bucket_in_redis_is_replaced() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let key = key("invalid");
    let bucket = bucket(2, 600_000_000);
    let mut connection = server.connect().await.unwrap();
    let name = format!("ratelimit:{key}");
    let command = |words: &str| words.replace("KEY", "ratelimit:invalid:address:192.0.2.1");
    assert_eq!(command("KEY"), name);
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
        server.command(&command(words)).await.unwrap();
        let limiter = patient(&server.url());
        shares(&limiter).await;
        let taken = take_all(&limiter, &key, bucket).await;
        assert!((1..=2).contains(&taken), "{words}: {taken}");
        assert!(limiter.is_shared(), "{words}");
        let kind: String = redis::cmd("TYPE").arg(&name).query_async(&mut connection).await.unwrap();
        assert_eq!(kind, "hash", "{words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_with_invalid_responses_is_not_used() {
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
    assert!(probe(&settings, &[RedisUse::Limits]).await.is_err());
    let limiter = started(settings);
    let slow = bucket(3, 600_000_000);
    assert_eq!(take_all(&limiter, &key("nonsense"), slow).await, 3);
    assert!(!limiter.is_shared());
    serving.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn probe_reports_wrong_password_and_missing_permissions() {
    let server = RedisServer::start(Encryption::None).await.unwrap();
    let probed = async |url: &str| probe(&RedisSettings::parse(url).unwrap(), &[RedisUse::Limits]).await;
    probed(&server.url()).await.unwrap();
    let wrong = format!("redis://:another@127.0.0.1:{}/0", server.port());
    let error = probed(&wrong).await.unwrap_err().to_string();
    assert!(error.contains("authentication failed") && !error.contains("another"), "{error}");
    server.command("ACL SETUSER reader on >hush ~* +@read +@connection").await.unwrap();
    let error = probed(&format!("redis://reader:hush@127.0.0.1:{}/0", server.port())).await.unwrap_err();
    assert!(error.to_string().contains("no permissions"), "{error}");
    // The permissions documented in the README are sufficient.
    let rights =
        "ACL SETUSER limiter on >hush ~ratelimit:* +evalsha +script|load +time +hmget +hset +del +pexpire";
    server.command(rights).await.unwrap();
    probed(&format!("redis://limiter:hush@127.0.0.1:{}/0", server.port())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn tls_connection_checks_certificate() {
    let server = RedisServer::start(Encryption::Offered).await.unwrap();
    let (url, authorities) = server.encrypted_url().unwrap();
    let with_ca_certificates =
        RedisSettings::parse(&url).unwrap().with_ca_certificates(&authorities).unwrap();
    probe(&with_ca_certificates, &[RedisUse::Limits]).await.unwrap();
    let limiter = started(with_ca_certificates);
    shares(&limiter).await;
    // A client without the certificate authority rejects the certificate. The certificate is valid only for the host
    // name localhost.
    assert!(probe(&RedisSettings::parse(&url).unwrap(), &[RedisUse::Limits]).await.is_err());
    let by_address = url.replace("localhost", "127.0.0.1");
    let by_address = RedisSettings::parse(&by_address).unwrap().with_ca_certificates(&authorities).unwrap();
    assert!(probe(&by_address, &[RedisUse::Limits]).await.is_err());
}
