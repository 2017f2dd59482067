//! The hold of an asset for an order: frozen, then either committed or released.

use chrono::{DateTime, Utc};

use super::{Asset, AssetOperation, AssetRefusal, OperationKind};
use crate::{CouponId, OrderId, UserId};
use handover_events::TenantId;
use handover_events::named;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HoldStatus {
    /// Pending: the asset is reserved for the order.
    Frozen,
    /// The asset paid a part of the order.
    Committed,
    /// The order ended unpaid, or the lock failed permanently.
    Released,
}

named!(HoldStatus { Frozen => "FROZEN", Committed => "COMMITTED", Released => "RELEASED" });

/// The hold of one asset for one order; there is at most one.
///
/// A release that is processed before its lock, and a lock that failed permanently, leave a tombstone: a released hold
/// with amount zero. A later lock then has no effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    pub tenant: TenantId,
    pub order: OrderId,
    pub asset: Asset,
    pub user: UserId,
    /// Amount in minor units or points; for a coupon, its discount.
    pub amount: i64,
    /// The coupon, if the asset is a coupon.
    pub coupon: Option<CouponId>,
    pub status: HoldStatus,
    /// Whether a refund credited the committed amount back to its owner.
    pub reverted: bool,
    /// Version of the row, incremented by each change; starts at 1.
    pub version: i64,
    pub create_time: DateTime<Utc>,
    pub update_time: DateTime<Utc>,
}

impl Hold {
    /// Creates a pending hold.
    pub fn frozen(
        (tenant, order): (TenantId, OrderId),
        user: UserId,
        asset: Asset,
        amount: i64,
        coupon: Option<CouponId>,
        now: DateTime<Utc>,
    ) -> Hold {
        Hold {
            tenant,
            order,
            asset,
            user,
            amount,
            coupon,
            status: HoldStatus::Frozen,
            reverted: false,
            version: 1,
            create_time: now,
            update_time: now,
        }
    }

    /// Creates the tombstone for a release without a lock, or for a lock that failed permanently.
    pub fn tombstone(
        (tenant, order): (TenantId, OrderId),
        user: UserId,
        asset: Asset,
        now: DateTime<Utc>,
    ) -> Hold {
        let hold = Hold::frozen((tenant, order), user, asset, 0, None, now);
        Hold { status: HoldStatus::Released, ..hold }
    }

    /// Reconstructs the hold from the operations of its order. Operations record every change of a hold except a
    /// tombstone. `None` if no operation changed the hold.
    pub fn from_operations(operations: &[AssetOperation], asset: Asset) -> Option<Hold> {
        let of_hold =
            [OperationKind::Freeze, OperationKind::Commit, OperationKind::Release, OperationKind::Revert];
        let moves = || operations.iter().filter(|it| it.asset == asset && of_hold.contains(&it.kind));
        let has = |kind| moves().any(|it| it.kind == kind);
        let first = moves().min_by_key(|it| it.at)?;
        let last = moves().max_by_key(|it| it.at)?;
        let first_state = Hold::frozen(
            (first.tenant, first.order?),
            first.user?,
            asset,
            first.amount,
            first.coupon,
            first.at,
        );
        let reverted = has(OperationKind::Revert);
        let status = if reverted || has(OperationKind::Commit) {
            HoldStatus::Committed
        } else if has(OperationKind::Release) {
            HoldStatus::Released
        } else {
            HoldStatus::Frozen
        };
        Some(Hold { status, reverted, update_time: last.at, ..first_state })
    }

    /// Commits the hold; `None` if it is already committed.
    pub fn commit(&self, now: DateTime<Utc>) -> Result<Option<Hold>, AssetRefusal> {
        self.end(HoldStatus::Committed, now)
    }

    /// Releases the hold; `None` if it is already released.
    pub fn release(&self, now: DateTime<Utc>) -> Result<Option<Hold>, AssetRefusal> {
        self.end(HoldStatus::Released, now)
    }

    /// Marks the committed amount as credited back to its owner, at most once; `None` if it was already credited back.
    pub fn revert(&self, now: DateTime<Utc>) -> Result<Option<Hold>, AssetRefusal> {
        match self.status {
            HoldStatus::Committed if self.reverted => Ok(None),
            HoldStatus::Committed => Ok(Some(Hold { reverted: true, ..self.with_status(self.status, now) })),
            HoldStatus::Frozen | HoldStatus::Released => {
                Err(AssetRefusal::BeyondCommitted { asset: self.asset })
            }
        }
    }

    fn end(&self, to: HoldStatus, now: DateTime<Utc>) -> Result<Option<Hold>, AssetRefusal> {
        match self.status {
            HoldStatus::Frozen => Ok(Some(self.with_status(to, now))),
            status @ (HoldStatus::Committed | HoldStatus::Released) if status == to => Ok(None),
            status @ (HoldStatus::Committed | HoldStatus::Released) => {
                Err(AssetRefusal::HoldEnded { asset: self.asset, status })
            }
        }
    }

    fn with_status(&self, status: HoldStatus, now: DateTime<Utc>) -> Hold {
        Hold { status, version: self.version + 1, update_time: now, ..self.clone() }
    }
}
