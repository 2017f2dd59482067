//! The payment gateway: reports how payments ended, until it is heard, and not always as one would wish.

use marketplace::App;
use marketplace::use_cases::*;
use marketplace_domain::{Money, Order, Payment, PaymentId, PaymentResult, Settlement};

use super::bank::Bank;
use super::journal::{Journal, Told};
use super::{by_gateway, by_user};
use crate::faults::{Fault, Faults};

/// How often a buyer tries again whose order still has something to be locked.
const TRIES: usize = 4;

/// The buyer pays; the gateway reports.
pub(super) async fn pay(app: &App, faults: &Faults, journal: &Journal, bank: &Bank, order: &Order) {
    let who = format!("buyer {}", order.buyer);
    let mut tries = TRIES;
    let payment = loop {
        let context = by_user(faults, order.tenant, order.buyer);
        let start = StartPayment { order: order.id, method: "card".into() };
        match start_payment(app, &context, start).await {
            Ok(payment) => break payment,
            Err(error) => {
                journal.failed(&who, &context, &error);
                tries -= 1;
                if tries == 0 || !come_again(faults, &error).await {
                    return;
                }
            }
        }
    };
    if payment.order != order.id {
        faults.violation(format!(
            "order {} was asked to be paid, payment {} is another's",
            order.id, payment.id
        ));
    }
    if payment.amount == Money::ZERO {
        // Nothing is left for the gateway to do.
        faults.cover(|coverage| coverage.place("a payment without the gateway"));
        return journal.tell(&who, Told::Settled(payment.id));
    }
    let result = bank.decide(&payment);
    if faults.strikes(Fault::ReportedLate) {
        faults.sleep(faults.dice.millis(3_000..10_000)).await;
    }
    if faults.strikes(Fault::WrongAmount) {
        let amount = Money::from_minor(payment.amount.minor() + 1).expect("a legal amount");
        refused(app, faults, &payment, Settlement { amount, ..report(&payment, result) }).await;
    }
    if faults.strikes(Fault::UnknownPayment) {
        let unknown = PaymentId::try_from(9_000_000_000_000).expect("a legal id");
        refused(app, faults, &Payment { id: unknown, ..payment.clone() }, report(&payment, result)).await;
    }
    let again = if faults.strikes(Fault::ReportedAgain) { 1 + faults.dice.below(2) } else { 0 };
    let mut heard = false;
    // It reports until it is heard, and sometimes once more.
    for _ in 0..4 + again {
        let settled = settle(app, faults, journal, &payment, report(&payment, result)).await;
        heard |= settled;
        if heard && again == 0 {
            break;
        }
    }
    if heard && faults.strikes(Fault::Contradiction) {
        let opposite = match result {
            PaymentResult::Success => PaymentResult::Failed,
            PaymentResult::Failed => PaymentResult::Success,
        };
        refused(app, faults, &payment, report(&payment, opposite)).await;
    }
}

fn report(payment: &Payment, result: PaymentResult) -> Settlement {
    Settlement { transaction_id: format!("txn-{}", payment.id), result, amount: payment.amount }
}

async fn settle(
    app: &App,
    faults: &Faults,
    journal: &Journal,
    payment: &Payment,
    report: Settlement,
) -> bool {
    let context = by_gateway(faults, payment.tenant);
    match settle_payment(app, &context, SettlePayment { payment: payment.id, report }).await {
        Ok(settled) => {
            journal.tell("the gateway", Told::Settled(settled.id));
            true
        }
        Err(error) => {
            journal.failed("the gateway", &context, &error);
            come_again(faults, &error).await;
            false
        }
    }
}

/// Whether it is worth while to come again soon: then it is soon.
async fn come_again(faults: &Faults, error: &UseCaseError) -> bool {
    let soon = matches!(error, UseCaseError::AssetsNotLocked);
    if soon {
        faults.cover(|coverage| coverage.place("a payment that waited for its locks"));
        faults.sleep(faults.dice.millis(50..800)).await;
    }
    soon
}

/// A report that must be refused whenever it comes.
async fn refused(app: &App, faults: &Faults, payment: &Payment, report: Settlement) {
    let context = by_gateway(faults, payment.tenant);
    if settle_payment(app, &context, SettlePayment { payment: payment.id, report }).await.is_ok() {
        faults.violation(format!("a report that cannot be true settled payment {}", payment.id));
    }
}
