//! A refund: returns the money of one capture through the gateway, exactly once.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::event::{EventBody, PaymentFor, RefundFailed, RefundSettled, RefundSucceeded};
use super::{
    Account, Capture, Currency, Money, Order, OrderAction, OrderId, OrderStatus, Payment, PaymentId,
    Reference, RefundCause, RefundId, ReportOutcome,
};
use handover_events::named;
use handover_events::{TenantId, Trace};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RefundStatus {
    /// The gateway has not reported a result yet.
    Processing,
    Success,
    /// The refund failed; another refund of the payment may follow.
    Failed,
}

named!(RefundStatus { Processing => "PROCESSING", Success => "SUCCESS", Failed => "FAILED" });

/// Refund result reported by the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RefundResult {
    Success,
    Failed,
}

/// Reason why an action on a refund is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefundRefusal {
    /// The refund has a status that does not allow the action.
    #[error("the refund is already {status}")]
    AlreadySettled { status: RefundStatus },
    #[error("the order has no payment that can be refunded")]
    NothingToRefund,
    /// Another refund returned the same money, or is returning it.
    #[error("refund {other} has returned the same money, or is returning it")]
    AlreadyRefunded { other: RefundId },
}

/// A refund report of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundReport {
    /// The attempt that the report is about.
    pub attempt: u32,
    pub result: RefundResult,
    /// The gateway's transaction id, if it reports one.
    pub transaction_id: Option<String>,
}

/// An attempt at a refund that an operator's retry replaced. The gateway may still report about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SupersededAttempt {
    pub refund: RefundId,
    pub attempt: u32,
    pub reference: Reference,
}

/// What a report about a refund changes. Everything else stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefundDecision {
    pub outcome: ReportOutcome,
    /// The refund after a change of its status, and the event of this change.
    pub settled: Option<(Refund, EventBody)>,
    /// The account that paid the money out (status `SUCCESS`) or received it back (status `FAILED` after `SUCCESS`).
    pub booked_on: Option<Account>,
    /// The capture, if its money pays no order any more.
    pub capture: Option<Capture>,
    pub order: Option<OrderAction>,
    /// Another refund of the same money that was in progress: not sent any more.
    pub stopped: Option<(Refund, Option<EventBody>)>,
}

/// A refund of the full amount of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refund {
    pub id: RefundId,
    pub tenant: TenantId,
    pub order: OrderId,
    /// The payment that is refunded.
    pub payment: PaymentId,
    /// Number of the refunded capture within the payment.
    pub capture: u32,
    /// Name of the current attempt towards the gateway; `None` for a row that an earlier version wrote.
    pub reference: Option<Reference>,
    /// Whether the idempotency key towards the gateway is derived from the id, as in earlier versions, which may have
    /// sent the refund already: with another key it would be executed twice.
    pub is_keyed_by_id: bool,
    /// Number of the current attempt, from 1. An operator's retry begins a new attempt.
    pub attempt: u32,
    pub amount: Money,
    pub currency: Currency,
    pub cause: RefundCause,
    /// Reason given by the requester.
    pub reason: String,
    pub status: RefundStatus,
    /// The attempt that succeeded; set while the status is `SUCCESS`.
    pub settled_attempt: Option<u32>,
    /// The gateway's transaction id of the refund.
    pub transaction_id: Option<String>,
    /// Number of times that the refund succeeded: a refund that succeeded may fail later, and succeed again.
    pub payouts: u32,
    /// Whether another refund has already returned the same money.
    pub is_excess: bool,
    /// The operator who settled the refund without a report.
    pub settled_by: Option<String>,
    /// Number of requests of the current attempt that were sent to the gateway.
    pub attempts: u32,
    /// Time at which the next request is sent to the gateway; `None` after the refund is settled.
    pub next_attempt_time: Option<DateTime<Utc>>,
    /// Error of the last request to the gateway.
    pub last_error: Option<String>,
    /// Trace context of the request that created the refund; for a late payment, that of the payment.
    pub trace: Option<Trace>,
    /// Version of the row, incremented by each change; starts at 1.
    pub version: i64,
    pub create_time: DateTime<Utc>,
    pub update_time: DateTime<Utc>,
}

impl Refund {
    /// Maximum number of characters of a reason.
    pub const MAX_REASON_CHARS: usize = 500;

    /// Creates the refund of a capture: due immediately, with the trace context of the payment.
    pub fn of(
        payment: &Payment,
        capture: &Capture,
        (id, reference): (RefundId, Reference),
        cause: RefundCause,
        reason: String,
        now: DateTime<Utc>,
    ) -> Refund {
        Refund {
            id,
            tenant: payment.tenant,
            order: payment.order,
            payment: payment.id,
            capture: capture.number,
            reference: Some(reference),
            is_keyed_by_id: false,
            attempt: 1,
            amount: capture.amount,
            currency: payment.currency,
            cause,
            reason,
            status: RefundStatus::Processing,
            settled_attempt: None,
            transaction_id: None,
            payouts: 0,
            is_excess: false,
            settled_by: None,
            attempts: 0,
            next_attempt_time: Some(now),
            last_error: None,
            trace: payment.trace.clone(),
            version: 1,
            create_time: now,
            update_time: now,
        }
    }

    /// Idempotency key towards the gateway: the gateway executes requests with the same key once.
    pub fn gateway_key(&self) -> String {
        match self.reference {
            Some(reference) if !self.is_keyed_by_id => reference.to_string(),
            Some(_) | None => format!("refund:{}", self.id),
        }
    }

    /// Decides what a report changes.
    ///
    /// `order` is the current state of the order, `capture` the money that this refund returns, and `others` the other
    /// refunds of the same capture.
    pub fn decide(
        &self,
        report: &RefundReport,
        order: &Order,
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
                self.decide_success(report, order, capture, others, now)
            }
            (RefundResult::Failed, RefundStatus::Processing) if report.attempt == self.attempt => {
                RefundDecision {
                    settled: Some(self.settled(RefundStatus::Failed, report, order, now)),
                    order: (order.refund == Some(self.id))
                        .then_some(OrderAction::AbandonRefund { refund: self.id }),
                    ..RefundDecision::only(ReportOutcome::RefundFailed)
                }
            }
            (RefundResult::Failed, RefundStatus::Success) if self.settled_attempt == Some(report.attempt) => {
                self.decide_reversal(report, order, capture, now)
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
        order: &Order,
        capture: &Capture,
        others: &[Refund],
        now: DateTime<Utc>,
    ) -> RefundDecision {
        let (after, event) = self.settled(RefundStatus::Success, report, order, now);
        let is_excess = others.iter().any(|other| other.status == RefundStatus::Success && !other.is_excess);
        if is_excess {
            return RefundDecision {
                settled: Some((Refund { is_excess, ..after }, event)),
                booked_on: Some(Account::Suspense),
                ..RefundDecision::only(ReportOutcome::RefundedTwice)
            };
        }
        let stopped =
            others.iter().find(|other| other.status == RefundStatus::Processing && !other.is_excess);
        let may_be_returned_twice = stopped.is_some_and(|other| other.attempts > 0)
            || (self.status == RefundStatus::Processing
                && report.attempt != self.attempt
                && self.attempts > 0);
        let pays_order = !capture.refund_due;
        let is_delivered = matches!(order.status, OrderStatus::Shipped | OrderStatus::Completed);
        let outcome = if pays_order && is_delivered {
            ReportOutcome::RefundedAfterShipping
        } else if may_be_returned_twice {
            ReportOutcome::RefundedTwice
        } else {
            ReportOutcome::Refunded
        };
        let refunds_order = pays_order && order.status == OrderStatus::Paid;
        let action = OrderAction::Refund { refund: self.id, amount: self.amount };
        RefundDecision {
            settled: Some((Refund { is_excess: false, ..after }, event)),
            booked_on: Some(capture.account()),
            order: refunds_order.then_some(action),
            stopped: stopped.map(|other| other.stopped(self.id, order, now)),
            ..RefundDecision::only(outcome)
        }
    }

    /// The refund had succeeded: the money is back.
    fn decide_reversal(
        &self,
        report: &RefundReport,
        order: &Order,
        capture: &Capture,
        now: DateTime<Utc>,
    ) -> RefundDecision {
        let pays_no_order = capture.refund_due || order.is_cancelled_or_refunded();
        let on_suspense = pays_no_order || self.is_excess;
        let freed = Capture { refund_due: true, in_suspense: true, ..capture.clone() };
        RefundDecision {
            settled: Some(self.settled(RefundStatus::Failed, report, order, now)),
            booked_on: Some(if on_suspense { Account::Suspense } else { Account::Platform }),
            capture: (pays_no_order && !self.is_excess && freed != *capture).then_some(freed),
            ..RefundDecision::only(ReportOutcome::RefundFailedAfterSuccess)
        }
    }

    /// The refund with this status, and the event of the change.
    fn settled(
        &self,
        status: RefundStatus,
        report: &RefundReport,
        order: &Order,
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
        let settled = self.event_payload(order, now);
        let event = if succeeded {
            EventBody::RefundSucceeded(RefundSucceeded(settled))
        } else {
            EventBody::RefundFailed(RefundFailed(settled))
        };
        (after, event)
    }

    /// The refund, after refund `by` has returned the same money. A refund that was never sent fails; the gateway may
    /// execute any other.
    fn stopped(&self, by: RefundId, order: &Order, now: DateTime<Utc>) -> (Refund, Option<EventBody>) {
        let was_sent = self.attempts > 0;
        let error = Some(format!("refund {by} has returned the same money"));
        let after =
            Refund { is_excess: true, next_attempt_time: None, last_error: error, ..self.updated(now) };
        if was_sent {
            return (after, None);
        }
        let event = EventBody::RefundFailed(RefundFailed(self.event_payload(order, now)));
        (Refund { status: RefundStatus::Failed, ..after }, Some(event))
    }

    fn event_payload(&self, order: &Order, now: DateTime<Utc>) -> RefundSettled {
        RefundSettled {
            of: PaymentFor::Order(order.facts()),
            refund: self.id,
            amount: self.amount,
            currency: self.currency,
            occurred_time: now,
        }
    }

    /// Sends the refund to the gateway again. After a failure this is a new attempt, with its own reference and
    /// idempotency key; the replaced attempt is returned if it had a reference. The next request of a refund in
    /// `PROCESSING` becomes due, with the same reference.
    ///
    /// # Errors
    /// The refund has succeeded, or another refund returned the same money or is returning it.
    pub fn retry(
        &self,
        reference: Reference,
        capture: &Capture,
        others: &[Refund],
        now: DateTime<Utc>,
    ) -> Result<(Refund, Option<SupersededAttempt>), RefundRefusal> {
        self.require_only_refund(capture, others)?;
        let next_attempt_time = Some(now);
        match self.status {
            RefundStatus::Success => Err(RefundRefusal::AlreadySettled { status: self.status }),
            RefundStatus::Processing => Ok((Refund { next_attempt_time, ..self.updated(now) }, None)),
            RefundStatus::Failed => {
                let replaced = self.reference.map(|reference| SupersededAttempt {
                    refund: self.id,
                    attempt: self.attempt,
                    reference,
                });
                let after = Refund {
                    status: RefundStatus::Processing,
                    reference: Some(reference),
                    is_keyed_by_id: false,
                    attempt: self.attempt + 1,
                    is_excess: false,
                    attempts: 0,
                    next_attempt_time,
                    last_error: None,
                    ..self.updated(now)
                };
                Ok((after, replaced))
            }
        }
    }

    /// Records that an operator returned the money by other means, or knows that the gateway returned it.
    ///
    /// # Errors
    /// The refund has succeeded, or another refund returned the same money or is returning it.
    pub fn settle_by_hand(
        &self,
        operator: String,
        order: &Order,
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
        let decision = self.decide_success(&report, order, capture, others, now);
        let settled_by = Some(operator);
        let settled = decision.settled.map(|(refund, event)| (Refund { settled_by, ..refund }, event));
        Ok(RefundDecision { settled, ..decision })
    }

    fn require_only_refund(&self, capture: &Capture, others: &[Refund]) -> Result<(), RefundRefusal> {
        let is_live = |other: &&Refund| other.status != RefundStatus::Failed && !other.is_excess;
        match others.iter().filter(is_live).find(|other| capture.is_refunded_by(other)) {
            Some(other) => Err(RefundRefusal::AlreadyRefunded { other: other.id }),
            None => Ok(()),
        }
    }

    /// Records a request to the gateway. While the refund is not settled, the next request is due at `next`.
    pub fn with_attempt(&self, next: DateTime<Utc>, now: DateTime<Utc>) -> Refund {
        let next_attempt_time = (self.status == RefundStatus::Processing).then_some(next);
        Refund { attempts: self.attempts.saturating_add(1), next_attempt_time, ..self.updated(now) }
    }

    /// Records the error of a request to the gateway.
    pub fn with_error(&self, error: String, now: DateTime<Utc>) -> Refund {
        Refund { last_error: Some(error), ..self.updated(now) }
    }

    fn updated(&self, now: DateTime<Utc>) -> Refund {
        Refund { version: self.version + 1, update_time: now, ..self.clone() }
    }
}

impl RefundDecision {
    /// A decision that changes nothing but the record of the report.
    const fn only(outcome: ReportOutcome) -> RefundDecision {
        RefundDecision { outcome, settled: None, booked_on: None, capture: None, order: None, stopped: None }
    }
}
