//! A coupon: a fixed discount on one order.

use chrono::{DateTime, Utc};

use super::{Asset, AssetRefusal};
use crate::{CouponId, Money, OrderId, UserId};
use handover_events::TenantId;
use handover_events::named;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CouponStatus {
    Available,
    /// Reserved for an order.
    Locked,
    Used,
    Expired,
}

named!(CouponStatus {
    Available => "AVAILABLE", Locked => "LOCKED", Used => "USED", Expired => "EXPIRED"
});

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coupon {
    pub id: CouponId,
    pub tenant: TenantId,
    pub user: UserId,
    pub discount: Money,
    /// Minimum price of the product.
    pub min_spend: Money,
    /// From this time on, the coupon cannot be locked; a coupon that is already locked can still be used.
    pub expires_at: DateTime<Utc>,
    pub status: CouponStatus,
    /// The order that locked or used the coupon.
    pub order: Option<OrderId>,
    /// Version of the row, incremented by each change; starts at 1.
    pub version: i64,
    /// Time at which the coupon was issued.
    pub create_time: DateTime<Utc>,
    pub update_time: DateTime<Utc>,
}

impl Coupon {
    /// The discount on a price; never more than the price.
    pub fn discount_on(&self, price: Money) -> Result<Money, AssetRefusal> {
        if price < self.min_spend {
            return Err(AssetRefusal::BelowMinimumSpend { min_spend: self.min_spend, price });
        }
        Ok(self.discount.min(price))
    }

    /// The effective status at a time: an available coupon past `expires_at` is expired even if the row is not updated
    /// yet.
    pub fn status_at(&self, now: DateTime<Utc>) -> CouponStatus {
        if self.status == CouponStatus::Available && self.expires_at <= now {
            CouponStatus::Expired
        } else {
            self.status
        }
    }

    /// Reserves the coupon for an order of its owner.
    pub fn lock(&self, user: UserId, order: OrderId, now: DateTime<Utc>) -> Result<Coupon, AssetRefusal> {
        if user != self.user {
            return Err(AssetRefusal::NotYourCoupon);
        }
        match self.status_at(now) {
            CouponStatus::Available => Ok(self.with_status(CouponStatus::Locked, Some(order), now)),
            status @ (CouponStatus::Locked | CouponStatus::Used | CouponStatus::Expired) => {
                Err(AssetRefusal::CouponNotAvailable { status })
            }
        }
    }

    /// Marks the coupon as used by the order that locked it.
    pub fn commit(&self, order: OrderId, now: DateTime<Utc>) -> Result<Coupon, AssetRefusal> {
        self.held_by(CouponStatus::Locked, order)?;
        Ok(self.with_status(CouponStatus::Used, Some(order), now))
    }

    /// Unlocks the coupon because the order that locked it ended.
    pub fn release(&self, order: OrderId, now: DateTime<Utc>) -> Result<Coupon, AssetRefusal> {
        self.held_by(CouponStatus::Locked, order)?;
        Ok(self.with_status(CouponStatus::Available, None, now))
    }

    /// Makes the coupon available again because the order that used it was refunded.
    pub fn return_used(&self, order: OrderId, now: DateTime<Utc>) -> Result<Coupon, AssetRefusal> {
        self.held_by(CouponStatus::Used, order)?;
        Ok(self.with_status(CouponStatus::Available, None, now))
    }

    /// Marks the coupon as expired; `None` if it is locked, used, already marked, or not past `expires_at`.
    pub fn expire(&self, now: DateTime<Utc>) -> Option<Coupon> {
        let expired = self.status != CouponStatus::Expired && self.status_at(now) == CouponStatus::Expired;
        expired.then(|| self.with_status(CouponStatus::Expired, None, now))
    }

    fn held_by(&self, status: CouponStatus, order: OrderId) -> Result<(), AssetRefusal> {
        if self.status == status && self.order == Some(order) {
            Ok(())
        } else {
            Err(AssetRefusal::NotLocked { asset: Asset::Coupon })
        }
    }

    fn with_status(&self, status: CouponStatus, order: Option<OrderId>, now: DateTime<Utc>) -> Coupon {
        Coupon { status, order, version: self.version + 1, update_time: now, ..self.clone() }
    }
}
