//! A refund: pays the money of one payment back through the gateway, exactly once.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::event::{EventBody, PaymentFor, RefundSettled};
use super::{Currency, Money, Order, OrderId, Payment, PaymentId, RefundId};
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

/// The reason for which the refund was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefundCause {
    Buyer,
    Operator,
    /// The payment succeeded after its order could no longer be paid.
    LatePayment,
}

named!(RefundCause { Buyer => "buyer", Operator => "operator", LatePayment => "late_payment" });

/// Reason why an action on a refund is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefundRefusal {
    /// The refund is already settled with the other result.
    #[error("the refund is already {status}")]
    AlreadySettled { status: RefundStatus },
    #[error("the order has no payment that can be refunded")]
    NothingToRefund,
}

/// A refund of the full amount of a payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refund {
    pub id: RefundId,
    pub tenant: TenantId,
    pub order: OrderId,
    /// The payment that is refunded.
    pub payment: PaymentId,
    pub amount: Money,
    pub currency: Currency,
    pub cause: RefundCause,
    /// Reason given by the requester.
    pub reason: String,
    pub status: RefundStatus,
    /// Number of requests sent to the gateway.
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
    /// Maximum number of characters of a reason (spec §4 "Limits").
    pub const MAX_REASON_CHARS: usize = 500;

    /// Creates the refund of a payment: due immediately, with the trace context of the payment.
    pub fn of(
        payment: &Payment,
        id: RefundId,
        cause: RefundCause,
        reason: String,
        now: DateTime<Utc>,
    ) -> Refund {
        Refund {
            id,
            tenant: payment.tenant,
            order: payment.order,
            payment: payment.id,
            amount: payment.amount,
            currency: payment.currency,
            cause,
            reason,
            status: RefundStatus::Processing,
            attempts: 0,
            next_attempt_time: Some(now),
            last_error: None,
            trace: payment.trace.clone(),
            version: 1,
            create_time: now,
            update_time: now,
        }
    }

    /// Settles the refund; returns its new state and the event. A repetition of the same report returns `None`.
    pub fn settle(
        &self,
        result: RefundResult,
        order: &Order,
        now: DateTime<Utc>,
    ) -> Result<Option<(Refund, EventBody)>, RefundRefusal> {
        let status = match result {
            RefundResult::Success => RefundStatus::Success,
            RefundResult::Failed => RefundStatus::Failed,
        };
        if self.status != RefundStatus::Processing {
            return if self.status == status {
                Ok(None)
            } else {
                Err(RefundRefusal::AlreadySettled { status: self.status })
            };
        }
        let settled = RefundSettled {
            of: PaymentFor::Order(order.facts()),
            refund: self.id,
            amount: self.amount,
            currency: self.currency,
            occurred_time: now,
        };
        let event = match result {
            RefundResult::Success => EventBody::RefundSucceeded(settled),
            RefundResult::Failed => EventBody::RefundFailed(settled),
        };
        let after = Refund { status, next_attempt_time: None, ..self.updated(now) };
        Ok(Some((after, event)))
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
