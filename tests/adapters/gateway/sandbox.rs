//! The sandbox gateway on a manual clock.

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use handover_events::Trace;
use handover_memory::ManualClock;
use handover_outbox::Tasks;
use marketplace::ports::{Gateway, RefundRequest};
use marketplace_domain::{Currency, Money, OrderId, RefundResult};
use marketplace_gateway::{RefundReports, SandboxGateway};

const DELAY: Duration = Duration::from_secs(1);

/// Records reports. While `is_unavailable` is set, each report fails.
#[derive(Default)]
struct RecordingReports {
    received: Mutex<Vec<(i64, RefundResult)>>,
    is_unavailable: Mutex<bool>,
}

#[async_trait]
impl RefundReports for RecordingReports {
    async fn refund_ended(
        &self,
        request: &RefundRequest,
        result: RefundResult,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        if *self.is_unavailable.lock().unwrap() {
            return Err("unavailable".into());
        }
        self.received.lock().unwrap().push((request.refund.get(), result));
        Ok(())
    }
}

struct World {
    clock: ManualClock,
    tasks: Tasks,
    reports: Arc<RecordingReports>,
    sandbox: SandboxGateway,
}

impl World {
    fn new() -> World {
        let clock = ManualClock::new("2026-01-31T08:00:00Z".parse().unwrap());
        let tasks = Tasks::default();
        let reports = Arc::new(RecordingReports::default());
        let port: Arc<dyn RefundReports> = Arc::<RecordingReports>::clone(&reports);
        let sandbox = SandboxGateway::new(port, Arc::new(clock.clone()), tasks.clone(), DELAY);
        World { clock, tasks, reports, sandbox }
    }

    /// Requests a refund and waits until its report is scheduled.
    async fn refund(&self, refund: i64, payment: i64, minor: i64) {
        self.attempt(request(refund, payment, minor), 1).await;
    }

    /// Like [`World::refund`], for the attempt with this number.
    async fn attempt(&self, request: RefundRequest, attempt: u32) {
        let key = format!("refund {} attempt {attempt}", request.refund);
        self.sandbox.refund(&RefundRequest { key, ..request }).await.unwrap();
        run_tasks().await;
    }

    /// Advances the clock by `DELAY`, after which a scheduled report is sent.
    async fn pass_delay(&self) {
        self.clock.advance(DELAY);
        run_tasks().await;
    }

    fn received(&self) -> Vec<(i64, RefundResult)> {
        self.reports.received.lock().unwrap().clone()
    }
}

/// Runs every task until it waits: on a single thread, a yield lets the other tasks run.
async fn run_tasks() {
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
}

fn request(refund: i64, payment: i64, minor: i64) -> RefundRequest {
    RefundRequest {
        refund: refund.try_into().unwrap(),
        reference: None,
        key: String::new(),
        payment_reference: None,
        payment: payment.try_into().unwrap(),
        transaction_id: None,
        of: OrderId::try_from(3).unwrap().into(),
        amount: Money::from_minor(minor).unwrap(),
        currency: Currency::CNY,
        trace: Trace { trace_id: format!("refund-{refund}"), traceparent: None },
    }
}

#[tokio::test]
async fn refund_is_reported_after_delay_and_not_before() {
    let world = World::new();
    world.refund(7, 5, 8_850).await;
    world.clock.advance(DELAY - Duration::from_millis(1));
    run_tasks().await;
    assert_eq!(world.received(), []);
    world.clock.advance(Duration::from_millis(1));
    run_tasks().await;
    assert_eq!(world.received(), [(7, RefundResult::Success)]);
}

#[tokio::test]
async fn repeated_request_is_reported_once_while_pending_and_again_afterwards() {
    let world = World::new();
    world.refund(7, 5, 8_850).await;
    world.refund(7, 5, 8_850).await;
    world.pass_delay().await;
    assert_eq!(world.received(), [(7, RefundResult::Success)], "the two requests must cause one report");
    world.refund(7, 5, 8_850).await;
    world.pass_delay().await;
    assert_eq!(world.received(), [(7, RefundResult::Success); 2]);
}

#[tokio::test]
async fn failed_report_is_sent_again_when_request_is_repeated() {
    let world = World::new();
    *world.reports.is_unavailable.lock().unwrap() = true;
    world.refund(7, 5, 8_850).await;
    world.pass_delay().await;
    *world.reports.is_unavailable.lock().unwrap() = false;
    world.refund(7, 5, 8_850).await;
    world.pass_delay().await;
    assert_eq!(world.received(), [(7, RefundResult::Success)]);
}

#[tokio::test]
async fn amount_ending_in_13_fails_for_first_refund_and_succeeds_for_next() {
    let world = World::new();
    for (refund, payment, minor) in [(1, 1, 13), (1, 1, 13), (2, 1, 13), (3, 2, 8_813), (4, 3, 1_300)] {
        world.refund(refund, payment, minor).await;
        world.pass_delay().await;
    }
    let success = RefundResult::Success;
    let failed = RefundResult::Failed;
    assert_eq!(
        world.received(),
        [(1, failed), (1, failed), (2, success), (3, failed), (4, success)],
        "the result of a refund must never change"
    );
}

#[tokio::test]
async fn retry_of_failed_refund_is_a_new_attempt_that_succeeds() {
    let world = World::new();
    for attempt in [1, 1, 2, 2, 1] {
        world.attempt(request(1, 1, 13), attempt).await;
        world.pass_delay().await;
    }
    let success = (1, RefundResult::Success);
    let failed = (1, RefundResult::Failed);
    assert_eq!(
        world.received(),
        [failed, failed, success, success, failed],
        "the result of an attempt is final"
    );
}

#[tokio::test]
async fn stopped_process_sends_no_report() {
    let world = World::new();
    world.refund(7, 5, 8_850).await;
    world.tasks.stop().await;
    world.pass_delay().await;
    assert_eq!(world.received(), []);
}
