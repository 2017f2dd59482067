//! What an order may be paid with beside money: a coupon, wallet balance, points (spec §2 "Assets"; seed 004).
//!
//! Each named asset is held for its order in two phases, as TigerBeetle's two-phase transfers are: pending
//! ([`HoldStatus::Frozen`]), then committed or released, exactly one of the two. Wallet and points are kept in double
//! entry: every operation is a set of entries whose sum is zero.
//!
//! **Invariant:** amounts are integers: minor units of money, whole points. Nothing is rounded.

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

/// What an operation moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asset {
    /// A coupon.
    Coupon,
    /// Wallet balance, in minor units.
    Wallet,
    /// Points.
    Points,
    /// Money through the payment gateway, in minor units. Captured and paid out, never held.
    Cash,
}

named!(Asset { Coupon => "coupon", Wallet => "wallet", Points => "points", Cash => "cash" });

impl Asset {
    /// Those that can be held for an order.
    pub const HELD: [Asset; 3] = [Asset::Coupon, Asset::Wallet, Asset::Points];

    /// An amount of this asset as people write it: `88.50`, `300`.
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

/// A coupon that an order names, with what it takes off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CouponUse {
    /// Which coupon.
    pub id: CouponId,
    /// What it takes off: never more than the price.
    pub discount: Money,
}

/// The assets that an order names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OrderAssets {
    /// A coupon.
    pub coupon: Option<CouponUse>,
    /// So much of the buyer's wallet.
    pub wallet: Money,
    /// So many of the buyer's points.
    pub points: Points,
}

impl Default for OrderAssets {
    fn default() -> Self {
        OrderAssets::NONE
    }
}

impl OrderAssets {
    /// None.
    pub const NONE: OrderAssets = OrderAssets { coupon: None, wallet: Money::ZERO, points: Points::ZERO };

    /// How much of an asset the order names: minor units or points; 0 is none.
    pub fn amount(&self, asset: Asset) -> i64 {
        match asset {
            Asset::Coupon => self.coupon.map_or(0, |coupon| coupon.discount.minor()),
            Asset::Wallet => self.wallet.minor(),
            Asset::Points => self.points.get(),
            Asset::Cash => 0,
        }
    }

    /// Whether the order names this asset.
    pub fn names(&self, asset: Asset) -> bool {
        match asset {
            Asset::Coupon => self.coupon.is_some(),
            Asset::Wallet | Asset::Points | Asset::Cash => self.amount(asset) > 0,
        }
    }

    /// The assets it names.
    pub fn named(&self) -> impl Iterator<Item = Asset> {
        Asset::HELD.into_iter().filter(|asset| self.names(*asset))
    }

    /// Whether it names none.
    pub fn is_empty(&self) -> bool {
        self.named().next().is_none()
    }
}

/// The assets that a buyer asks to use for a new order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedAssets {
    /// The coupon, as it stands.
    pub coupon: Option<Coupon>,
    /// So much of the wallet.
    pub wallet: Money,
    /// So many points.
    pub points: Points,
}

impl AskedAssets {
    /// None.
    pub const NONE: AskedAssets = AskedAssets { coupon: None, wallet: Money::ZERO, points: Points::ZERO };

    /// What an order of this price names, and what is left to be paid in money: never below zero (spec §2).
    ///
    /// Whether the assets are there is not judged here: their locks decide that.
    pub fn applied_to(&self, price: Money, rules: PointsRules) -> Result<(OrderAssets, Money), AssetRefusal> {
        let coupon = match &self.coupon {
            Some(coupon) => Some(CouponUse { id: coupon.id, discount: coupon.discount_on(price)? }),
            None => None,
        };
        let mut left = price.less(coupon.map_or(Money::ZERO, |used| used.discount)).unwrap_or(Money::ZERO);
        left = left.less(self.wallet).ok_or(AssetRefusal::MoreThanLeft { asset: Asset::Wallet, left })?;
        let worth = rules.worth(self.points)?;
        left = left.less(worth).ok_or(AssetRefusal::MoreThanLeft { asset: Asset::Points, left })?;
        Ok((OrderAssets { coupon, wallet: self.wallet, points: self.points }, left))
    }
}

/// Why an asset cannot be used so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssetRefusal {
    /// There is not so much of it.
    #[error("not enough {asset}: {} asked, {} available", .asset.show(*.asked), .asset.show(*.available))]
    Insufficient {
        /// Of what.
        asset: Asset,
        /// How much was asked.
        asked: i64,
        /// How much there is.
        available: i64,
    },
    /// The price is below the coupon's minimum spend.
    #[error("the coupon is for {min_spend} or more, the price is {price}")]
    BelowMinimumSpend {
        /// What must be spent.
        min_spend: Money,
        /// What is.
        price: Money,
    },
    /// More was asked to be paid so than is left to be paid.
    #[error("{asset} is more than the {left} that are left to be paid")]
    MoreThanLeft {
        /// With which asset.
        asset: Asset,
        /// What is left.
        left: Money,
    },
    /// So many points are worth no whole number of minor units.
    #[error("points must be a multiple of {step}")]
    PointsNotWhole {
        /// The fewest that are.
        step: i64,
    },
    /// The coupon cannot be used.
    #[error("the coupon is {status}")]
    CouponNotAvailable {
        /// What it is instead of available.
        status: CouponStatus,
    },
    /// The coupon is somebody else's.
    #[error("the coupon is another user's")]
    NotYourCoupon,
    /// Nothing was locked that could be committed or given back.
    #[error("there is no lock on the {asset} of this order")]
    NotLocked {
        /// Of which asset.
        asset: Asset,
    },
    /// The hold has ended the other way.
    #[error("the {asset} hold of this order is {status} already")]
    HoldEnded {
        /// On which asset.
        asset: Asset,
        /// How it ended.
        status: HoldStatus,
    },
    /// More would be given back than was committed.
    #[error("the {asset} of this order were never committed, so nothing can be given back")]
    BeyondCommitted {
        /// Of which asset.
        asset: Asset,
    },
    /// The amount is negative, or it or an account would be more than a JSON number carries whole.
    #[error("the {asset} would be more than an account can hold")]
    TooMuch {
        /// Of which asset.
        asset: Asset,
    },
}
