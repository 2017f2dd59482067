//! Payments: the buyer starts a payment, and the gateway reports the result, repeatedly if a report fails.

use marketplace::use_cases::{PaymentCommandRefusal, SettlePayment, StartPayment, UseCaseError};
use marketplace::{App, ReportedName};
use marketplace_domain::{Money, Order, Payment, PaymentId, PaymentMethod, PaymentResult, Settlement};

use super::journal::{ClientResponse, Journal};
use super::{ActorState, by_gateway, by_user};
use crate::fault_kinds::Fault;
use crate::faults::Faults;
use crate::gateway_model::GatewayModel;

/// Maximum number of attempts of a buyer whose order still waits for locks.
const TRIES: usize = 4;

/// The buyer pays, then the gateway reports the result.
pub(super) async fn pay(app: &App, state: &ActorState, order: &Order) {
    let ActorState { faults, journal, .. } = state;
    let who = format!("buyer {}", order.buyer);
    let mut tries = TRIES;
    let payment = loop {
        let context = by_user(faults, order.tenant, order.buyer);
        let start = StartPayment { order: order.id, method: Some(PaymentMethod::Card) };
        match app.payments.start(&context, start).await {
            Ok(started) => break started.payment,
            Err(error) => {
                journal.record_error(&who, &context, &error);
                tries -= 1;
                if tries == 0 || !wait_for_locks(faults, &error).await {
                    return;
                }
            }
        }
    };
    if payment.of != order.id.into() {
        faults
            .violation(format!("paying order {} returned payment {} of another order", order.id, payment.id));
    }
    if payment.amount == Money::ZERO {
        // Assets cover the whole price, so the gateway receives nothing.
        faults.cover(|coverage| coverage.situation("payment that assets cover completely"));
        return journal.record(&who, ClientResponse::PaymentSettled(payment.id));
    }
    report_result(app, state, &payment).await;
}

/// The gateway reports the result of a payment.
pub(super) async fn report_result(app: &App, state: &ActorState, payment: &Payment) {
    let ActorState { faults, journal, gateway_model } = state;
    let result = gateway_model.decide(payment);
    if faults.occurs(Fault::ReportedLate) {
        faults.sleep(faults.random.millis(3_000..10_000)).await;
    }
    let gateway = Reports { app, faults, journal, gateway_model, payment };
    if faults.occurs(Fault::WrongAmount) {
        let amount = Money::from_minor(payment.amount.minor() + 1).expect("a valid amount");
        gateway.deliver(&capture(format!("wrong-{}", payment.id), amount)).await;
    }
    if faults.occurs(Fault::UnknownPayment) {
        assert_unknown(app, faults, payment, report(payment, result)).await;
    }
    let repetitions = if faults.occurs(Fault::ReportedAgain) { 1 + faults.random.below(2) } else { 0 };
    let mut accepted = gateway.deliver(&report(payment, result)).await;
    for _ in 0..repetitions {
        accepted |= gateway.deliver_once(&report(payment, result)).await;
    }
    if accepted && faults.occurs(Fault::SecondCapture) {
        gateway.deliver(&capture(format!("second-{}", payment.id), payment.amount)).await;
    }
    if accepted && faults.occurs(Fault::Contradiction) {
        let opposite = match result {
            PaymentResult::Success => PaymentResult::Failed,
            PaymentResult::Failed => PaymentResult::Success,
        };
        gateway.deliver(&report(payment, opposite)).await;
    }
}

fn capture(transaction_id: String, amount: Money) -> Settlement {
    Settlement { transaction_id, result: PaymentResult::Success, amount }
}

fn report(payment: &Payment, result: PaymentResult) -> Settlement {
    Settlement { transaction_id: format!("txn-{}", payment.id), result, amount: payment.amount }
}

/// The reports of the gateway about one payment.
struct Reports<'a> {
    app: &'a App,
    faults: &'a Faults,
    journal: &'a Journal,
    gateway_model: &'a GatewayModel,
    payment: &'a Payment,
}

impl Reports<'_> {
    /// Delivers a report, repeatedly until it is accepted, at most four times. Returns whether it was accepted.
    async fn deliver(&self, report: &Settlement) -> bool {
        for _ in 0..4 {
            if self.deliver_once(report).await {
                return true;
            }
        }
        false
    }

    async fn deliver_once(&self, report: &Settlement) -> bool {
        let Reports { app, faults, journal, gateway_model, payment } = self;
        if report.result == PaymentResult::Success {
            gateway_model.capture(payment.id, &report.transaction_id, report.amount);
        }
        let context = by_gateway(faults, payment.tenant);
        match app.payments.settle(&context, command(payment, report.clone())).await {
            Ok(settled) => {
                journal.record("the gateway", ClientResponse::PaymentSettled(settled.id));
                true
            }
            Err(error) => {
                journal.record_error("the gateway", &context, &error);
                wait_for_locks(faults, &error).await;
                false
            }
        }
    }
}

/// The report names the payment by its reference.
fn command(payment: &Payment, report: Settlement) -> SettlePayment {
    let name = ReportedName { reference: payment.reference, id: Some(payment.id) };
    SettlePayment { payment: name, report, body_hash: String::new() }
}

/// If the request failed because assets of the order are not locked yet, waits and returns true; the caller then
/// repeats the request.
async fn wait_for_locks(faults: &Faults, error: &UseCaseError<PaymentCommandRefusal>) -> bool {
    let waiting = matches!(error, UseCaseError::Refused(PaymentCommandRefusal::AssetsNotLocked));
    if waiting {
        faults.cover(|coverage| coverage.situation("payment that waited for asset locks"));
        faults.sleep(faults.random.millis(50..800)).await;
    }
    waiting
}

/// Sends a report that names another payment by its id than by its reference. It must not settle either.
async fn assert_unknown(app: &App, faults: &Faults, payment: &Payment, report: Settlement) {
    let context = by_gateway(faults, payment.tenant);
    let unknown = PaymentId::try_from(9_000_000_000_000).expect("a valid id");
    let unknown = Payment { id: unknown, ..payment.clone() };
    if app.payments.settle(&context, command(&unknown, report)).await.is_ok() {
        faults.violation(format!("a report about another id settled payment {}", payment.id));
    }
}
