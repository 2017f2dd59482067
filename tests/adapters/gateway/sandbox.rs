//! The sandbox, on a clock that stands until it is moved.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use handover_events::Trace;
use handover_memory::ManualClock;
use handover_outbox::Tasks;
use marketplace::ports::{Gateway, RefundRequest};
use marketplace_domain::{Currency, Money, RefundResult};
use marketplace_gateway::{Reports, SandboxGateway};

const DELAY: Duration = Duration::from_secs(1);

/// Keeps what it is told; refuses while it is away.
#[derive(Default)]
struct Desk {
    told: Mutex<Vec<(i64, RefundResult)>>,
    is_away: Mutex<bool>,
}

#[async_trait]
impl Reports for Desk {
    async fn refund_ended(
        &self,
        request: &RefundRequest,
        result: RefundResult,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        if *self.is_away.lock().unwrap() {
            return Err("away".into());
        }
        self.told.lock().unwrap().push((request.refund.get(), result));
        Ok(())
    }
}

struct World {
    clock: ManualClock,
    tasks: Tasks,
    desk: Arc<Desk>,
    sandbox: SandboxGateway,
}

impl World {
    fn new() -> World {
        let clock = ManualClock::new("2026-01-31T08:00:00Z".parse().unwrap());
        let (tasks, desk) = (Tasks::default(), Arc::new(Desk::default()));
        let reports: Arc<dyn Reports> = Arc::<Desk>::clone(&desk);
        let sandbox = SandboxGateway::new(reports, Arc::new(clock.clone()), tasks.clone(), DELAY);
        World { clock, tasks, desk, sandbox }
    }

    /// The gateway is asked, and its report is on its way.
    async fn ask(&self, refund: i64, payment: i64, minor: i64) {
        self.sandbox.refund(&request(refund, payment, minor)).await.unwrap();
        settled().await;
    }

    /// Time passes until what was asked for is reported.
    async fn wait(&self) {
        self.clock.advance(DELAY);
        settled().await;
    }

    fn told(&self) -> Vec<(i64, RefundResult)> {
        self.desk.told.lock().unwrap().clone()
    }
}

/// Lets every task go as far as it can: on one thread a yield is their turn.
async fn settled() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

fn request(refund: i64, payment: i64, minor: i64) -> RefundRequest {
    RefundRequest {
        refund: refund.try_into().unwrap(),
        payment: payment.try_into().unwrap(),
        transaction_id: None,
        order: 3.try_into().unwrap(),
        amount: Money::from_minor(minor).unwrap(),
        currency: Currency::CNY,
        trace: Trace { trace_id: format!("refund-{refund}"), traceparent: None },
    }
}

#[tokio::test]
async fn a_refund_is_reported_as_done_after_the_delay_and_not_before() {
    let world = World::new();
    world.ask(7, 5, 8_850).await;
    world.clock.advance(DELAY - Duration::from_millis(1));
    settled().await;
    assert_eq!(world.told(), []);
    world.clock.advance(Duration::from_millis(1));
    settled().await;
    assert_eq!(world.told(), [(7, RefundResult::Success)]);
}

#[tokio::test]
async fn asked_again_it_reports_again_and_meanwhile_once() {
    let world = World::new();
    world.ask(7, 5, 8_850).await;
    world.ask(7, 5, 8_850).await;
    world.wait().await;
    assert_eq!(world.told(), [(7, RefundResult::Success)], "one report is enough for both");
    world.ask(7, 5, 8_850).await;
    world.wait().await;
    assert_eq!(world.told(), [(7, RefundResult::Success); 2]);
}

#[tokio::test]
async fn a_report_that_nobody_took_comes_again_when_it_is_asked_again() {
    let world = World::new();
    *world.desk.is_away.lock().unwrap() = true;
    world.ask(7, 5, 8_850).await;
    world.wait().await;
    *world.desk.is_away.lock().unwrap() = false;
    world.ask(7, 5, 8_850).await;
    world.wait().await;
    assert_eq!(world.told(), [(7, RefundResult::Success)]);
}

#[tokio::test]
async fn an_amount_that_ends_in_13_fails_for_its_first_refund_and_not_for_the_next() {
    let world = World::new();
    for (refund, payment, minor) in [(1, 1, 13), (1, 1, 13), (2, 1, 13), (3, 2, 8_813), (4, 3, 1_300)] {
        world.ask(refund, payment, minor).await;
        world.wait().await;
    }
    let (success, failed) = (RefundResult::Success, RefundResult::Failed);
    assert_eq!(
        world.told(),
        [(1, failed), (1, failed), (2, success), (3, failed), (4, success)],
        "what was reported of a refund once is reported of it for good"
    );
}

#[tokio::test]
async fn it_stops_with_its_process() {
    let world = World::new();
    world.ask(7, 5, 8_850).await;
    world.tasks.stop().await;
    world.wait().await;
    assert_eq!(world.told(), []);
}
