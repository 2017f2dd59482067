//! The program with idempotency keys in Redis, as seen by operators and buyers.

use handover_tests::client::{Api, Caller};
use handover_tests::process::{eventually, fresh};
use handover_tests::servers::rabbitmq::Encryption;
use handover_tests::servers::redis::{PASSWORD, RedisServer};
use serde_json::{Value, json};

use super::program::metric;
use super::{TIMEOUT, logged, outages_logged};

const OPERATOR: Caller = Caller::of_tenant(1, 9).operator();
const REDRIVE: &str = "/api/v1/ops/outbox/redrive";
const UNAVAILABLE: &str = "handover_idempotency_redis_unavailable";

/// The parts of a response that the test checks.
#[derive(Debug)]
struct SeenResponse {
    status: u16,
    replayed: bool,
    retry_after: Option<String>,
    body: Value,
}

/// Posts a body with a token and, optionally, an idempotency key.
async fn post(base: &str, path: &str, token: &str, key: Option<&str>, body: &Value) -> SeenResponse {
    let mut request = reqwest::Client::new().post(format!("{base}{path}")).bearer_auth(token).json(body);
    if let Some(key) = key {
        request = request.header("Idempotency-Key", key);
    }
    let response = request.send().await.unwrap();
    let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let replayed = header("idempotent-replayed").is_some();
    let retry_after = header("retry-after");
    SeenResponse {
        status: response.status().as_u16(),
        replayed,
        retry_after,
        body: response.json().await.unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_responses_are_replayed_from_redis_and_requests_refused_during_outage() {
    let redis = RedisServer::start(Encryption::None).await.unwrap();
    let (_folder, launch) = fresh();
    let launch = launch
        .set("HANDOVER_IDEMPOTENCY__STORE", "redis")
        .set("HANDOVER_REDIS__URL", &redis.url())
        // The default timeout of 50 ms is too short for a busy machine.
        .set("HANDOVER_REDIS__TIMEOUT", "1s");
    let server = launch.start().unwrap();
    let api = Api::of(&server);
    api.issue_tokens(1..=2);
    let operator = api.token(OPERATOR);
    let base = server.base();
    let command = json!({"filter": {"status": "SENT"}, "reason": "again"});
    let redrive = async |key: Option<&str>, body: &Value| post(base, REDRIVE, &operator, key, body).await;
    let audit_entries =
        async || api.get(OPERATOR, "/api/v1/ops/audit?changes=true").await.unwrap().items().len();
    let expect_unavailable = async |expected: u64| {
        eventually(TIMEOUT, async || {
            let found = metric(base, UNAVAILABLE).await;
            if found == Some(expected) { Ok(()) } else { Err(format!("{UNAVAILABLE} is {found:?}").into()) }
        })
        .await;
    };
    eventually(TIMEOUT, async || {
        if logged(&launch, "redis: connected") == 1 { Ok(()) } else { Err(launch.log().into()) }
    })
    .await;
    let products: Vec<i64> = {
        let mut products = Vec::new();
        for title in ["lamp", "desk", "chair"] {
            products.push(api.list_product(1, title).await.unwrap().id("productId"));
        }
        products
    };
    assert!(api.place_order(2, products[0]).await.unwrap().done());
    // The redrives below select SENT events, so one must be SENT first; a command that changes nothing writes no audit
    // entry.
    let sent = async || {
        eventually(TIMEOUT, async || {
            let sent = api.get(OPERATOR, "/api/v1/ops/outbox?status=SENT").await.unwrap();
            if sent.items().is_empty() { Err("nothing is sent yet".into()) } else { Ok(()) }
        })
        .await;
    };
    sent().await;

    let first = redrive(Some("k"), &command).await;
    assert_eq!((first.status, first.replayed), (200, false), "{first:?}");
    let repeated = redrive(Some("k"), &command).await;
    assert_eq!((repeated.status, repeated.replayed), (200, true), "{repeated:?}");
    assert_eq!(repeated.body["data"], first.body["data"]);
    let other = redrive(Some("k"), &json!({"filter": {"status": "SENT"}})).await;
    assert_eq!((other.status, &other.body["code"]), (422, &json!("A0422")));
    assert_eq!(audit_entries().await, 1);

    sent().await;
    let mut responses = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let base = base.to_owned();
        let operator = operator.clone();
        let command = command.clone();
        responses.spawn(async move { post(&base, REDRIVE, &operator, Some("concurrent"), &command).await });
    }
    let responses = responses.join_all().await;
    let done = responses.iter().filter(|seen| seen.status == 200 && !seen.replayed).count();
    let valid = responses.iter().all(|seen| seen.status == 200 || seen.body["code"] == "A0401");
    assert!(done == 1 && valid, "{responses:?}");
    assert_eq!(audit_entries().await, 2);

    sent().await;
    redis.kill().unwrap();
    let refused = redrive(Some("k"), &command).await;
    assert_eq!((refused.status, &refused.body["code"]), (503, &json!("C0001")), "{refused:?}");
    assert_eq!(refused.retry_after.as_deref(), Some("5"));
    assert!(refused.body["message"].as_str().unwrap().contains("nothing was done"), "{refused:?}");
    assert_eq!(audit_entries().await, 2, "the refused redrive wrote an audit entry");
    expect_unavailable(1).await;
    // The outage of Redis does not affect readiness and routes whose responses are stored in the database.
    let buyer = api.token(2);
    let order = json!({ "productId": products[1] });
    let bought = post(base, "/api/v1/orders", &buyer, Some("lamp"), &order).await;
    assert_eq!((bought.status, bought.replayed), (201, false), "{bought:?}");
    let repeated = post(base, "/api/v1/orders", &buyer, Some("lamp"), &order).await;
    assert_eq!((repeated.status, repeated.replayed), (201, true));
    assert_eq!(repeated.body["data"], bought.body["data"]);
    assert_eq!(api.status_of("/readyz").await.unwrap(), 200);
    assert_eq!(
        redrive(None, &command).await.status,
        200,
        "a request without a key was rejected during the outage of Redis"
    );
    assert_eq!(audit_entries().await, 3);

    // Redis restarts without data.
    redis.restart().await.unwrap();
    expect_unavailable(0).await;
    for (what, expected_entries) in [("restarted", 4), ("flushed", 5)] {
        sent().await;
        let forgotten = redrive(Some("k"), &command).await;
        assert_eq!((forgotten.status, forgotten.replayed), (200, false), "{what}: {forgotten:?}");
        assert!(redrive(Some("k"), &command).await.replayed, "{what}");
        assert_eq!(audit_entries().await, expected_entries, "{what}");
        redis.command("FLUSHALL").await.unwrap();
    }
    let outages = outages_logged(&launch, 0).await;
    assert_eq!(logged(&launch, "requests with an idempotency key are rejected"), outages);
    assert!(!launch.log().contains(PASSWORD));

    let doctor = || launch.run(&["doctor", "--listen", "127.0.0.1:0"]).unwrap().1;
    let report = doctor();
    assert!(report.contains("ok    redis") && report.contains("stores idempotency keys"), "{report}");
    redis.kill().unwrap();
    let report = doctor();
    assert!(report.contains("warn  redis") && report.contains("idempotent:*"), "{report}");
    server.terminate(TIMEOUT).unwrap();
}
