//! A planned sale: seller and buyer, price, scenario, and the assets that the order uses.

use handover_events::IdError;
use marketplace_domain::{Money, Points, UserId};

/// Course of an order after it is placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Scenario {
    /// Paid, shipped, received.
    Completed,
    /// Paid and shipped.
    Shipped,
    Paid,
    /// The first payment fails, the second succeeds.
    PaidOnRetry,
    /// The gateway reports the payment as failed, and later as successful.
    PaidAfterFailure,
    /// The gateway captures another amount than that of the first payment; the second payment succeeds.
    ChargedWrongly,
    /// The gateway captures the payment twice.
    ChargedTwice,
    /// The buyer cancels before paying.
    Cancelled,
    /// The buyer never pays.
    Unpaid,
    /// The payment fails; this cancels the order because it uses assets.
    PaymentFailed,
    /// The buyer cancels while the payment is in progress; then the payment succeeds.
    PaidAfterCancel,
    /// Paid, then refunded.
    Refunded,
    /// Paid; the first refund fails, and the operator requests another one.
    RefundedOnRetry,
}

impl Scenario {
    /// Whether a payment succeeds before the order is closed.
    fn is_paid(self) -> bool {
        match self {
            Scenario::Completed
            | Scenario::Shipped
            | Scenario::Paid
            | Scenario::PaidOnRetry
            | Scenario::PaidAfterFailure
            | Scenario::ChargedWrongly
            | Scenario::ChargedTwice
            | Scenario::Refunded
            | Scenario::RefundedOnRetry => true,
            Scenario::Cancelled | Scenario::Unpaid | Scenario::PaymentFailed | Scenario::PaidAfterCancel => {
                false
            }
        }
    }
}

/// Whether the buyer has the assets that the order uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum AssetCoverage {
    Sufficient,
    /// Two orders use the same coupon; the first to lock it gets it.
    Contended,
    Insufficient,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct PlannedAssets {
    /// Index of the coupon in [`AssetGrants::coupons`].
    pub(in super::super) coupon: Option<usize>,
    pub(in super::super) wallet: Money,
    pub(in super::super) points: Points,
    pub(in super::super) cover: AssetCoverage,
}

impl PlannedAssets {
    pub(super) const NOTHING: PlannedAssets = PlannedAssets {
        coupon: None,
        wallet: Money::ZERO,
        points: Points::ZERO,
        cover: AssetCoverage::Sufficient,
    };
}

/// A planned sale.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Deal {
    pub(in super::super) seller: UserId,
    pub(in super::super) buyer: UserId,
    pub(in super::super) title: String,
    pub(in super::super) price: Money,
    pub(in super::super) scenario: Scenario,
    pub(in super::super) assets: PlannedAssets,
    /// Whether the gateway sends each of its reports twice.
    pub(in super::super) reported_twice: bool,
}

impl Deal {
    /// Whether the order will be paid: its scenario pays it, and its buyer is sure to have the assets that it uses.
    pub(super) fn is_paid(&self) -> bool {
        self.scenario.is_paid() && self.assets.cover == AssetCoverage::Sufficient
    }
}

/// The plan contains an invalid user id or price: a bug in this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the plan of the day contains an invalid user id or price")]
pub(in super::super) struct InvalidPlan;

impl From<IdError> for InvalidPlan {
    fn from(_: IdError) -> InvalidPlan {
        InvalidPlan
    }
}
