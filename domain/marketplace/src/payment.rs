//! A payment: reported by the gateway's signed callback, settled once.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::event::{EventBody, PaymentFor, PaymentSettled};
use super::{Currency, Money, Order, OrderId, OrderStatus, PaymentId};
use handover_events::{TenantId, Trace};

/// Where a payment stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PaymentStatus {
    /// The gateway has not reported yet.
    Processing,
    /// The money has arrived.
    Success,
    /// It has not and will not.
    Failed,
}

handover_events::named!(PaymentStatus { Processing => "PROCESSING", Success => "SUCCESS", Failed => "FAILED" });

/// What the gateway reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum PaymentResult {
    /// The money has arrived.
    Success,
    /// It will not.
    Failed,
}

/// One report of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// The gateway's own id of the transaction; the key of idempotence.
    pub transaction_id: String,
    /// What it reports.
    pub result: PaymentResult,
    /// The amount it moved.
    pub amount: Money,
}

/// Why a report is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PaymentRefusal {
    /// The amount is not the payment's.
    #[error("the amount is {reported}, the payment is over {expected}")]
    WrongAmount {
        /// What the gateway reported.
        reported: Money,
        /// What the payment is over.
        expected: Money,
    },
    /// The gateway reported this transaction for another payment.
    #[error("the transaction {transaction_id} belongs to another payment")]
    TransactionTaken {
        /// The gateway's id of it.
        transaction_id: String,
    },
    /// Already settled by another transaction, or the other way.
    #[error("the payment is already {status}")]
    AlreadySettled {
        /// How it was settled.
        status: PaymentStatus,
    },
}

/// A payment and the version of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payment {
    /// Its id.
    pub id: PaymentId,
    /// The marketplace.
    pub tenant: TenantId,
    /// The order it pays.
    pub order: OrderId,
    /// How much.
    pub amount: Money,
    /// In which currency.
    pub currency: Currency,
    /// How, as the buyer said.
    pub method: String,
    /// Where it stands.
    pub status: PaymentStatus,
    /// The gateway's transaction, once settled.
    pub transaction_id: Option<String>,
    /// It succeeded, but its order did not need it any more: the money is owed back to the buyer.
    pub refund_due: bool,
    /// The trace of the request that started it.
    pub trace: Option<Trace>,
    /// Counts the changes of the row, from 1.
    pub version: i64,
    /// When it was started.
    pub create_time: DateTime<Utc>,
    /// When it last changed.
    pub update_time: DateTime<Utc>,
}

impl Payment {
    /// Settles the payment: its new state and what is announced. The same report again changes nothing (`None`).
    ///
    /// `order` is the order as it stands now; a success that it cannot use any more marks the refund as due.
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
