//! The hold of an asset for an order: pending, then committed or released, exactly one of the two.

use chrono::{DateTime, Utc};

use super::{Asset, AssetOperation, AssetRefusal, OperationKind};
use crate::{CouponId, OrderId, UserId};
use handover_events::TenantId;
use handover_events::named;

/// Where a hold stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HoldStatus {
    /// Pending: the asset can be used by nobody else.
    Frozen,
    /// The order was paid with it.
    Committed,
    /// The order is over unpaid, or the lock was refused for good.
    Released,
}

named!(HoldStatus { Frozen => "FROZEN", Committed => "COMMITTED", Released => "RELEASED" });

/// The hold of one asset for one order: there is one at most.
///
/// A release that comes before its lock, and a lock that was refused for good, leave a tombstone: a released hold over
/// nothing, after which the late lock does nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// The marketplace.
    pub tenant: TenantId,
    /// The order.
    pub order: OrderId,
    /// What is held.
    pub asset: Asset,
    /// Whose it is.
    pub user: UserId,
    /// How much: minor units or points; of a coupon, what it takes off.
    pub amount: i64,
    /// Which coupon, if it is one.
    pub coupon: Option<CouponId>,
    /// Where it stands.
    pub status: HoldStatus,
    /// Whether what was committed has been given back.
    pub reverted: bool,
    /// Counts the changes of the row, from 1.
    pub version: i64,
    /// When it was made.
    pub create_time: DateTime<Utc>,
    /// When it last changed.
    pub update_time: DateTime<Utc>,
}

impl Hold {
    /// A pending hold.
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

    /// What is left of a release before its lock, or of a lock that was refused for good.
    pub fn tombstone(
        (tenant, order): (TenantId, OrderId),
        user: UserId,
        asset: Asset,
        now: DateTime<Utc>,
    ) -> Hold {
        let hold = Hold::frozen((tenant, order), user, asset, 0, None, now);
        Hold { status: HoldStatus::Released, ..hold }
    }

    /// The hold as the operations of its order tell it: every change of one is in an operation, but for a tombstone.
    /// `None` where none of them holds anything of the asset.
    pub fn told_by(operations: &[AssetOperation], asset: Asset) -> Option<Hold> {
        let of_hold =
            [OperationKind::Freeze, OperationKind::Commit, OperationKind::Release, OperationKind::Revert];
        let moves = || operations.iter().filter(|it| it.asset == asset && of_hold.contains(&it.kind));
        let has = |kind| moves().any(|it| it.kind == kind);
        let first = moves().min_by_key(|it| it.at)?;
        let last = moves().max_by_key(|it| it.at)?;
        let told = Hold::frozen(
            (first.tenant, first.order?),
            first.user,
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
        Some(Hold { status, reverted, update_time: last.at, ..told })
    }

    /// Committed; `None` if it is already.
    pub fn commit(&self, now: DateTime<Utc>) -> Result<Option<Hold>, AssetRefusal> {
        self.end(HoldStatus::Committed, now)
    }

    /// Released; `None` if it is already.
    pub fn release(&self, now: DateTime<Utc>) -> Result<Option<Hold>, AssetRefusal> {
        self.end(HoldStatus::Released, now)
    }

    /// What was committed is given back; `None` if it is already. Never more than was committed, never twice.
    pub fn revert(&self, now: DateTime<Utc>) -> Result<Option<Hold>, AssetRefusal> {
        match self.status {
            HoldStatus::Committed if self.reverted => Ok(None),
            HoldStatus::Committed => Ok(Some(Hold { reverted: true, ..self.moved(self.status, now) })),
            HoldStatus::Frozen | HoldStatus::Released => {
                Err(AssetRefusal::BeyondCommitted { asset: self.asset })
            }
        }
    }

    fn end(&self, to: HoldStatus, now: DateTime<Utc>) -> Result<Option<Hold>, AssetRefusal> {
        match self.status {
            HoldStatus::Frozen => Ok(Some(self.moved(to, now))),
            status @ (HoldStatus::Committed | HoldStatus::Released) if status == to => Ok(None),
            status @ (HoldStatus::Committed | HoldStatus::Released) => {
                Err(AssetRefusal::HoldEnded { asset: self.asset, status })
            }
        }
    }

    fn moved(&self, status: HoldStatus, now: DateTime<Utc>) -> Hold {
        Hold { status, version: self.version + 1, update_time: now, ..self.clone() }
    }
}
