//! A payment: settled exactly once, by the signed callback of the gateway.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::event::{EventBody, PaymentFor, PaymentSettled};
use super::{Currency, Money, Order, OrderId, OrderStatus, PaymentId};
use handover_events::{TenantId, Trace};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PaymentStatus {
    /// The gateway has not reported a result yet.
    Processing,
    Success,
    Failed,
}

handover_events::named!(PaymentStatus { Processing => "PROCESSING", Success => "SUCCESS", Failed => "FAILED" });

/// Payment result reported by the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PaymentResult {
    Success,
    Failed,
}

/// A payment report of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The gateway's transaction id; the idempotency key of the report.
    pub transaction_id: String,
    pub result: PaymentResult,
    pub amount: Money,
}

/// Reason why a payment report is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PaymentRefusal {
    #[error("the reported amount is {reported}, but the payment amount is {expected}")]
    WrongAmount { reported: Money, expected: Money },
    /// The gateway already reported this transaction id for another payment.
    #[error("the gateway transaction {transaction_id} belongs to another payment")]
    TransactionTaken { transaction_id: String },
    /// The payment is already settled with another transaction id or with the other result.
    #[error("the payment is already {status}")]
    AlreadySettled { status: PaymentStatus },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    pub id: PaymentId,
    pub tenant: TenantId,
    pub order: OrderId,
    pub amount: Money,
    pub currency: Currency,
    /// Payment method chosen by the buyer.
    pub method: String,
    pub status: PaymentStatus,
    /// The gateway's transaction id; `None` until the payment is settled.
    pub transaction_id: Option<String>,
    /// Whether a refund is required, because the payment succeeded when its order could no longer be paid.
    pub refund_due: bool,
    /// Trace context of the request that created the payment.
    pub trace: Option<Trace>,
    /// Version of the row, incremented by each change; starts at 1.
    pub version: i64,
    pub create_time: DateTime<Utc>,
    pub update_time: DateTime<Utc>,
}

impl Payment {
    /// Settles the payment; returns its new state and the event. A repetition of the same report returns `None`.
    ///
    /// `order` is the current state of the order. A success for an order that is no longer pending sets `refund_due`.
    pub fn settle(
        &self,
        report: &Settlement,
        order: &Order,
        now: DateTime<Utc>,
    ) -> Result<Option<(Payment, EventBody)>, PaymentRefusal> {
        if report.amount != self.amount {
            return Err(PaymentRefusal::WrongAmount { reported: report.amount, expected: self.amount });
        }
        let status = match report.result {
            PaymentResult::Success => PaymentStatus::Success,
            PaymentResult::Failed => PaymentStatus::Failed,
        };
        if self.status != PaymentStatus::Processing {
            let same = self.status == status && self.transaction_id.as_ref() == Some(&report.transaction_id);
            return if same { Ok(None) } else { Err(PaymentRefusal::AlreadySettled { status: self.status }) };
        }
        let settled = PaymentSettled {
            of: PaymentFor::Order(order.facts()),
            payment: self.id,
            transaction_id: report.transaction_id.clone(),
            amount: self.amount,
            currency: self.currency,
            payment_method: self.method.clone(),
            occurred_time: now,
        };
        let (event, refund_due) = match report.result {
            PaymentResult::Success => {
                (EventBody::PaymentSucceeded(settled), order.status != OrderStatus::Pending)
            }
            PaymentResult::Failed => (EventBody::PaymentFailed(settled), false),
        };
        let after = Payment {
            status,
            refund_due,
            transaction_id: Some(report.transaction_id.clone()),
            version: self.version + 1,
            update_time: now,
            ..self.clone()
        };
        Ok(Some((after, event)))
    }
}
