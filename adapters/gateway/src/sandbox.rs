//! In-process gateway for demos and tests. It moves no money.
//!
//! It accepts every refund. If the amount ends in .13, the first attempt at a refund of a payment fails permanently, for all
//! requests with its key; the next attempt (an operator's retry, or another refund of that payment) succeeds. The state is
//! lost when the process ends.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use handover_outbox::Tasks;
use handover_outbox::ports::Clock;
use marketplace::ports::{Gateway, GatewayError, RefundRequest};
use marketplace_domain::{InvoiceId, OrderId, PaymentId, RefundResult};

/// If an amount has these cents, the first attempt at a refund of a payment fails.
const FAILING_CENTS: i64 = 13;

/// Receives the results of refunds. A real gateway sends them in a signed callback instead.
#[async_trait]
pub trait RefundReports: Send + Sync {
    /// Reports the result of a refund. After an error the report is repeated with the next request for the refund.
    async fn refund_ended(
        &self,
        request: &RefundRequest,
        result: RefundResult,
    ) -> Result<(), Box<dyn Error + Send + Sync>>;
}

pub struct SandboxGateway {
    reports: Arc<dyn RefundReports>,
    clock: Arc<dyn Clock>,
    tasks: Tasks,
    delay: Duration,
    state: Arc<Mutex<SandboxState>>,
}

#[derive(Default)]
struct SandboxState {
    /// Keys of the requests with a pending report.
    pending: BTreeSet<String>,
    /// For each payment, the key of the first request whose amount ends in .13: all requests with this key fail.
    failing: BTreeMap<PaymentId, String>,
}

impl SandboxGateway {
    /// Creates a sandbox that reports each result after `delay`, from a task of this process.
    pub fn new(
        reports: Arc<dyn RefundReports>,
        clock: Arc<dyn Clock>,
        tasks: Tasks,
        delay: Duration,
    ) -> SandboxGateway {
        SandboxGateway { reports, clock, tasks, delay, state: Arc::default() }
    }
}

impl SandboxState {
    fn result(&mut self, request: &RefundRequest) -> RefundResult {
        if request.amount.minor() % 100 != FAILING_CENTS {
            return RefundResult::Success;
        }
        let failing = self.failing.entry(request.payment).or_insert_with(|| request.key.clone());
        if *failing == request.key { RefundResult::Failed } else { RefundResult::Success }
    }
}

#[async_trait]
impl Gateway for SandboxGateway {
    async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError> {
        let result = {
            let mut state = locked(&self.state);
            if !state.pending.insert(request.key.clone()) {
                return Ok(());
            }
            state.result(request)
        };
        let request = request.clone();
        let reports = Arc::clone(&self.reports);
        let state = Arc::clone(&self.state);
        let clock = Arc::clone(&self.clock);
        let delay = self.delay;
        let stopping = self.tasks.stopping().clone();
        let report = async move {
            tokio::select! {
                biased;
                // A stop drops the report; the service requests the refund again after its next start.
                () = stopping.cancelled() => return,
                () = clock.sleep(delay) => {}
            }
            locked(&state).pending.remove(&request.key);
            if let Err(error) = reports.refund_ended(&request, result).await {
                let order = request.of.order().map(OrderId::get);
                let invoice = request.of.invoice().map(InvoiceId::get);
                tracing::warn!(code = "gateway.sandbox-report-failed", %error, refundId = %request.refund, orderId = order, invoiceId = invoice,
                    "[Sandbox] refund report failed; it is repeated with the next request for the refund");
            }
        };
        drop(self.tasks.spawn(report));
        Ok(())
    }
}

fn locked(state: &Mutex<SandboxState>) -> MutexGuard<'_, SandboxState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
