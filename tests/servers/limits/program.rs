//! The program with rate limits in Redis, as seen by clients and operators.

use handover_tests::client::Api;
use handover_tests::process::{eventually, fresh};
use handover_tests::servers::rabbitmq::Encryption;
use handover_tests::servers::redis::{PASSWORD, RedisServer};

use super::{TIMEOUT, logged, outages_logged};

/// Value of a metric in `/metrics`.
pub(crate) async fn metric(base: &str, name: &str) -> Option<u64> {
    let text = reqwest::get(format!("{base}/metrics")).await.unwrap().text().await.unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn redis_outage_is_logged_once_and_requests_are_served_meanwhile() {
    let redis = RedisServer::start(Encryption::None).await.unwrap();
    let (_folder, launch) = fresh();
    let launch = launch
        .set("HANDOVER_RATE_LIMIT__STORE", "redis")
        .set("HANDOVER_REDIS__URL", &redis.url())
        // The default timeout of 50 ms is too short for a busy machine.
        .set("HANDOVER_REDIS__TIMEOUT", "1s")
        .set("HANDOVER_RATE_LIMIT__CAPACITY", "3")
        .set("HANDOVER_RATE_LIMIT__PER_SECOND", "0.1");
    let server = launch.start().unwrap();
    let expect_metric = async |name: &str, value| {
        eventually(TIMEOUT, async || {
            let found = metric(server.base(), name).await;
            if found == Some(value) { Ok(()) } else { Err(format!("{name} is {found:?}").into()) }
        })
        .await;
    };
    eventually(TIMEOUT, async || {
        if logged(&launch, "redis: connected") == 1 { Ok(()) } else { Err(launch.log().into()) }
    })
    .await;
    let api = Api::of(&server);
    api.issue_tokens(1..=2);
    let request = async |user| {
        let wallet = reqwest::Client::new().get(format!("{}/api/v1/wallet", server.base()));
        wallet.bearer_auth(api.token(user)).send().await.unwrap()
    };
    for left in [2, 1, 0] {
        let response = request(1).await;
        assert_eq!(response.status(), 200);
        let header = response.headers()["ratelimit"].to_str().unwrap().to_owned();
        assert!(header.starts_with(&format!("\"requests\";r={left};t=")), "{header}");
    }
    let refused = request(1).await;
    assert_eq!(refused.status(), 429);
    let retry: u32 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=10).contains(&retry), "{retry}");
    assert!(refused.text().await.unwrap().contains("\"code\":\"A0500\""));
    expect_metric("handover_ratelimit_refused_total", 1).await;
    expect_metric("handover_ratelimit_redis_unavailable", 0).await;
    redis.kill().unwrap();
    assert_eq!(request(2).await.status(), 200, "a request was rejected although its local bucket has tokens");
    assert_eq!(request(1).await.status(), 429, "a request was granted although its local bucket is empty");
    expect_metric("handover_ratelimit_redis_unavailable", 1).await;
    let fallbacks = metric(server.base(), "handover_ratelimit_fallback_total").await;
    assert!(fallbacks >= Some(1), "{fallbacks:?}");
    let outages = outages_logged(&launch, 1).await;
    assert_eq!(request(2).await.status(), 200);
    assert_eq!(outages_logged(&launch, 1).await, outages, "the outage was logged again");
    redis.restart().await.unwrap();
    expect_metric("handover_ratelimit_redis_unavailable", 0).await;
    assert!(outages_logged(&launch, 0).await >= outages);
    assert!(!launch.log().contains(PASSWORD));
    let doctor = |launch: &handover_tests::process::Launch| {
        launch.run(&["doctor", "--listen", "127.0.0.1:0"]).unwrap().1
    };
    let report = doctor(&launch);
    assert!(report.contains("ok    redis") && !report.contains(PASSWORD), "{report}");
    redis.kill().unwrap();
    let report = doctor(&launch);
    assert!(report.contains("warn  redis") && report.contains("applies its own rate limits"), "{report}");
    assert!(!report.contains(PASSWORD), "{report}");
    server.terminate(TIMEOUT).unwrap();
}
