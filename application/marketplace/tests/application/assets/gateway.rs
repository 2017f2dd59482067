//! Refund requests are sent to the gateway until its report arrives.

use marketplace::RefundSettings;
use marketplace::jobs::RefundDispatcher;
use marketplace_domain::*;
use tokio::time::Instant;

use super::market::{Market, With};
use crate::support::{pass, secs};

fn dispatcher(market: &Market) -> RefundDispatcher {
    RefundDispatcher::new(market.app().clone(), RefundSettings::default())
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_does_not_answer_is_asked_again_under_the_same_key_ever_more_rarely() {
    let market = Market::open().await;
    let order = market.paid(With::default()).await;
    let refund = market.refund(&order).await;
    *market.gateway.failures.lock().unwrap() = 2;
    let dispatcher = dispatcher(&market);
    assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
    assert_eq!(dispatcher.dispatch().await.unwrap(), 0, "the retry is not due yet");
    let stored = market.world.view().await.refund_by_id(refund.id).await.unwrap().unwrap();
    assert_eq!((stored.attempts, stored.status), (1, RefundStatus::Processing));
    assert!(stored.last_error.is_some_and(|error| error.contains("no response")));
    pass(secs(6)).await;
    assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
    pass(secs(6)).await;
    assert_eq!(dispatcher.dispatch().await.unwrap(), 0, "the backoff has doubled");
    pass(secs(6)).await;
    assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
    let requests = market.gateway.requests.lock().unwrap().clone();
    let key = format!("refund:{}", refund.id);
    assert_eq!(requests.iter().map(|it| it.idempotency_key()).collect::<Vec<_>>(), [&*key, &*key, &*key]);
    assert!(requests.iter().all(|it| it.amount == order.payable && it.transaction_id.is_some()));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_was_taken_is_made_again_until_the_report_comes_and_then_no_more() {
    let market = Market::open().await;
    let order = market.paid(With::default()).await;
    let refund = market.refund(&order).await;
    let dispatcher = dispatcher(&market);
    assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
    pass(secs(6)).await;
    assert_eq!(
        dispatcher.dispatch().await.unwrap(),
        1,
        "the request is repeated because the report may be lost"
    );
    market.report(&refund, RefundResult::Success).await.unwrap();
    pass(secs(60)).await;
    assert_eq!(dispatcher.dispatch().await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_hangs_holds_up_no_other_refund() {
    let market = Market::open().await;
    for _ in 0..6 {
        let order = market.paid(With::default()).await;
        market.refund(&order).await;
    }
    *market.gateway.hanging.lock().unwrap() = 5;
    let begun = Instant::now();
    assert_eq!(dispatcher(&market).dispatch().await.unwrap(), 6);
    assert_eq!(begun.elapsed(), RefundSettings::default().timeout, "the requests are sent concurrently");
    assert_eq!(market.gateway.requests.lock().unwrap().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn of_two_dispatchers_one_asks() {
    let market = Market::open().await;
    let order = market.paid(With::default()).await;
    market.refund(&order).await;
    let (one, two) = (dispatcher(&market), dispatcher(&market));
    let (one, two) = tokio::join!(one.dispatch(), two.dispatch());
    assert_eq!(one.unwrap() + two.unwrap(), 1);
    assert_eq!(market.gateway.requests.lock().unwrap().len(), 1);
}
