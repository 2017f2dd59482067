//! The books of the payment gateway: what came in, what it was asked to pay back, and what it still has to report.
//!
//! It decides once how a payment or a refund ends, and stands by it. A request under a key that it knows is the same
//! request; it reports again what became of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use handover_events::*;
use marketplace::App;
use marketplace::ports::RefundRequest;
use marketplace::use_cases::*;
use marketplace_domain::*;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::by_gateway;
use super::journal::{Journal, Told};
use crate::faults::{Fault, Faults};

/// How often it reports a refund until it is heard; then no more until it is asked again.
const REPORTS: usize = 4;

/// The gateway behind all processes of a run. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Bank {
    faults: Faults,
    books: Arc<Mutex<Books>>,
    reports: Arc<Notify>,
}

#[derive(Default)]
struct Books {
    payments: BTreeMap<PaymentId, (PaymentResult, Money)>,
    refunds: BTreeMap<RefundId, PaidBack>,
    /// What is to be reported, and when.
    due: Vec<(Instant, RefundId)>,
}

/// A refund that it was asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PaidBack {
    pub(crate) payment: PaymentId,
    pub(crate) amount: Money,
    pub(crate) result: RefundResult,
}

impl Bank {
    pub(crate) fn new(faults: Faults) -> Bank {
        Bank { faults, books: Arc::default(), reports: Arc::default() }
    }

    /// How this payment ends: decided when it is first asked.
    pub(crate) fn decide(&self, payment: &Payment) -> PaymentResult {
        if let Some((result, _)) = self.books().payments.get(&payment.id) {
            return *result;
        }
        let fails = self.faults.dice.permille(150);
        let result = if fails { PaymentResult::Failed } else { PaymentResult::Success };
        self.books().payments.insert(payment.id, (result, payment.amount));
        result
    }

    /// What came in by this payment.
    pub(crate) fn received(&self, payment: PaymentId) -> Option<Money> {
        let books = self.books();
        let (result, amount) = books.payments.get(&payment)?;
        (*result == PaymentResult::Success).then_some(*amount)
    }

    /// Everything it was asked to pay back.
    pub(crate) fn refunds(&self) -> BTreeMap<RefundId, PaidBack> {
        self.books().refunds.clone()
    }

    /// A request to pay back is taken, for the first time or again.
    pub(crate) fn take(&self, request: &RefundRequest) {
        let known = self.books().refunds.get(&request.refund).copied();
        match known {
            Some(known) if (known.payment, known.amount) != (request.payment, request.amount) => {
                self.faults.violation(format!(
                    "refund {} was of payment {} over {}, and is of {} over {} now",
                    request.refund, known.payment, known.amount, request.payment, request.amount
                ));
            }
            Some(_) => {}
            None => self.take_new(request),
        }
        if self.faults.strikes(Fault::ReportLost) {
            return;
        }
        let dice = &self.faults.dice;
        let wait = if self.faults.strikes(Fault::ReportedFirst) {
            Duration::ZERO
        } else if self.faults.strikes(Fault::ReportedLate) {
            dice.millis(3_000..10_000)
        } else {
            dice.millis(20..1_500)
        };
        let due = Instant::now() + wait;
        let mut books = self.books();
        books.due.push((due, request.refund));
        if self.faults.strikes(Fault::ReportedAgain) {
            books.due.push((due + dice.millis(0..3_000), request.refund));
        }
        drop(books);
        self.reports.notify_one();
    }

    fn take_new(&self, request: &RefundRequest) {
        let fails = self.faults.strikes(Fault::RefundFails);
        let result = if fails { RefundResult::Failed } else { RefundResult::Success };
        let came = self.received(request.payment).map_or(0, Money::minor);
        let mut books = self.books();
        let live = books
            .refunds
            .values()
            .filter(|it| it.payment == request.payment && it.result == RefundResult::Success);
        let went: i64 = live.map(|it| it.amount.minor()).sum();
        let paid_back = PaidBack { payment: request.payment, amount: request.amount, result };
        books.refunds.insert(request.refund, paid_back);
        drop(books);
        if went + request.amount.minor() > came {
            self.faults.violation(format!(
                "refund {}: {came} came by payment {}, {went} went back, {} are asked for",
                request.refund,
                request.payment,
                request.amount.minor()
            ));
        }
    }

    /// The next refund that is to be reported, when its time has come.
    pub(crate) async fn next_report(&self) -> RefundId {
        loop {
            let next = self.books().due.iter().copied().min();
            let Some((due, refund)) = next else {
                self.reports.notified().await;
                continue;
            };
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let mut books = self.books();
                if let Some(place) = books.due.iter().position(|it| *it == (due, refund)) {
                    books.due.swap_remove(place);
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

    /// Reports how a refund ended, a few times if it is not heard.
    pub(crate) async fn report(self, app: App, journal: Journal, refund: RefundId) {
        let Some(PaidBack { result, .. }) = self.refunds().get(&refund).copied() else { return };
        let faults = &self.faults;
        if faults.strikes(Fault::UnknownRefund) {
            let unknown = RefundId::try_from(9_000_000_000_000).expect("a legal id");
            self.refused(&app, unknown, result).await;
        }
        for _ in 0..REPORTS {
            let context = by_gateway(faults, TenantId::DEFAULT);
            match settle_refund(&app, &context, SettleRefund { refund, result }).await {
                Ok(settled) => {
                    if settled.status != settled_as(result) {
                        let by = settled.status;
                        faults.violation(format!("refund {refund} was reported as {result:?} and is {by}"));
                    }
                    journal.tell("the gateway", Told::PaidBack(refund, settled.status));
                    break;
                }
                Err(error @ UseCaseError::Store(_)) => {
                    faults.note("the gateway", || format!("is not heard about refund {refund}: {error}"));
                    faults.sleep(faults.dice.millis(50..500)).await;
                }
                Err(error) => {
                    faults.violation(format!(
                        "refund {refund} is {result:?}, and the report is refused: {error}"
                    ));
                    return;
                }
            }
        }
        if faults.strikes(Fault::Contradiction) {
            let opposite = match result {
                RefundResult::Success => RefundResult::Failed,
                RefundResult::Failed => RefundResult::Success,
            };
            // Only what was heard can be contradicted.
            if journal.told().contains(&Told::PaidBack(refund, settled_as(result))) {
                self.refused(&app, refund, opposite).await;
            }
        }
    }

    /// A report that must be refused whenever it comes.
    async fn refused(&self, app: &App, refund: RefundId, result: RefundResult) {
        let context = by_gateway(&self.faults, TenantId::DEFAULT);
        if settle_refund(app, &context, SettleRefund { refund, result }).await.is_ok() {
            self.faults.violation(format!("a report that cannot be true settled refund {refund}"));
        }
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn settled_as(result: RefundResult) -> RefundStatus {
    match result {
        RefundResult::Success => RefundStatus::Success,
        RefundResult::Failed => RefundStatus::Failed,
    }
}
