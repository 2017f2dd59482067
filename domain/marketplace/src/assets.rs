//! Assets that can pay for an order in addition to money: a coupon, wallet balance, points.
//!
//! Each asset is held for its order in two phases, like the two-phase transfers of TigerBeetle: pending
//! ([`HoldStatus::Frozen`]), then either committed or released. Wallet and points use double-entry bookkeeping: each
//! operation is a set of entries with sum zero.
//!
//! **Invariant:** amounts are integers (minor units of money, whole points) and are never rounded.

mod balance;
mod coupon;
mod hold;
mod operation;
mod points;

pub use balance::{Account, Balance, Entry, Purse};
pub use coupon::{Coupon, CouponStatus};
pub use hold::{Hold, HoldStatus};
pub use operation::{AssetOperation, OperationKey, OperationKind, Posting};
pub use points::{Points, PointsRules};

use crate::{CouponId, Money};
use handover_events::named;

/// The asset of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asset {
    Coupon,
    /// Wallet balance, in minor units.
    Wallet,
    Points,
    /// Money that passes through the payment gateway, in minor units. It is captured and paid out, never held.
    Cash,
}

named!(Asset { Coupon => "coupon", Wallet => "wallet", Points => "points", Cash => "cash" });

impl Asset {
    /// Assets that can be held for an order.
    pub const HELD: [Asset; 3] = [Asset::Coupon, Asset::Wallet, Asset::Points];

    /// Formats an amount of this asset for messages: `88.50`, `300`.
    pub fn show(self, amount: i64) -> String {
        match self {
            Asset::Points => amount.to_string(),
            Asset::Coupon | Asset::Wallet | Asset::Cash => {
                let sign = if amount < 0 { "-" } else { "" };
                let minor = amount.unsigned_abs();
                format!("{sign}{}.{:02}", minor / 100, minor % 100)
            }
        }
    }
}

/// A coupon used by an order, with its discount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CouponUse {
    pub id: CouponId,
    /// The discount; never more than the price.
    pub discount: Money,
}

/// The assets used by an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderAssets {
    pub coupon: Option<CouponUse>,
    /// Amount from the buyer's wallet.
    pub wallet: Money,
    pub points: Points,
}

impl Default for OrderAssets {
    fn default() -> Self {
        OrderAssets::NONE
    }
}

impl OrderAssets {
    pub const NONE: OrderAssets = OrderAssets { coupon: None, wallet: Money::ZERO, points: Points::ZERO };

    /// Amount of an asset used by the order, in minor units or points; 0 if it is not used.
    pub fn amount(&self, asset: Asset) -> i64 {
        match asset {
            Asset::Coupon => self.coupon.map_or(0, |coupon| coupon.discount.minor()),
            Asset::Wallet => self.wallet.minor(),
            Asset::Points => self.points.get(),
            Asset::Cash => 0,
        }
    }

    /// Whether the order uses this asset.
    pub fn names(&self, asset: Asset) -> bool {
        match asset {
            Asset::Coupon => self.coupon.is_some(),
            Asset::Wallet | Asset::Points | Asset::Cash => self.amount(asset) > 0,
        }
    }

    /// The assets used by the order.
    pub fn named(&self) -> impl Iterator<Item = Asset> {
        Asset::HELD.into_iter().filter(|asset| self.names(*asset))
    }

    pub fn is_empty(&self) -> bool {
        self.named().next().is_none()
    }
}

/// The assets that a buyer requests for a new order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedAssets {
    /// The current state of the coupon.
    pub coupon: Option<Coupon>,
    pub wallet: Money,
    pub points: Points,
}

impl RequestedAssets {
    pub const NONE: RequestedAssets =
        RequestedAssets { coupon: None, wallet: Money::ZERO, points: Points::ZERO };

    /// Computes the assets of an order with this price, and the remaining amount to be paid in money.
    ///
    /// Does not check whether the assets are available: that is checked when they are locked.
    pub fn apply_to(&self, price: Money, rules: PointsRules) -> Result<(OrderAssets, Money), AssetRefusal> {
        let coupon = match &self.coupon {
            Some(coupon) => Some(CouponUse { id: coupon.id, discount: coupon.discount_on(price)? }),
            None => None,
        };
        let mut left =
            price.checked_sub(coupon.map_or(Money::ZERO, |used| used.discount)).unwrap_or(Money::ZERO);
        left =
            left.checked_sub(self.wallet).ok_or(AssetRefusal::MoreThanLeft { asset: Asset::Wallet, left })?;
        let worth = rules.worth(self.points)?;
        left = left.checked_sub(worth).ok_or(AssetRefusal::MoreThanLeft { asset: Asset::Points, left })?;
        Ok((OrderAssets { coupon, wallet: self.wallet, points: self.points }, left))
    }
}

/// Reason why an operation on an asset is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssetRefusal {
    #[error("insufficient {asset}: {} requested, {} available", .asset.show(*.asked), .asset.show(*.available))]
    Insufficient { asset: Asset, asked: i64, available: i64 },
    #[error("the coupon requires a price of at least {min_spend}; the price is {price}")]
    BelowMinimumSpend { min_spend: Money, price: Money },
    #[error("the {asset} amount exceeds the remaining amount of {left}")]
    MoreThanLeft { asset: Asset, left: Money },
    /// The value of the points is not a whole number of minor units.
    #[error("points must be a multiple of {step}")]
    PointsNotWhole {
        /// The smallest number of points with a whole value.
        step: i64,
    },
    /// The coupon is locked, used or expired.
    #[error("the coupon is {status}")]
    CouponNotAvailable { status: CouponStatus },
    #[error("the coupon belongs to another user")]
    NotYourCoupon,
    /// The order does not hold the asset, so there is nothing to commit, release or revert.
    #[error("the {asset} is not locked for this order")]
    NotLocked { asset: Asset },
    /// The hold already ended: a committed hold cannot be released, and a released hold cannot be committed.
    #[error("the {asset} hold of this order is already {status}")]
    HoldEnded { asset: Asset, status: HoldStatus },
    /// The hold was never committed, so it cannot be reverted.
    #[error("the {asset} hold of this order was never committed, so it cannot be reverted")]
    BeyondCommitted { asset: Asset },
    /// The amount is negative, or the amount or a balance exceeds the largest integer that JSON represents exactly.
    #[error("the {asset} amount is outside the allowed range of an account")]
    TooMuch { asset: Asset },
}
