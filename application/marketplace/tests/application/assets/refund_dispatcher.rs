//! Refund requests are sent to the gateway until its report arrives.

use marketplace::RefundSettings;
use marketplace::jobs::RefundDispatcher;
use marketplace_domain::*;
use tokio::time::Instant;

use super::market::{Market, SpentAssets};
use crate::support::{pass, secs};

fn dispatcher(market: &Market) -> RefundDispatcher {
    RefundDispatcher::new(market.app().clone(), RefundSettings::default())
}

#[tokio::test(start_paused = true)]
async fn failed_refund_request_is_retried_with_the_same_key_and_growing_backoff() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
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
async fn accepted_refund_request_is_repeated_until_the_report_arrives() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
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
async fn hanging_gateway_does_not_delay_other_refunds() {
    let market = Market::running().await;
    for _ in 0..6 {
        let order = market.paid(SpentAssets::default()).await;
        market.refund(&order).await;
    }
    *market.gateway.hanging.lock().unwrap() = 5;
    let started = Instant::now();
    assert_eq!(dispatcher(&market).dispatch().await.unwrap(), 6);
    assert_eq!(started.elapsed(), RefundSettings::default().timeout, "the requests are sent concurrently");
    assert_eq!(market.gateway.requests.lock().unwrap().len(), 6);
}

#[tokio::test(start_paused = true)]
async fn one_of_two_dispatchers_sends_the_request() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    market.refund(&order).await;
    let one = dispatcher(&market);
    let two = dispatcher(&market);
    let (one, two) = tokio::join!(one.dispatch(), two.dispatch());
    assert_eq!(one.unwrap() + two.unwrap(), 1);
    assert_eq!(market.gateway.requests.lock().unwrap().len(), 1);
}
