//! A gateway for trying out: in the process itself, without money.
//!
//! It says yes to every refund. But where an amount ends in .13 the first refund of a payment fails, under its id for
//! good; the next refund of that payment, which an operator or the buyer asks for, succeeds. What it remembers for that
//! does not outlive the process.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use handover_outbox::Tasks;
use handover_outbox::ports::Clock;
use marketplace::ports::{Gateway, GatewayError, RefundRequest};
use marketplace_domain::{PaymentId, RefundId, RefundResult};

/// The cents of an amount that fails first.
const UNLUCKY: i64 = 13;

/// Who is told what became of a refund, in place of a signed callback.
#[async_trait]
pub trait Reports: Send + Sync {
    /// That refund ended so. What goes wrong here is told to nobody: the gateway is asked again, and reports again.
    async fn refund_ended(
        &self,
        request: &RefundRequest,
        result: RefundResult,
    ) -> Result<(), Box<dyn Error + Send + Sync>>;
}

/// A gateway for trying out.
pub struct SandboxGateway {
    reports: Arc<dyn Reports>,
    clock: Arc<dyn Clock>,
    tasks: Tasks,
    delay: Duration,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Default)]
struct Memory {
    /// Whose report is still to come.
    coming: BTreeSet<RefundId>,
    /// The refund of a payment that fails.
    failing: BTreeMap<PaymentId, RefundId>,
}

impl SandboxGateway {
    /// Reports that long after it was asked, as a task of this process.
    pub fn new(
        reports: Arc<dyn Reports>,
        clock: Arc<dyn Clock>,
        tasks: Tasks,
        delay: Duration,
    ) -> SandboxGateway {
        SandboxGateway { reports, clock, tasks, delay, memory: Arc::default() }
    }
}

impl Memory {
    fn result(&mut self, request: &RefundRequest) -> RefundResult {
        if request.amount.minor() % 100 != UNLUCKY {
            return RefundResult::Success;
        }
        let failing = *self.failing.entry(request.payment).or_insert(request.refund);
        if failing == request.refund { RefundResult::Failed } else { RefundResult::Success }
    }
}

#[async_trait]
impl Gateway for SandboxGateway {
    async fn refund(&self, request: &RefundRequest) -> Result<(), GatewayError> {
        let result = {
            let mut memory = locked(&self.memory);
            if !memory.coming.insert(request.refund) {
                return Ok(());
            }
            memory.result(request)
        };
        let (request, reports, memory) =
            (request.clone(), Arc::clone(&self.reports), Arc::clone(&self.memory));
        let (clock, delay, stopping) = (Arc::clone(&self.clock), self.delay, self.tasks.stopping().clone());
        let report = async move {
            tokio::select! {
                biased;
                // The refund is asked for again after the next start.
                () = stopping.cancelled() => return,
                () = clock.sleep(delay) => {}
            }
            locked(&memory).coming.remove(&request.refund);
            if let Err(error) = reports.refund_ended(&request, result).await {
                tracing::warn!(%error, refundId = %request.refund, orderId = %request.order,
                    "[Sandbox] a report was not taken; it comes again when the gateway is asked again");
            }
        };
        drop(self.tasks.spawn(report));
        Ok(())
    }
}

fn locked(memory: &Mutex<Memory>) -> MutexGuard<'_, Memory> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}
