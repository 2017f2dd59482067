//! 003 §2: one request under one idempotency key has one effect, however often it comes and whatever dies.

use std::sync::Arc;
use std::time::Duration;

use handover_tests::client::{Answer, Api};
use handover_tests::deployment::Pair;
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::shop::{BUYER, SOON, Shop};

const ORDERS: &str = "/api/v1/orders";
const CROWD: usize = 100;
/// Somebody else bought on the way; nothing here is so far apart.
const STRANGER: i64 = 10_003;

/// Asks until it is answered, as a client does that wants to know; what it is told on the way must be explained.
async fn answered(api: Api, key: String, body: Value) -> Answer {
    let until = Instant::now() + SOON;
    loop {
        let asked = timeout_at(until, api.post_under(&key, BUYER, ORDERS, body.clone())).await;
        match asked.expect("it is answered in the end") {
            Ok(answer) if answer.status == 201 => return answer,
            Ok(answer) => assert!(
                [(409, "A0401"), (503, "C0001")].contains(&answer.outcome()),
                "{:?}",
                answer.outcome()
            ),
            // The process died, and another one will answer.
            Err(_) => {}
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// A hundred clients who ask for the same at the same moment.
async fn crowd(shop: &Shop, key: &str) -> JoinSet<Answer> {
    let body = json!({ "productId": shop.product().await });
    let barrier = Arc::new(Barrier::new(CROWD));
    let mut crowd = JoinSet::new();
    for _ in 0..CROWD {
        let (api, key, body, barrier) =
            (shop.api.clone(), key.to_owned(), body.clone(), Arc::clone(&barrier));
        crowd.spawn(async move {
            barrier.wait().await;
            answered(api, key, body).await
        });
    }
    crowd
}

/// All of them were answered the same; the id of the order.
async fn one_order(crowd: JoinSet<Answer>) -> i64 {
    let answers: Vec<Value> = crowd.join_all().await.into_iter().map(|answer| answer.data).collect();
    assert_eq!(answers.len(), CROWD);
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{:?} is not the only answer", answers[0]);
    answers[0]["orderId"].as_i64().unwrap()
}

async fn s003_2_of_a_hundred_identical_requests_one_has_an_effect(pair: Pair) {
    let shop = Shop::open(pair, &[]).await;
    let order = one_order(crowd(&shop, "the-key").await).await;
    shop.settled().await;
    assert_eq!(shop.books.number("SELECT count(*) FROM orders").await, 1);
    assert_eq!(shop.events(order).await, ["ORDER_CREATED", "ORDER_TIMEOUT"]);
    // The key of another user, and on another route, is another key.
    let body = json!({ "productId": shop.product().await });
    let others = shop.api.post_under("the-key", STRANGER, ORDERS, body.clone()).await.unwrap();
    assert_ne!(others.id("orderId"), order);
    let payments = format!("{ORDERS}/{order}/payments");
    shop.api.post_under("the-key", BUYER, &payments, json!({})).await.unwrap().id("paymentId");
    // Another body under it is another request.
    let other = shop.api.post_under("the-key", BUYER, ORDERS, body).await.unwrap();
    assert_eq!(other.outcome(), (422, "A0422"));
    shop.settled().await;
    shop.sound_but_for(&[]).await;
}

async fn s003_2_a_hundred_identical_requests_are_one_also_if_the_process_is_killed_between(pair: Pair) {
    let mut shop = Shop::open(pair, &[("HANDOVER_IDEMPOTENCY__LEASE", "1s")]).await;
    let rounds = if handover_tests::long() { 40 } else { 5 };
    for round in 0..rounds {
        let crowd = crowd(&shop, &format!("key-{round}")).await;
        // Before the first, among them, after the last.
        sleep(Duration::from_millis(round * 7 % 41)).await;
        shop = shop.killed_and_reopened();
        one_order(crowd).await;
    }
    shop.settled().await;
    let rounds = i64::try_from(rounds).unwrap();
    assert_eq!(shop.books.number("SELECT count(*) FROM orders").await, rounds);
    let created = "SELECT count(*) FROM outbox_events WHERE event_type = 'ORDER_CREATED'";
    assert_eq!(shop.books.number(created).await, rounds);
    shop.sound_but_for(&[]).await;
}

super::by_turns! {
    s003_2_of_a_hundred_identical_requests_one_has_an_effect,
    s003_2_a_hundred_identical_requests_are_one_also_if_the_process_is_killed_between: sqlite_and_database,
}
