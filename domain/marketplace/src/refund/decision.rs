//! What a report about a refund, or an operator, changes.

use chrono::{DateTime, Utc};

use super::{Refund, RefundRefusal, RefundReport, RefundResult, RefundStatus};
use crate::event::{EventBody, RefundFailed, RefundSettled, RefundSucceeded};
use crate::{Account, Capture, Invoice, OrderAction, Payable, RefundId, ReportOutcome};

/// What a report about a refund changes. Everything else stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundDecision {
    pub outcome: ReportOutcome,
    /// The refund after a change of its status, and the event of this change.
    pub settled: Option<(Refund, EventBody)>,
    /// The account that paid the money out (status `SUCCESS`) or received it back (status `FAILED` after `SUCCESS`).
    pub booked_on: Option<Account>,
    /// The capture, if its money pays nothing any more.
    pub capture: Option<Capture>,
    pub order: Option<OrderAction>,
    /// The invoice after a change of its status.
    pub invoice: Option<Invoice>,
    /// Another refund of the same money that was in progress and failed by this, and the event of its failure.
    pub stopped: Option<(Refund, EventBody)>,
}

impl RefundDecision {
    /// A decision that changes nothing but the record of the report.
    const fn only(outcome: ReportOutcome) -> RefundDecision {
        RefundDecision {
            outcome,
            settled: None,
            booked_on: None,
            capture: None,
            order: None,
            invoice: None,
            stopped: None,
        }
    }
}

impl Refund {
    /// Decides what a report changes.
    ///
    /// `payable` is the current state of its order or invoice, `capture` the money that this refund returns, and `others` the other
    /// refunds of the same capture.
    pub fn decide(
        &self,
        report: &RefundReport,
        payable: &Payable,
        capture: &Capture,
        others: &[Refund],
        now: DateTime<Utc>,
    ) -> RefundDecision {
        if self.settled_by.is_some() {
            return RefundDecision::only(ReportOutcome::SettledByOperator);
        }
        match (report.result, self.status) {
            (RefundResult::Success, RefundStatus::Success) => {
                let other_transaction = match (&report.transaction_id, &self.transaction_id) {
                    (Some(reported), Some(known)) => reported != known,
                    (Some(_) | None, Some(_) | None) => false,
                };
                let is_second =
                    other_transaction || self.settled_attempt.is_some_and(|it| it != report.attempt);
                RefundDecision::only(if is_second {
                    ReportOutcome::RefundedTwice
                } else {
                    ReportOutcome::Recorded
                })
            }
            (RefundResult::Success, RefundStatus::Processing | RefundStatus::Failed) => {
                self.decide_success(report, payable, capture, others, now)
            }
            (RefundResult::Failed, RefundStatus::Processing) if report.attempt == self.attempt => {
                RefundDecision {
                    settled: Some(self.settled(RefundStatus::Failed, report, payable, now)),
                    order: payable
                        .order()
                        .filter(|order| order.running_refund() == Some(self.id))
                        .map(|_| OrderAction::AbandonRefund { refund: self.id }),
                    ..RefundDecision::only(ReportOutcome::RefundFailed)
                }
            }
            (RefundResult::Failed, RefundStatus::Success) if self.settled_attempt == Some(report.attempt) => {
                self.decide_reversal(report, payable, capture, now)
            }
            // A failed attempt changes nothing if another attempt of the refund is in progress or succeeded.
            (
                RefundResult::Failed,
                RefundStatus::Processing | RefundStatus::Failed | RefundStatus::Success,
            ) => RefundDecision::only(ReportOutcome::Recorded),
        }
    }

    fn decide_success(
        &self,
        report: &RefundReport,
        payable: &Payable,
        capture: &Capture,
        others: &[Refund],
        now: DateTime<Utc>,
    ) -> RefundDecision {
        let (after, event) = self.settled(RefundStatus::Success, report, payable, now);
        let is_excess = others.iter().any(|other| other.status == RefundStatus::Success && !other.is_excess);
        if is_excess {
            return RefundDecision {
                settled: Some((Refund { is_excess, ..after }, event)),
                booked_on: Some(Account::Suspense),
                ..RefundDecision::only(ReportOutcome::RefundedTwice)
            };
        }
        let stopped = others.iter().find(|other| other.status == RefundStatus::Processing);
        let may_be_returned_twice = others.iter().any(|other| other.status == RefundStatus::Success)
            || stopped.is_some_and(|other| other.attempts > 0)
            || (self.status == RefundStatus::Processing
                && report.attempt != self.attempt
                && self.attempts > 0);
        let has_paid = !capture.refund_due;
        let outcome = if has_paid && payable.is_delivered() {
            ReportOutcome::RefundedAfterShipping
        } else if may_be_returned_twice {
            ReportOutcome::RefundedTwice
        } else {
            ReportOutcome::Refunded
        };
        let refunded = Some(payable).filter(|payable| has_paid && payable.is_paid());
        // The seller may have asked for the other refund.
        let off_shelf = self.off_shelf || stopped.is_some_and(|other| other.off_shelf);
        let after = Refund { is_excess: false, off_shelf, ..after };
        RefundDecision {
            booked_on: Some(capture.account()),
            order: refunded.and_then(Payable::order).map(|_| after.order_action()),
            settled: Some((after, event)),
            invoice: refunded.and_then(Payable::invoice).map(|invoice| invoice.refunded(now)),
            stopped: stopped.map(|other| other.stopped(self.id, payable, now)),
            ..RefundDecision::only(outcome)
        }
    }

    /// The refund had succeeded: the money is back.
    fn decide_reversal(
        &self,
        report: &RefundReport,
        payable: &Payable,
        capture: &Capture,
        now: DateTime<Utc>,
    ) -> RefundDecision {
        let pays_nothing = capture.refund_due || payable.is_cancelled_or_refunded();
        let on_suspense = pays_nothing || self.is_excess;
        let freed = Capture { refund_due: true, in_suspense: true, ..capture.clone() };
        RefundDecision {
            settled: Some(self.settled(RefundStatus::Failed, report, payable, now)),
            booked_on: Some(if on_suspense { Account::Suspense } else { Account::Platform }),
            capture: (pays_nothing && !self.is_excess && freed != *capture).then_some(freed),
            ..RefundDecision::only(ReportOutcome::RefundFailedAfterSuccess)
        }
    }

    /// The action that refunds the order.
    pub const fn order_action(&self) -> OrderAction {
        let Refund { id: refund, amount, cause, off_shelf, .. } = *self;
        OrderAction::Refund { refund, amount, cause, off_shelf }
    }

    /// The refund with this status, and the event of the change.
    fn settled(
        &self,
        status: RefundStatus,
        report: &RefundReport,
        payable: &Payable,
        now: DateTime<Utc>,
    ) -> (Refund, EventBody) {
        let succeeded = status == RefundStatus::Success;
        let after = Refund {
            status,
            settled_attempt: succeeded.then_some(report.attempt),
            transaction_id: report.transaction_id.clone().or_else(|| self.transaction_id.clone()),
            payouts: self.payouts + u32::from(succeeded),
            next_attempt_time: None,
            ..self.updated(now)
        };
        let settled = self.event_payload(payable, now);
        let event = if succeeded {
            EventBody::RefundSucceeded(RefundSucceeded(settled))
        } else {
            EventBody::RefundFailed(RefundFailed(settled))
        };
        (after, event)
    }

    /// The refund, after refund `by` has returned the same money: failed, and not sent any more. If it was sent, the gateway may
    /// still report its success, which is then an excess.
    fn stopped(&self, by: RefundId, payable: &Payable, now: DateTime<Utc>) -> (Refund, EventBody) {
        let after = Refund {
            status: RefundStatus::Failed,
            is_excess: true,
            next_attempt_time: None,
            last_error: Some(format!("refund {by} has returned the same money")),
            ..self.updated(now)
        };
        (after, EventBody::RefundFailed(RefundFailed(self.event_payload(payable, now))))
    }

    fn event_payload(&self, payable: &Payable, now: DateTime<Utc>) -> RefundSettled {
        RefundSettled {
            of: payable.in_event(),
            refund: self.id,
            amount: self.amount,
            currency: self.currency,
            occurred_time: now,
        }
    }

    /// Records that an operator returned the money by other means, or knows that the gateway returned it.
    ///
    /// # Errors
    /// The refund has succeeded, or another refund returned the same money or is returning it.
    pub fn settle_by_hand(
        &self,
        operator: String,
        payable: &Payable,
        capture: &Capture,
        others: &[Refund],
        now: DateTime<Utc>,
    ) -> Result<RefundDecision, RefundRefusal> {
        if self.status == RefundStatus::Success {
            return Err(RefundRefusal::AlreadySettled { status: self.status });
        }
        self.require_only_refund(capture, others)?;
        let report =
            RefundReport { attempt: self.attempt, result: RefundResult::Success, transaction_id: None };
        let decision = self.decide_success(&report, payable, capture, others, now);
        let settled_by = Some(operator);
        let settled = decision.settled.map(|(refund, event)| (Refund { settled_by, ..refund }, event));
        Ok(RefundDecision { settled, ..decision })
    }
}
