//! A refund: money of one payment goes back through the gateway, once.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::event::{EventBody, PaymentFor, RefundSettled};
use super::{Currency, Money, Order, OrderId, Payment, PaymentId, RefundId};
use handover_events::named;
use handover_events::{TenantId, Trace};

/// Where a refund stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RefundStatus {
    /// The gateway has not reported yet.
    Processing,
    /// The money is back.
    Success,
    /// It is not, and will not be by this refund.
    Failed,
}

named!(RefundStatus { Processing => "PROCESSING", Success => "SUCCESS", Failed => "FAILED" });

/// What the gateway reports about a refund.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RefundResult {
    /// The money is back.
    Success,
    /// It will not be.
    Failed,
}

/// Who or what asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RefundCause {
    /// The buyer.
    Buyer,
    /// An operator.
    Operator,
    /// The payment came when its order did not need it any more.
    LatePayment,
}

named!(RefundCause { Buyer => "buyer", Operator => "operator", LatePayment => "late_payment" });

/// Why a refund refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefundRefusal {
    /// Settled the other way.
    #[error("the refund is already {status}")]
    AlreadySettled {
        /// How it was settled.
        status: RefundStatus,
    },
    /// No payment of the order has money that could go back.
    #[error("there is nothing to pay back for this order")]
    NothingToRefund,
}

/// A refund and the version of its row. It is over the whole of its payment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refund {
    /// Its id.
    pub id: RefundId,
    /// The marketplace.
    pub tenant: TenantId,
    /// The order that was paid.
    pub order: OrderId,
    /// The payment whose money goes back.
    pub payment: PaymentId,
    /// How much.
    pub amount: Money,
    /// In which currency.
    pub currency: Currency,
    /// Who or what asked for it.
    pub cause: RefundCause,
    /// Why, in the words of who asked.
    pub reason: String,
    /// Where it stands.
    pub status: RefundStatus,
    /// How often the gateway was asked.
    pub attempts: u32,
    /// When it is to be asked again, while it has not reported.
    pub next_attempt_time: Option<DateTime<Utc>>,
    /// What went wrong the last time.
    pub last_error: Option<String>,
    /// The trace of the request that began it; of a late payment, the trace of the payment.
    pub trace: Option<Trace>,
    /// Counts the changes of the row, from 1.
    pub version: i64,
    /// When it was asked for.
    pub create_time: DateTime<Utc>,
    /// When it last changed.
    pub update_time: DateTime<Utc>,
}

impl Refund {
    /// The greatest number of characters of a reason (spec §4 "Limits").
    pub const MAX_REASON_CHARS: usize = 500;

    /// The refund of a payment, due at once, in the trace of the payment.
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

    /// Settled as the gateway reports, and what is announced. The same report again changes nothing (`None`).
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
        let after = Refund { status, next_attempt_time: None, ..self.moved(now) };
        Ok(Some((after, event)))
    }

    /// The gateway is being asked once more; unless it reports, or has already, again at `next`.
    pub fn asked(&self, next: DateTime<Utc>, now: DateTime<Utc>) -> Refund {
        let next_attempt_time = (self.status == RefundStatus::Processing).then_some(next);
        Refund { attempts: self.attempts.saturating_add(1), next_attempt_time, ..self.moved(now) }
    }

    /// Asking has gone wrong.
    pub fn noted(&self, error: String, now: DateTime<Utc>) -> Refund {
        Refund { last_error: Some(error), ..self.moved(now) }
    }

    fn moved(&self, now: DateTime<Utc>) -> Refund {
        Refund { version: self.version + 1, update_time: now, ..self.clone() }
    }
}
