//! The program with a Redis: what a client and an operator see of it.

use handover_tests::client::Api;
use handover_tests::process::{eventually, fresh};
use handover_tests::servers::rabbitmq::Encryption;
use handover_tests::servers::redis::{PASSWORD, RedisServer};

use super::{PATIENCE, logged, outages_logged};

/// A line of `/metrics`.
pub(crate) async fn metric(base: &str, name: &str) -> Option<u64> {
    let text = reqwest::get(format!("{base}/metrics")).await.unwrap().text().await.unwrap();
    text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn it_says_once_that_redis_is_away_and_once_that_it_is_back_and_serves_all_the_while() {
    let redis = RedisServer::start(Encryption::None).await.unwrap();
    let (_folder, launch) = fresh();
    let launch = launch
        .set("HANDOVER_RATE_LIMIT__STORE", "redis")
        .set("HANDOVER_REDIS__URL", &redis.url())
        // On a busy machine 50 ms are over sooner than Redis is away.
        .set("HANDOVER_REDIS__TIMEOUT", "1s")
        .set("HANDOVER_RATE_LIMIT__CAPACITY", "3")
        .set("HANDOVER_RATE_LIMIT__PER_SECOND", "0.1");
    let server = launch.start().unwrap();
    let is = async |name: &str, value| {
        eventually(PATIENCE, async || {
            let found = metric(server.base(), name).await;
            if found == Some(value) { Ok(()) } else { Err(format!("{name} is {found:?}").into()) }
        })
        .await;
    };
    eventually(PATIENCE, async || {
        if logged(&launch, "Redis is there") == 1 { Ok(()) } else { Err(launch.log().into()) }
    })
    .await;
    let api = Api::of(&server);
    api.sign_in(1..=2);
    let asked = async |user| {
        let wallet = reqwest::Client::new().get(format!("{}/api/v1/wallet", server.base()));
        wallet.bearer_auth(api.token(user)).send().await.unwrap()
    };
    for left in [2, 1, 0] {
        let answer = asked(1).await;
        assert_eq!(answer.status(), 200);
        let told = answer.headers()["ratelimit"].to_str().unwrap().to_owned();
        assert!(told.starts_with(&format!("\"requests\";r={left};t=")), "{told}");
    }
    let refused = asked(1).await;
    assert_eq!(refused.status(), 429);
    let retry: u32 = refused.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=10).contains(&retry), "{retry}");
    assert!(refused.text().await.unwrap().contains("\"code\":\"A0500\""));
    is("handover_ratelimit_refused_total", 1).await;
    is("handover_ratelimit_away", 0).await;
    redis.kill().unwrap();
    assert_eq!(asked(2).await.status(), 200, "it goes on");
    assert_eq!(asked(1).await.status(), 429, "from where it was");
    is("handover_ratelimit_away", 1).await;
    let alone = metric(server.base(), "handover_ratelimit_fallback_total").await;
    assert!(alone >= Some(1), "{alone:?}");
    let outages = outages_logged(&launch, 1).await;
    assert_eq!(asked(2).await.status(), 200);
    assert_eq!(outages_logged(&launch, 1).await, outages, "it says so once");
    redis.restart().await.unwrap();
    is("handover_ratelimit_away", 0).await;
    assert!(outages_logged(&launch, 0).await >= outages);
    assert!(!launch.log().contains(PASSWORD));
    let doctor = |launch: &handover_tests::process::Launch| {
        launch.run(&["doctor", "--listen", "127.0.0.1:0"]).unwrap().1
    };
    let told = doctor(&launch);
    assert!(told.contains("ok    redis") && !told.contains(PASSWORD), "{told}");
    redis.kill().unwrap();
    let told = doctor(&launch);
    assert!(told.contains("warn  redis") && told.contains("limits requests for itself"), "{told}");
    assert!(!told.contains(PASSWORD), "{told}");
    server.terminate(PATIENCE).unwrap();
}
