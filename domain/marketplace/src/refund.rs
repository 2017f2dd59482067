//! A refund: returns the money of one capture through the gateway, exactly once.

mod decision;

pub use decision::RefundDecision;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use handover_events::named;
use handover_events::{TenantId, Trace};

use crate::{Capture, Currency, Money, PayableId, Payment, PaymentId, Reference, RefundCause, RefundId};

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
    #[error("no payment can be refunded")]
    NothingToRefund,
    /// Another refund returned the same money, or is returning it.
    #[error("refund {other} has returned the same money, or is returning it")]
    AlreadyRefunded { other: RefundId },
    /// The refund was sent to the gateway, which may still return the same money.
    #[error(
        "refund {refund} was sent and the gateway has not reported its result; an operator retries refund {refund}, so that it \
         does, or returns the money by other means and settles the refund"
    )]
    ResultUnknown { refund: RefundId },
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

/// A refund of the full amount of a capture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refund {
    pub id: RefundId,
    pub tenant: TenantId,
    /// The order or invoice of the payment.
    pub of: PayableId,
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
    /// Whether the seller takes the product off the shelf when the order is refunded.
    pub off_shelf: bool,
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
    /// Number of requests of the current attempt that were sent to the gateway, without later ones that were interrupted.
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
            of: payment.of,
            payment: payment.id,
            capture: capture.number,
            reference: Some(reference),
            is_keyed_by_id: false,
            attempt: 1,
            amount: capture.amount,
            currency: payment.currency,
            cause,
            reason,
            off_shelf: false,
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

    /// Sends the current attempt to the gateway again, with its own reference and idempotency key, because its result is unknown: the
    /// gateway executes it once, and reports the result.
    ///
    /// # Errors
    /// As those of [`Refund::retry`].
    pub fn resend(
        &self,
        capture: &Capture,
        others: &[Refund],
        now: DateTime<Utc>,
    ) -> Result<Refund, RefundRefusal> {
        self.require_only_refund(capture, others)?;
        Ok(Refund { status: RefundStatus::Processing, next_attempt_time: Some(now), ..self.updated(now) })
    }

    fn require_only_refund(&self, capture: &Capture, others: &[Refund]) -> Result<(), RefundRefusal> {
        match capture.live_refund(others) {
            Some(other) => Err(RefundRefusal::AlreadyRefunded { other: other.id }),
            None => Ok(()),
        }
    }

    /// Whether the refund may have failed without a report about its current attempt, which was sent: because another refund
    /// or an earlier attempt returned the same money. The gateway may still execute such an attempt.
    pub const fn may_lack_report(&self) -> bool {
        matches!(self.status, RefundStatus::Failed)
            && self.attempts > 0
            && (self.is_excess || self.payouts > 0)
    }

    /// Takes the product off the shelf when the order is refunded. `None` if the refund does so already.
    pub fn taking_off_shelf(&self, now: DateTime<Utc>) -> Option<Refund> {
        (!self.off_shelf).then(|| Refund { off_shelf: true, ..self.updated(now) })
    }

    /// Records a request to the gateway. While the refund is not settled, the next request is due at `next`.
    pub fn with_attempt(&self, next: DateTime<Utc>, now: DateTime<Utc>) -> Refund {
        let next_attempt_time = (self.status == RefundStatus::Processing).then_some(next);
        Refund { attempts: self.attempts.saturating_add(1), next_attempt_time, ..self.updated(now) }
    }

    /// Records that the end of the process interrupted the last request to the gateway: the next one is due now, and the
    /// request counts only if it is the first of the attempt, because it may have reached the gateway.
    pub fn with_interrupted_request(&self, now: DateTime<Utc>) -> Refund {
        let next_attempt_time = (self.status == RefundStatus::Processing).then_some(now);
        Refund { attempts: self.attempts.saturating_sub(1).max(1), next_attempt_time, ..self.updated(now) }
    }

    /// Records the error of a request to the gateway.
    pub fn with_error(&self, error: String, now: DateTime<Utc>) -> Refund {
        Refund { last_error: Some(error), ..self.updated(now) }
    }

    fn updated(&self, now: DateTime<Utc>) -> Refund {
        Refund { version: self.version + 1, update_time: now, ..self.clone() }
    }
}
