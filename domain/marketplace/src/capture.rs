//! A capture: money that the gateway took from the payer in one of its transactions.
//!
//! **Invariant:** each capture is in exactly one state: it pays its order or invoice, is refunded, is being refunded, or is open.
//! Money that pays nothing is booked on [`Account::Suspense`].

use chrono::{DateTime, Utc};

use crate::{Account, Money, PayableId, PaymentId};
use handover_events::TenantId;

/// Money captured for a payment. A payment has several captures if the gateway charged the payer more than once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capture {
    pub tenant: TenantId,
    /// The order or invoice of the payment.
    pub of: PayableId,
    pub payment: PaymentId,
    /// Number of the capture within its payment, from 1.
    pub number: u32,
    /// The gateway's transaction id, unique among all captures.
    pub transaction_id: String,
    pub amount: Money,
    /// Whether the money buys nothing, so that it must be refunded.
    pub refund_due: bool,
    /// Whether the money is booked on [`Account::Suspense`]. Captures of earlier versions are on [`Account::Platform`]
    /// even if a refund is due.
    pub in_suspense: bool,
    pub create_time: DateTime<Utc>,
}

/// The payment and amount of a transaction that the gateway has already reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BookedTransaction {
    pub payment: PaymentId,
    pub amount: Money,
}

impl Capture {
    /// The ledger account that the money is booked on.
    pub const fn account(&self) -> Account {
        if self.in_suspense { Account::Suspense } else { Account::Platform }
    }
}
