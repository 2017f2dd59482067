//! Refund requests are sent to the gateway until its report arrives.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use handover_outbox::operations::Reason;
use handover_outbox::ports::{Changed, Store as _};
use handover_outbox::state::StateSource as _;
use marketplace::CommandContext;
use marketplace::jobs::RefundDispatcher;
use marketplace::ports::{Gateway, GatewayError, MockGateway, RefundRequest};
use marketplace::{ConsistencySettings, MarketState, RefundSettings};
use marketplace_domain::*;
use tokio::time::Instant;

use super::market::{Market, SpentAssets, operator};
use crate::support::{BUYER, UNSTORABLE, by, eventually, pass, secs};

fn dispatcher(market: &Market, gateway: Arc<dyn Gateway>) -> RefundDispatcher {
    RefundDispatcher { tx: market.app().tx.clone(), gateway, settings: RefundSettings::default() }
}

#[tokio::test(start_paused = true)]
async fn failed_refund_request_is_retried_with_the_same_key_and_growing_backoff() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let refund = market.refund(&order).await;
    let key = refund.reference.unwrap().to_string();
    let is_expected = move |request: &RefundRequest| {
        let amount = request.amount == order.payable;
        request.key == key && amount && request.transaction_id.is_some()
    };
    let mut gateway = MockGateway::new();
    gateway
        .expect_refund()
        .withf(is_expected.clone())
        .times(2)
        .returning(|_| Err(GatewayError::Unavailable("no response".into())));
    gateway.expect_refund().withf(is_expected).once().returning(|_| Ok(()));
    let dispatcher = dispatcher(&market, Arc::new(gateway));
    assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
    assert_eq!(dispatcher.dispatch().await.unwrap(), 0, "the request was repeated before the retry was due");
    let stored = market.world.view().await.refund_by_id(refund.id).await.unwrap().unwrap();
    assert_eq!((stored.attempts, stored.status), (1, RefundStatus::Processing));
    assert!(stored.last_error.is_some_and(|error| error.contains("no response")));
    pass(secs(6)).await;
    assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
    pass(secs(6)).await;
    assert_eq!(
        dispatcher.dispatch().await.unwrap(),
        0,
        "the request was repeated before the doubled backoff had passed"
    );
    pass(secs(6)).await;
    assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
}

/// Requests of an attempt that a retry replaced are shown, too.
#[tokio::test(start_paused = true)]
async fn each_request_of_a_refund_is_an_item_of_the_operators_timeline() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let refund = market.refund(&order).await;
    let mut gateway = MockGateway::new();
    gateway.expect_refund().once().returning(|_| Err(GatewayError::Unavailable("no response".into())));
    gateway.expect_refund().times(2).returning(|_| Ok(()));
    let dispatcher = dispatcher(&market, Arc::new(gateway));
    for _ in 0..2 {
        assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
        pass(secs(6)).await;
    }
    market.report(&refund, RefundResult::Failed).await.unwrap();
    let reason = Reason::new("the account is open again".to_owned()).unwrap();
    market.app().operations.retry_refund(&operator(), refund.id, reason).await.unwrap();
    assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
    let shown = async |context: CommandContext| {
        let timeline = market.app().operations.timeline(&context, None, order.id).await.unwrap();
        let sent = timeline.items.into_iter().filter(|item| item.what.ends_with("sent to the gateway"));
        sent.map(|item| (item.at, item.what, item.detail)).collect::<Vec<_>>()
    };
    let requests = shown(operator()).await;
    let text = |request: u32, attempt: u32| {
        format!("request {request} of attempt {attempt} at refund {} sent to the gateway", refund.id)
    };
    let texts: Vec<&str> = requests.iter().map(|(_, what, _)| what.as_str()).collect();
    assert_eq!(texts, [text(1, 1), text(2, 1), text(1, 2)]);
    assert!(requests.is_sorted_by(|(before, ..), (after, ..)| before < after), "{requests:?}");
    let errors: Vec<bool> = requests.iter().map(|(.., error)| error.is_some()).collect();
    assert_eq!(errors, [true, false, false]);
    assert!(requests[0].2.as_ref().unwrap().contains("no response"), "{requests:?}");
    assert_eq!(shown(by(BUYER)).await, [], "the parties do not see them");
}

/// An earlier version recorded only how many requests the current attempt had.
#[tokio::test(start_paused = true)]
async fn requests_that_an_earlier_version_sent_are_one_item_of_the_timeline() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let refund = market.refund(&order).await;
    let now = market.app().tx.now();
    let counted = refund.with_attempt(now, now).with_error("no response".to_owned(), now);
    let counted = Refund { attempts: 7, version: refund.version + 1, ..counted };
    let mut unit = market.world.store.begin().await.unwrap();
    assert_eq!(unit.advance_refund(&counted).await.unwrap(), Changed::One);
    unit.commit().await.unwrap();
    let sent = async || {
        let timeline = market.app().operations.timeline(&operator(), None, order.id).await.unwrap();
        let sent = timeline.items.into_iter().filter(|item| item.what.ends_with("sent to the gateway"));
        sent.map(|item| (item.what, item.attempts, item.detail)).collect::<Vec<_>>()
    };
    let of_attempt = format!("attempt 1 at refund {} sent to the gateway", refund.id);
    assert_eq!(sent().await, [(of_attempt.clone(), Some(7), Some("no response".to_owned()))]);
    let mut gateway = MockGateway::new();
    gateway.expect_refund().once().returning(|_| Ok(()));
    assert_eq!(dispatcher(&market, Arc::new(gateway)).dispatch().await.unwrap(), 1);
    let earlier = (format!("earlier requests of {of_attempt}"), Some(7), None);
    assert_eq!(sent().await, [earlier, (format!("request 8 of {of_attempt}"), None, None)]);
}

#[tokio::test(start_paused = true)]
async fn open_refunds_are_counted_with_the_age_of_the_oldest() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    market.refund(&order).await;
    pass(secs(70)).await;
    let state = MarketState::of(market.app(), &ConsistencySettings::default());
    let samples = state.read().await.unwrap();
    let value = |name: &str, labels: &[&str]| {
        let found = samples.iter().find(|sample| sample.metric.name == name && sample.labels == labels);
        found.unwrap().value
    };
    assert_eq!(value("handover.refunds", &["PROCESSING"]), 1.0);
    assert_eq!(value("handover.refunds", &["FAILED"]), 0.0);
    let age = value("handover.refund.oldest.seconds", &[]);
    assert!((70.0..80.0).contains(&age), "{age}");
}

/// Refunds of two orders; the second one was requested later.
async fn two_refunds(market: &Market) -> [Refund; 2] {
    let mut refunds = Vec::new();
    for _ in 0..2 {
        let order = market.paid(SpentAssets::default()).await;
        refunds.push(market.refund(&order).await);
        pass(secs(1)).await;
    }
    refunds.try_into().unwrap()
}

#[tokio::test(start_paused = true)]
async fn refund_whose_payment_is_unreadable_does_not_stop_other_refunds() {
    let market = Market::running().await;
    let [unreadable, other] = two_refunds(&market).await;
    market.process.faults.corrupt_payment(unreadable.payment);
    let mut gateway = MockGateway::new();
    gateway.expect_refund().withf(move |request| request.refund == other.id).once().returning(|_| Ok(()));
    let settings = RefundSettings { concurrency: std::num::NonZeroU32::MIN, ..RefundSettings::default() };
    let dispatcher = RefundDispatcher { settings, ..dispatcher(&market, Arc::new(gateway)) };
    assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
    assert_eq!(dispatcher.dispatch().await.unwrap(), 0);
    market.process.faults.set_unavailable(true);
    assert!(dispatcher.dispatch().await.unwrap_err().is_outage());
}

#[tokio::test(start_paused = true)]
async fn outcome_that_cannot_be_stored_does_not_prevent_the_record_of_others() {
    let market = Market::running().await;
    let [first, other] = two_refunds(&market).await;
    let mut gateway = MockGateway::new();
    let of_first = first.id;
    gateway.expect_refund().times(2).returning(move |request| {
        let error = if request.refund == of_first { UNSTORABLE } else { "no response" };
        Err(GatewayError::Unavailable(error.to_owned()))
    });
    assert_eq!(dispatcher(&market, Arc::new(gateway)).dispatch().await.unwrap(), 2);
    let error = async |refund: RefundId| {
        market.world.view().await.refund_by_id(refund).await.unwrap().unwrap().last_error
    };
    assert_eq!(error(first.id).await, None);
    assert!(error(other.id).await.unwrap().contains("no response"));
}

#[tokio::test(start_paused = true)]
async fn accepted_refund_request_is_repeated_until_the_report_arrives() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let refund = market.refund(&order).await;
    let mut gateway = MockGateway::new();
    gateway.expect_refund().times(2).returning(|_| Ok(()));
    let dispatcher = dispatcher(&market, Arc::new(gateway));
    assert_eq!(dispatcher.dispatch().await.unwrap(), 1);
    pass(secs(6)).await;
    assert_eq!(
        dispatcher.dispatch().await.unwrap(),
        1,
        "the request must be repeated because the report may be lost"
    );
    market.report(&refund, RefundResult::Success).await.unwrap();
    pass(secs(60)).await;
    assert_eq!(dispatcher.dispatch().await.unwrap(), 0);
}

/// A payment gateway that never completes its first five requests. A mock cannot do this: its replies are not futures.
#[derive(Default)]
struct HangingGateway {
    requests: AtomicU32,
}

#[async_trait]
impl Gateway for HangingGateway {
    async fn refund(&self, _: &RefundRequest) -> Result<(), GatewayError> {
        if self.requests.fetch_add(1, Ordering::Relaxed) < 5 {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

#[tokio::test(start_paused = true)]
async fn hanging_gateway_does_not_delay_other_refunds() {
    let market = Market::running().await;
    for _ in 0..6 {
        let order = market.paid(SpentAssets::default()).await;
        market.refund(&order).await;
    }
    let gateway = Arc::new(HangingGateway::default());
    let started = Instant::now();
    assert_eq!(dispatcher(&market, gateway.clone()).dispatch().await.unwrap(), 6);
    assert_eq!(
        started.elapsed(),
        RefundSettings::default().timeout,
        "the requests must be sent concurrently"
    );
    assert_eq!(gateway.requests.load(Ordering::Relaxed), 6);
}

/// A payment gateway whose first response is an error, and which does not answer afterwards.
#[derive(Default)]
struct FailsThenHangs {
    requests: AtomicU32,
}

#[async_trait]
impl Gateway for FailsThenHangs {
    async fn refund(&self, _: &RefundRequest) -> Result<(), GatewayError> {
        if self.requests.fetch_add(1, Ordering::Relaxed) > 0 {
            std::future::pending::<()>().await;
        }
        Err(GatewayError::Unavailable("no response".into()))
    }
}

#[tokio::test(start_paused = true)]
async fn request_that_the_end_of_the_process_interrupts_is_due_at_once_and_not_counted() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    let refund = market.refund(&order).await;
    let gateway = Arc::new(FailsThenHangs::default());
    dispatcher(&market, gateway.clone()).start();
    eventually(secs(60), async || gateway.requests.load(Ordering::Relaxed) == 2).await;
    let stopping = Instant::now();
    market.app().tx.tasks().stop().await;
    assert!(stopping.elapsed() >= secs(5), "requests in flight get five seconds");
    let stored = market.world.view().await.refund_by_id(refund.id).await.unwrap().unwrap();
    assert_eq!((stored.attempts, stored.status), (1, RefundStatus::Processing));
    assert!(stored.next_attempt_time.unwrap() <= stored.update_time, "{stored:?}");
    assert!(
        stored.last_error.unwrap().contains("no response"),
        "the interruption is no error of the gateway"
    );
    let requests = market.world.view().await.refund_requests(refund.id, 9).await.unwrap();
    let [interrupted, failed] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((failed.number, interrupted.number), (1, 2));
    assert!(interrupted.error.as_ref().unwrap().contains("the process ended"), "{requests:?}");
}

#[tokio::test(start_paused = true)]
async fn only_one_of_two_dispatchers_sends_a_due_refund_request() {
    let market = Market::running().await;
    let order = market.paid(SpentAssets::default()).await;
    market.refund(&order).await;
    let mut gateway = MockGateway::new();
    gateway.expect_refund().once().returning(|_| Ok(()));
    let gateway = Arc::new(gateway);
    let one = dispatcher(&market, gateway.clone());
    let two = dispatcher(&market, gateway);
    let (one, two) = tokio::join!(one.dispatch(), two.dispatch());
    assert_eq!(one.unwrap() + two.unwrap(), 1);
}
