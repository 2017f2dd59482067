//! A coupon: takes a fixed amount off one order.

use chrono::{DateTime, Utc};

use super::{Asset, AssetRefusal};
use crate::{CouponId, Money, OrderId, UserId};
use handover_events::TenantId;
use handover_events::named;

/// Where a coupon stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CouponStatus {
    /// Can be used.
    Available,
    /// Held for an order.
    Locked,
    /// Used by an order.
    Used,
    /// Its time is over and nobody used it.
    Expired,
}

named!(CouponStatus {
    Available => "AVAILABLE", Locked => "LOCKED", Used => "USED", Expired => "EXPIRED"
});

/// A coupon and the version of its row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Coupon {
    /// Its id.
    pub id: CouponId,
    /// The marketplace.
    pub tenant: TenantId,
    /// Whose it is.
    pub user: UserId,
    /// What it takes off.
    pub discount: Money,
    /// The least price it can be used for.
    pub min_spend: Money,
    /// From this moment on it can be used no more.
    pub expires_at: DateTime<Utc>,
    /// Where it stands.
    pub status: CouponStatus,
    /// The order that holds or used it.
    pub order: Option<OrderId>,
    /// Counts the changes of the row, from 1.
    pub version: i64,
    /// When it was issued.
    pub create_time: DateTime<Utc>,
    /// When it last changed.
    pub update_time: DateTime<Utc>,
}

impl Coupon {
    /// What it takes off a price: never more than the price.
    pub fn discount_on(&self, price: Money) -> Result<Money, AssetRefusal> {
        if price < self.min_spend {
            return Err(AssetRefusal::BelowMinimumSpend { min_spend: self.min_spend, price });
        }
        Ok(self.discount.min(price))
    }

    /// Where it stands at this moment: one whose time is over has expired, whether or not that was written down.
    pub fn status_at(&self, now: DateTime<Utc>) -> CouponStatus {
        if self.status == CouponStatus::Available && self.expires_at <= now {
            CouponStatus::Expired
        } else {
            self.status
        }
    }

    /// Held for an order of its user.
    pub fn lock(&self, user: UserId, order: OrderId, now: DateTime<Utc>) -> Result<Coupon, AssetRefusal> {
        if user != self.user {
            return Err(AssetRefusal::NotYourCoupon);
        }
        match self.status_at(now) {
            CouponStatus::Available => Ok(self.moved(CouponStatus::Locked, Some(order), now)),
            status @ (CouponStatus::Locked | CouponStatus::Used | CouponStatus::Expired) => {
                Err(AssetRefusal::CouponNotAvailable { status })
            }
        }
    }

    /// Used by the order that holds it.
    pub fn commit(&self, order: OrderId, now: DateTime<Utc>) -> Result<Coupon, AssetRefusal> {
        self.held_by(CouponStatus::Locked, order)?;
        Ok(self.moved(CouponStatus::Used, Some(order), now))
    }

    /// Free again: the order that held it is over.
    pub fn release(&self, order: OrderId, now: DateTime<Utc>) -> Result<Coupon, AssetRefusal> {
        self.held_by(CouponStatus::Locked, order)?;
        Ok(self.moved(CouponStatus::Available, None, now))
    }

    /// Free again: the order that used it was paid back.
    pub fn give_back(&self, order: OrderId, now: DateTime<Utc>) -> Result<Coupon, AssetRefusal> {
        self.held_by(CouponStatus::Used, order)?;
        Ok(self.moved(CouponStatus::Available, None, now))
    }

    /// Written down as expired, if it has.
    pub fn expire(&self, now: DateTime<Utc>) -> Option<Coupon> {
        let expired = self.status != CouponStatus::Expired && self.status_at(now) == CouponStatus::Expired;
        expired.then(|| self.moved(CouponStatus::Expired, None, now))
    }

    fn held_by(&self, status: CouponStatus, order: OrderId) -> Result<(), AssetRefusal> {
        if self.status == status && self.order == Some(order) {
            Ok(())
        } else {
            Err(AssetRefusal::NotLocked { asset: Asset::Coupon })
        }
    }

    fn moved(&self, status: CouponStatus, order: Option<OrderId>, now: DateTime<Utc>) -> Coupon {
        Coupon { status, order, version: self.version + 1, update_time: now, ..self.clone() }
    }
}
