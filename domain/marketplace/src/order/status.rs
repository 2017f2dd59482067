//! Where an order stands, and why it was cancelled.

use serde::{Deserialize, Serialize};

use handover_events::named;

/// Where an order stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OrderStatus {
    /// Created, not paid.
    Pending,
    /// Paid, not shipped.
    Paid,
    /// On its way.
    Shipped,
    /// Received. Terminal.
    Completed,
    /// Closed before it was paid. Terminal.
    Cancelled,
    /// Paid back before it was shipped. Terminal.
    Refunded,
}

named!(OrderStatus {
    Pending => "pending", Paid => "paid", Shipped => "shipped",
    Completed => "completed", Cancelled => "cancelled", Refunded => "refunded"
});

impl OrderStatus {
    /// Whether nothing can happen any more.
    pub const fn is_terminal(self) -> bool {
        match self {
            OrderStatus::Completed | OrderStatus::Cancelled | OrderStatus::Refunded => true,
            OrderStatus::Pending | OrderStatus::Paid | OrderStatus::Shipped => false,
        }
    }

    /// Whether the product of an order in this status is free for another order.
    pub const fn frees_product(self) -> bool {
        match self {
            OrderStatus::Cancelled | OrderStatus::Refunded => true,
            OrderStatus::Pending | OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed => false,
        }
    }
}

/// Why an order was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CancelReason {
    /// By its buyer.
    Buyer,
    /// Not paid in time.
    Timeout,
    /// A coupon, wallet or points lock was refused for good.
    AssetLockFailed,
    /// The payment of an order with assets failed.
    PaymentFailed,
}

named!(CancelReason {
    Buyer => "buyer", Timeout => "timeout", AssetLockFailed => "asset_lock_failed", PaymentFailed => "payment_failed"
});
