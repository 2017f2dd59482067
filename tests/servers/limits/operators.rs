//! The program with idempotency keys in Redis: what operators and buyers see of it.

use handover_tests::client::{Api, Caller};
use handover_tests::process::{eventually, fresh};
use handover_tests::servers::rabbitmq::Encryption;
use handover_tests::servers::redis::{PASSWORD, RedisServer};
use serde_json::{Value, json};

use super::program::metric;
use super::{PATIENCE, logged, outages_logged};

const OPERATOR: Caller = Caller::of_tenant(1, 9).operator();
const REDRIVE: &str = "/api/v1/ops/outbox/redrive";
const AWAY: &str = "handover_idempotency_away";

/// An answer, as far as it matters.
#[derive(Debug)]
struct Seen {
    status: u16,
    replayed: bool,
    retry_after: Option<String>,
    body: Value,
}

/// Posts with whatever headers.
async fn posted(base: &str, path: &str, token: &str, key: Option<&str>, body: &Value) -> Seen {
    let mut request = reqwest::Client::new().post(format!("{base}{path}")).bearer_auth(token).json(body);
    if let Some(key) = key {
        request = request.header("Idempotency-Key", key);
    }
    let answer = request.send().await.unwrap();
    let header = |name: &str| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
    let (replayed, retry_after) = (header("idempotent-replayed").is_some(), header("retry-after"));
    Seen { status: answer.status().as_u16(), replayed, retry_after, body: answer.json().await.unwrap() }
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_are_answered_again_as_long_as_redis_remembers_and_refused_while_it_is_away() {
    let redis = RedisServer::start(Encryption::None).await.unwrap();
    let (_folder, launch) = fresh();
    let launch = launch
        .set("HANDOVER_IDEMPOTENCY__STORE", "redis")
        .set("HANDOVER_REDIS__URL", &redis.url())
        // On a busy machine 50 ms are over sooner than Redis is away.
        .set("HANDOVER_REDIS__TIMEOUT", "1s");
    let server = launch.start().unwrap();
    let api = Api::of(&server);
    api.sign_in(1..=2);
    let (operator, base) = (api.token(OPERATOR), server.base());
    let again = json!({"filter": {"status": "SENT"}, "reason": "again"});
    let redrive = async |key: Option<&str>, body: &Value| posted(base, REDRIVE, &operator, key, body).await;
    let audited = async || api.get(OPERATOR, "/api/v1/ops/audit?changes=true").await.unwrap().items().len();
    let is_away = async |away: u64| {
        eventually(PATIENCE, async || {
            let found = metric(base, AWAY).await;
            if found == Some(away) { Ok(()) } else { Err(format!("{AWAY} is {found:?}").into()) }
        })
        .await;
    };
    eventually(PATIENCE, async || {
        if logged(&launch, "Redis is there") == 1 { Ok(()) } else { Err(launch.log().into()) }
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
    // What is on its way cannot be sent again, and what does nothing is no action.
    let sent = async || {
        eventually(PATIENCE, async || {
            let sent = api.get(OPERATOR, "/api/v1/ops/outbox?status=SENT").await.unwrap();
            if sent.items().is_empty() { Err("nothing is sent yet".into()) } else { Ok(()) }
        })
        .await;
    };
    sent().await;

    let first = redrive(Some("k"), &again).await;
    assert_eq!((first.status, first.replayed), (200, false), "{first:?}");
    let repeated = redrive(Some("k"), &again).await;
    assert_eq!((repeated.status, repeated.replayed), (200, true), "{repeated:?}");
    assert_eq!(repeated.body["data"], first.body["data"]);
    let other = redrive(Some("k"), &json!({"filter": {"status": "SENT"}})).await;
    assert_eq!((other.status, &other.body["code"]), (422, &json!("A0422")));
    assert_eq!(audited().await, 1);

    sent().await;
    let mut crowd = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (base, operator, again) = (base.to_owned(), operator.clone(), again.clone());
        crowd.spawn(async move { posted(&base, REDRIVE, &operator, Some("crowd"), &again).await });
    }
    let crowd = crowd.join_all().await;
    let done = crowd.iter().filter(|seen| seen.status == 200 && !seen.replayed).count();
    let told = crowd.iter().all(|seen| seen.status == 200 || seen.body["code"] == "A0401");
    assert!(done == 1 && told, "{crowd:?}");
    assert_eq!(audited().await, 2);

    sent().await;
    redis.kill().unwrap();
    let refused = redrive(Some("k"), &again).await;
    assert_eq!((refused.status, &refused.body["code"]), (503, &json!("C0001")), "{refused:?}");
    assert_eq!(refused.retry_after.as_deref(), Some("5"));
    assert!(refused.body["message"].as_str().unwrap().contains("nothing was done"), "{refused:?}");
    assert_eq!(audited().await, 2, "nothing was done");
    is_away(1).await;
    // Whoever keeps answers with what they tell of does not notice, and neither does readiness.
    let buyer = api.token(2);
    let order = json!({ "productId": products[1] });
    let bought = posted(base, "/api/v1/orders", &buyer, Some("lamp"), &order).await;
    assert_eq!((bought.status, bought.replayed), (201, false), "{bought:?}");
    let repeated = posted(base, "/api/v1/orders", &buyer, Some("lamp"), &order).await;
    assert_eq!((repeated.status, repeated.replayed), (201, true));
    assert_eq!(repeated.body["data"], bought.body["data"]);
    assert_eq!(api.status_of("/readyz").await.unwrap(), 200);
    assert_eq!(redrive(None, &again).await.status, 200, "without a key it needs no Redis");
    assert_eq!(audited().await, 3);

    // It comes back with nothing in it.
    redis.restart().await.unwrap();
    is_away(0).await;
    for (what, audited_by_now) in [("restarted", 4), ("flushed", 5)] {
        sent().await;
        let forgotten = redrive(Some("k"), &again).await;
        assert_eq!((forgotten.status, forgotten.replayed), (200, false), "{what}: {forgotten:?}");
        assert!(redrive(Some("k"), &again).await.replayed, "{what}");
        assert_eq!(audited().await, audited_by_now, "{what}");
        redis.command("FLUSHALL").await.unwrap();
    }
    let outages = outages_logged(&launch, 0).await;
    assert_eq!(logged(&launch, "are refused under an idempotency key"), outages);
    assert!(!launch.log().contains(PASSWORD));

    let doctor = || launch.run(&["doctor", "--listen", "127.0.0.1:0"]).unwrap().1;
    let told = doctor();
    assert!(told.contains("ok    redis") && told.contains("keeps idempotency keys"), "{told}");
    redis.kill().unwrap();
    let told = doctor();
    assert!(told.contains("warn  redis") && told.contains("idempotent:*"), "{told}");
    server.terminate(PATIENCE).unwrap();
}
