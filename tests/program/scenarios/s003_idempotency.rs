//! 003 §2: a request under one idempotency key has one effect, however often it is sent and whenever the process is
//! killed.

use std::sync::Arc;
use std::time::Duration;

use handover_tests::client::{Api, ApiResponse};
use handover_tests::deployment::Pair;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::shop::{BUYER, SOON, Shop};

const ORDERS: &str = "/api/v1/orders";
const REQUESTS: usize = 100;
/// Another buyer, whose requests never conflict with the concurrent requests of [`BUYER`].
const OTHER_BUYER: i64 = 10_003;

/// Repeats a request until it succeeds, as a client does. Every other response must be one of the documented ones.
async fn request_until_created(api: Api, key: String, body: Value) -> ApiResponse {
    let until = Instant::now() + SOON;
    loop {
        let sent = timeout_at(until, api.post_under(&key, BUYER, ORDERS, body.clone())).await;
        match sent.expect("a response must arrive before the timeout") {
            Ok(response) if response.status == 201 => return response,
            Ok(response) => assert!(
                [(409, "A0401"), (503, "C0001")].contains(&response.outcome()),
                "{:?}",
                response.outcome()
            ),
            // The process was killed; the restarted one will respond.
            Err(_) => {}
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Starts a hundred clients that send the same request concurrently.
async fn concurrent_requests(shop: &Shop, key: &str) -> JoinSet<ApiResponse> {
    let body = json!({ "productId": shop.product().await });
    let barrier = Arc::new(Barrier::new(REQUESTS));
    let mut concurrent_requests = JoinSet::new();
    for _ in 0..REQUESTS {
        let api = shop.api.clone();
        let key = key.to_owned();
        let body = body.clone();
        let barrier = Arc::clone(&barrier);
        concurrent_requests.spawn(async move {
            barrier.wait().await;
            request_until_created(api, key, body).await
        });
    }
    concurrent_requests
}

/// Asserts that all responses are equal. Returns the id of the order.
async fn one_order(concurrent_requests: JoinSet<ApiResponse>) -> i64 {
    let responses: Vec<Value> =
        concurrent_requests.join_all().await.into_iter().map(|response| response.data).collect();
    assert_eq!(responses.len(), REQUESTS);
    assert!(
        responses.iter().all(|response| *response == responses[0]),
        "{:?} is not the only response",
        responses[0]
    );
    responses[0]["orderId"].as_i64().unwrap()
}

async fn s003_2_hundred_identical_requests_have_one_effect(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let order = one_order(concurrent_requests(&shop, "the-key").await).await;
    shop.settled().await;
    assert_eq!(shop.snapshot.number("SELECT count(*) FROM orders").await, 1);
    assert_eq!(shop.events(order).await, ["ORDER_CREATED", "ORDER_TIMEOUT"]);
    // The same key of another user or on another route is a different key.
    let body = json!({ "productId": shop.product().await });
    let others = shop.api.post_under("the-key", OTHER_BUYER, ORDERS, body.clone()).await.unwrap();
    assert_ne!(others.id("orderId"), order);
    let payments = format!("{ORDERS}/{order}/payments");
    shop.api.post_under("the-key", BUYER, &payments, json!({})).await.unwrap().id("paymentId");
    // A different body under the same key is rejected.
    let other = shop.api.post_under("the-key", BUYER, ORDERS, body).await.unwrap();
    assert_eq!(other.outcome(), (422, "A0422"));
    shop.settled().await;
    shop.assert_invariants_except(&[]).await;
}

async fn s003_2_hundred_identical_requests_have_one_effect_when_process_is_killed(pair: Pair) {
    let mut shop = Shop::open(pair, &[("HANDOVER_IDEMPOTENCY__LEASE", "1s")]).await;
    let rounds = if handover_tests::long() { 40 } else { 5 };
    for round in 0..rounds {
        let concurrent_requests = concurrent_requests(&shop, &format!("key-{round}")).await;
        // In each round the process is killed at another time: before the first request, between requests, or after
        // the last one.
        sleep(Duration::from_millis(round * 7 % 41)).await;
        shop = shop.kill_and_reopen();
        one_order(concurrent_requests).await;
    }
    shop.settled().await;
    let rounds = i64::try_from(rounds).unwrap();
    assert_eq!(shop.snapshot.number("SELECT count(*) FROM orders").await, rounds);
    let created = "SELECT count(*) FROM outbox_events WHERE event_type = 'ORDER_CREATED'";
    assert_eq!(shop.snapshot.number(created).await, rounds);
    shop.assert_invariants_except(&[]).await;
}

super::by_turns! {
    s003_2_hundred_identical_requests_have_one_effect,
    s003_2_hundred_identical_requests_have_one_effect_when_process_is_killed: sqlite_and_database,
}
