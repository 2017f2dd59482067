//! Order actions, actors and refusals.

use chrono::{DateTime, Utc};

use crate::{
    AssetRefusal, CancelReason, Money, OrderStatus, ProductAction, ProductRefusal, RefundCause, RefundId,
};
use handover_events::TextError;
use handover_events::named;

/// Cause of a cancellation, with the data needed to decide about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelCause {
    /// The buyer requested the cancellation.
    Buyer,
    /// The seller declined the order.
    Seller {
        /// Whether the product is taken off the shelf.
        off_shelf: bool,
    },
    /// The payment deadline has passed.
    Timeout {
        /// Only orders created at or before this time may be cancelled.
        created_by: DateTime<Utc>,
    },
    /// An asset lock failed permanently.
    AssetLockFailed,
    PaymentFailed,
}

impl CancelCause {
    /// The reason that is stored in the order.
    pub const fn reason(self) -> CancelReason {
        match self {
            CancelCause::Buyer => CancelReason::Buyer,
            CancelCause::Seller { .. } => CancelReason::Seller,
            CancelCause::Timeout { .. } => CancelReason::Timeout,
            CancelCause::AssetLockFailed => CancelReason::AssetLockFailed,
            CancelCause::PaymentFailed => CancelReason::PaymentFailed,
        }
    }
}

/// Carrier and tracking number of a shipped order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shipment {
    carrier: String,
    tracking_no: String,
}

impl Shipment {
    /// Maximum number of characters of each field.
    pub const MAX_CHARS: usize = 64;

    /// Validates both fields. The error contains the JSON name of the invalid field.
    pub fn new(carrier: String, tracking_no: String) -> Result<Shipment, (&'static str, TextError)> {
        TextError::check(&carrier, Self::MAX_CHARS).map_err(|e| ("carrier", e))?;
        TextError::check(&tracking_no, Self::MAX_CHARS).map_err(|e| ("trackingNo", e))?;
        Ok(Shipment { carrier, tracking_no })
    }

    pub fn carrier(&self) -> &str {
        &self.carrier
    }

    pub fn tracking_no(&self) -> &str {
        &self.tracking_no
    }
}

/// An action on an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OrderAction {
    /// The payment succeeded.
    Pay,
    /// The seller shipped the order.
    Ship(Shipment),
    /// The buyer confirmed receipt, or did not within the time for it.
    Complete,
    /// Cancels an unpaid order.
    Cancel(CancelCause),
    /// A refund of the order starts.
    BeginRefund {
        refund: RefundId,
    },
    AbandonRefund {
        refund: RefundId,
    },
    /// The refund succeeded.
    Refund {
        refund: RefundId,
        amount: Money,
        cause: RefundCause,
        /// Whether the seller takes the product off the shelf.
        off_shelf: bool,
    },
}

impl OrderAction {
    /// Whether the seller declines the order by this action.
    pub const fn is_decline(&self) -> bool {
        matches!(
            self,
            OrderAction::Cancel(CancelCause::Seller { .. })
                | OrderAction::Refund { cause: RefundCause::Seller, .. }
        )
    }

    /// What happens to the product of the order; `None` if it stays as it is.
    pub const fn product_action(&self) -> Option<ProductAction> {
        match self {
            OrderAction::Cancel(CancelCause::Seller { off_shelf: true })
            | OrderAction::Refund { off_shelf: true, .. } => Some(ProductAction::Withdraw),
            OrderAction::Cancel(
                CancelCause::Buyer
                | CancelCause::Seller { off_shelf: false }
                | CancelCause::Timeout { .. }
                | CancelCause::AssetLockFailed
                | CancelCause::PaymentFailed,
            )
            | OrderAction::Refund { off_shelf: false, .. } => Some(ProductAction::Release),
            OrderAction::Pay
            | OrderAction::Ship(_)
            | OrderAction::Complete
            | OrderAction::BeginRefund { .. }
            | OrderAction::AbandonRefund { .. } => None,
        }
    }

    /// Name of the action in error messages.
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

/// The role of a caller in relation to an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OrderActor {
    /// The payment gateway, authenticated by its signature.
    Gateway,
    Buyer,
    Seller,
    /// The service itself: jobs and event handlers.
    System,
    Operator,
    Unrelated,
}

named!(OrderActor {
    Gateway => "gateway", Buyer => "buyer", Seller => "seller",
    System => "system", Operator => "operator", Unrelated => "stranger"
});

/// Reason why an action on an order is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderRefusal {
    #[error("{actor} is not permitted to {action} an order")]
    NotAllowed { actor: OrderActor, action: &'static str },
    #[error("cannot {action} an order that is {status}")]
    WrongStatus { status: OrderStatus, action: &'static str },
    #[error("the order's payment deadline has not passed")]
    NotOverdue,
    #[error("cannot {action} an order while its refund is being processed")]
    Refunding { action: &'static str },
    /// An asset of the order does not allow the step: it cannot be used, or its hold does not have the expected status.
    #[error(transparent)]
    Assets(#[from] AssetRefusal),
    #[error(transparent)]
    Product(#[from] ProductRefusal),
}
