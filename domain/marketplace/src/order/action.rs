//! What can be done to an order, by whom, and how it refuses.

use chrono::{DateTime, Utc};

use super::{CancelReason, OrderStatus};
use crate::{AssetRefusal, Money, ProductRefusal, RefundId};
use handover_events::TextError;
use handover_events::named;

/// What asks for a cancellation, with what is needed to judge it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelCause {
    /// The buyer wants it.
    Buyer,
    /// The order was created at or before this moment and is still not paid (000 §10).
    Timeout {
        /// Orders created later are left alone.
        created_by: DateTime<Utc>,
    },
    /// A lock was refused for good.
    AssetLockFailed,
    /// The payment failed.
    PaymentFailed,
}

impl CancelCause {
    /// The reason that goes into the order.
    pub const fn reason(self) -> CancelReason {
        match self {
            CancelCause::Buyer => CancelReason::Buyer,
            CancelCause::Timeout { .. } => CancelReason::Timeout,
            CancelCause::AssetLockFailed => CancelReason::AssetLockFailed,
            CancelCause::PaymentFailed => CancelReason::PaymentFailed,
        }
    }
}

/// How a shipped order travels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shipment {
    carrier: String,
    tracking_no: String,
}

impl Shipment {
    /// The greatest number of characters of either part.
    pub const MAX_CHARS: usize = 64;

    /// A carrier and its tracking number. The error names the part.
    pub fn new(carrier: String, tracking_no: String) -> Result<Shipment, (&'static str, TextError)> {
        TextError::check(&carrier, Self::MAX_CHARS).map_err(|e| ("carrier", e))?;
        TextError::check(&tracking_no, Self::MAX_CHARS).map_err(|e| ("trackingNo", e))?;
        Ok(Shipment { carrier, tracking_no })
    }

    /// Who carries it.
    pub fn carrier(&self) -> &str {
        &self.carrier
    }

    /// The carrier's number for it.
    pub fn tracking_no(&self) -> &str {
        &self.tracking_no
    }
}

/// What can be done to an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderAction {
    /// The money has arrived.
    Pay,
    /// The seller sends it.
    Ship(Shipment),
    /// The buyer has it.
    Complete,
    /// It is closed unpaid.
    Cancel(CancelCause),
    /// It is to be paid back.
    BeginRefund {
        /// By which refund.
        refund: RefundId,
    },
    /// The refund failed.
    AbandonRefund {
        /// Which.
        refund: RefundId,
    },
    /// It is paid back.
    Refund {
        /// The refund that succeeded.
        refund: RefundId,
        /// What was paid back.
        amount: Money,
    },
}

impl OrderAction {
    /// Its name in messages.
    pub const fn name(&self) -> &'static str {
        match self {
            OrderAction::Pay => "pay",
            OrderAction::Ship(_) => "ship",
            OrderAction::Complete => "complete",
            OrderAction::Cancel(_) => "cancel",
            OrderAction::BeginRefund { .. }
            | OrderAction::AbandonRefund { .. }
            | OrderAction::Refund { .. } => "refund",
        }
    }
}

/// Who asks, seen from the order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OrderActor {
    /// The payment gateway's signed callback.
    Gateway,
    /// Who bought it.
    Buyer,
    /// Who sold it.
    Seller,
    /// The service itself.
    System,
    /// An operator of the tenant.
    Operator,
    /// Any other user.
    Stranger,
}

named!(OrderActor {
    Gateway => "gateway", Buyer => "buyer", Seller => "seller",
    System => "system", Operator => "operator", Stranger => "stranger"
});

/// Why an order refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderRefusal {
    /// This actor may never do that.
    #[error("{actor} may not {action} an order")]
    NotAllowed {
        /// Who asked.
        actor: OrderActor,
        /// What for.
        action: &'static str,
    },
    /// The status does not allow it.
    #[error("cannot {action} an order that is {status}")]
    WrongStatus {
        /// The status it has.
        status: OrderStatus,
        /// What was asked.
        action: &'static str,
    },
    /// A timeout came before the order's deadline.
    #[error("the order's payment deadline has not passed")]
    NotOverdue,
    /// A refund of the order is being processed.
    #[error("cannot {action} an order while its refund is being processed")]
    Refunding {
        /// What was asked.
        action: &'static str,
    },
    /// The assets it names cannot be used so.
    #[error(transparent)]
    Assets(#[from] AssetRefusal),
    /// The product cannot be bought.
    #[error(transparent)]
    Product(#[from] ProductRefusal),
}
