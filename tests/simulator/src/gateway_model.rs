//! Model of the payment gateway: its payments, its refunds, and the reports that it still has to send.
//!
//! It decides the result of a payment or refund once. A repeated refund request has the same result, which is reported
//! again. It may capture a payment more than once, or over another amount, and may contradict its own reports.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use marketplace::ports::RefundRequest;
use marketplace_domain::{Money, Payment, PaymentId, PaymentResult, RefundId, RefundResult};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::fault_kinds::Fault;
use super::faults::Faults;

/// The gateway of all processes of a run. Clones share the state.
#[derive(Clone)]
pub(crate) struct GatewayModel {
    faults: Faults,
    state: Arc<Mutex<GatewayState>>,
    reports: Arc<Notify>,
}

#[derive(Default)]
struct GatewayState {
    results: BTreeMap<PaymentId, PaymentResult>,
    /// Captured amounts by payment and gateway transaction.
    captured: BTreeMap<(PaymentId, String), Money>,
    refunds: BTreeMap<RefundId, GatewayRefund>,
    /// Pending reports, with the time when they are due.
    due: Vec<(Instant, RefundId)>,
}

/// A refund that was requested from the gateway.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GatewayRefund {
    pub(crate) payment: PaymentId,
    pub(crate) amount: Money,
    pub(crate) result: RefundResult,
    /// Whether the gateway has reported the opposite result; the application may not have received this report.
    pub(crate) is_contradicted: bool,
}

impl GatewayModel {
    pub(crate) fn new(faults: Faults) -> GatewayModel {
        GatewayModel { faults, state: Arc::default(), reports: Arc::default() }
    }

    /// Result of a payment, which is decided at the first call.
    pub(crate) fn decide(&self, payment: &Payment) -> PaymentResult {
        if let Some(result) = self.state().results.get(&payment.id) {
            return *result;
        }
        let fails = self.faults.random.permille(150);
        let result = if fails { PaymentResult::Failed } else { PaymentResult::Success };
        self.state().results.insert(payment.id, result);
        result
    }

    /// Captures an amount for a payment.
    pub(crate) fn capture(&self, payment: PaymentId, transaction_id: &str, amount: Money) {
        self.state().captured.insert((payment, transaction_id.to_owned()), amount);
    }

    /// Amount captured by a transaction; `None` if there was no such transaction.
    pub(crate) fn captured(&self, payment: PaymentId, transaction_id: &str) -> Option<Money> {
        self.state().captured.get(&(payment, transaction_id.to_owned())).copied()
    }

    /// Amount captured by all transactions of a payment, in minor units.
    fn received_minor(&self, payment: PaymentId) -> i64 {
        let state = self.state();
        let of_payment = state.captured.iter().filter(|((it, _), _)| *it == payment);
        of_payment.map(|(_, amount)| amount.minor()).sum()
    }

    /// Notes that the gateway is about to report the opposite result of a refund.
    pub(crate) fn contradict(&self, refund: RefundId) {
        if let Some(refund) = self.state().refunds.get_mut(&refund) {
            refund.is_contradicted = true;
        }
    }

    /// All requested refunds.
    pub(crate) fn refunds(&self) -> BTreeMap<RefundId, GatewayRefund> {
        self.state().refunds.clone()
    }

    /// Accepts a refund request, new or repeated.
    pub(crate) fn accept_refund(&self, request: &RefundRequest) {
        let earlier = self.state().refunds.get(&request.refund).copied();
        match earlier {
            Some(earlier) if (earlier.payment, earlier.amount) != (request.payment, request.amount) => {
                self.faults.violation(format!(
                    "refund {} was for payment {} with amount {}, the repeated request is for payment {} with amount {}",
                    request.refund, earlier.payment, earlier.amount, request.payment, request.amount
                ));
            }
            Some(_) => {}
            None => self.accept_new_refund(request),
        }
        if self.faults.occurs(Fault::ReportLost) {
            return;
        }
        let random = &self.faults.random;
        let wait = if self.faults.occurs(Fault::ReportedBeforeResponse) {
            Duration::ZERO
        } else if self.faults.occurs(Fault::ReportedLate) {
            random.millis(3_000..10_000)
        } else {
            random.millis(20..1_500)
        };
        let due = Instant::now() + wait;
        let mut state = self.state();
        state.due.push((due, request.refund));
        if self.faults.occurs(Fault::ReportedAgain) {
            state.due.push((due + random.millis(0..3_000), request.refund));
        }
        drop(state);
        self.reports.notify_one();
    }

    fn accept_new_refund(&self, request: &RefundRequest) {
        let fails = self.faults.occurs(Fault::RefundFails);
        let result = if fails { RefundResult::Failed } else { RefundResult::Success };
        let received_minor = self.received_minor(request.payment);
        let mut state = self.state();
        let live = state.refunds.values().filter(|it| {
            it.payment == request.payment && it.result == RefundResult::Success && !it.is_contradicted
        });
        let refunded_minor: i64 = live.map(|it| it.amount.minor()).sum();
        let refund = GatewayRefund {
            payment: request.payment,
            amount: request.amount,
            result,
            is_contradicted: false,
        };
        state.refunds.insert(request.refund, refund);
        drop(state);
        if refunded_minor + request.amount.minor() > received_minor {
            self.faults.violation(format!(
                "refund {} exceeds the payment: {received_minor} received by payment {}, {refunded_minor} refunded, {} requested",
                request.refund,
                request.payment,
                request.amount.minor()
            ));
        }
    }

    /// Waits until the next report is due.
    pub(crate) async fn next_report(&self) -> RefundId {
        loop {
            let next = self.state().due.iter().copied().min();
            let Some((due, refund)) = next else {
                self.reports.notified().await;
                continue;
            };
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let mut state = self.state();
                if let Some(place) = state.due.iter().position(|it| *it == (due, refund)) {
                    state.due.swap_remove(place);
                }
                return refund;
            }
            tokio::select! {
                biased;
                () = self.reports.notified() => {}
                () = self.faults.sleep(left) => {}
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, GatewayState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
