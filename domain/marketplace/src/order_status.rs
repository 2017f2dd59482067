//! Order status and cancel reason.

use serde::{Deserialize, Serialize};

use handover_events::named;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderStatus {
    Pending,
    Paid,
    Shipped,
    /// Received by the buyer. Terminal.
    Completed,
    /// Closed before payment. Terminal.
    Cancelled,
    /// Refunded before shipping. Terminal.
    Refunded,
}

named!(OrderStatus {
    Pending => "pending", Paid => "paid", Shipped => "shipped",
    Completed => "completed", Cancelled => "cancelled", Refunded => "refunded"
});

impl OrderStatus {
    /// Whether no action is allowed in this status.
    pub const fn is_terminal(self) -> bool {
        match self {
            OrderStatus::Completed | OrderStatus::Cancelled | OrderStatus::Refunded => true,
            OrderStatus::Pending | OrderStatus::Paid | OrderStatus::Shipped => false,
        }
    }

    /// Whether the product of an order in this status is available to other orders.
    pub const fn frees_product(self) -> bool {
        match self {
            OrderStatus::Cancelled | OrderStatus::Refunded => true,
            OrderStatus::Pending | OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed => false,
        }
    }

    /// State of the shipment task of an order in this status.
    pub const fn shipment_state(self) -> ShipmentState {
        match self {
            OrderStatus::Pending | OrderStatus::Paid => ShipmentState::Open,
            OrderStatus::Shipped
            | OrderStatus::Completed
            | OrderStatus::Cancelled
            | OrderStatus::Refunded => ShipmentState::Closed,
        }
    }
}

/// State of the seller's task to ship an order. It follows from the status of the order, so that every transition of the
/// order also opens or closes its task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShipmentState {
    /// The order is to be shipped.
    Open,
    /// The order was shipped, cancelled or refunded.
    Closed,
}

named!(ShipmentState { Open => "open", Closed => "closed" });

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    Buyer,
    /// The seller declined the order.
    Seller,
    Timeout,
    /// The lock of a coupon, wallet amount or points failed permanently.
    AssetLockFailed,
    /// The payment of an order with assets failed.
    PaymentFailed,
}

named!(CancelReason {
    Buyer => "buyer", Seller => "seller", Timeout => "timeout", AssetLockFailed => "asset_lock_failed",
    PaymentFailed => "payment_failed"
});
