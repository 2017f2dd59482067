//! Promises about what is held for orders.

use std::collections::BTreeMap;

use marketplace_domain::{
    Asset, CancelReason, CouponId, CouponStatus, Hold, HoldStatus, OperationKind, Order, OrderStatus,
};

use super::super::plan::Cover;
use super::{Against, Evidence, Promise, promise};

/// Nothing is held any more: every hold was committed or released.
pub(super) fn resolved(evidence: &Evidence<'_>) -> Promise {
    let holds = || evidence.books.assets.holds.values().flatten();
    let mut against = Against::default();
    for hold in holds().filter(|hold| hold.status == HoldStatus::Frozen) {
        against.add(|| format!("{} of order {}", hold.asset, hold.order));
    }
    let (all, frozen) = (holds().count(), against.count);
    promise(
        "every hold is resolved",
        format!("{all} of {all}"),
        format!("{} of {all}", all - frozen),
        &against,
    )
}

/// What an order names was held, and ended as the order did.
pub(super) fn as_orders_ended(evidence: &Evidence<'_>) -> Promise {
    let books = evidence.books;
    let mut against = Against::default();
    let (mut promised, mut found) = (0, 0);
    for order in books.orders.values() {
        let holds = books.assets.holds.get(&order.id).map(Vec::as_slice).unwrap_or_default();
        let told = evidence.told.orders.get(&order.id);
        promised += order.assets.named().count();
        for asset in order.assets.named().filter(|asset| !holds.iter().any(|hold| hold.asset == *asset)) {
            against.add(|| format!("{asset} of order {}, {}: not held", order.id, order.status));
        }
        for hold in holds {
            let may_be_refused = told.is_none_or(|told| told.cover != Cover::Enough);
            if order.assets.names(hold.asset) && is_as(hold, order, may_be_refused) {
                found += 1;
            } else {
                against.add(|| {
                    let reverted = if hold.reverted { " and given back" } else { "" };
                    let (asset, status) = (hold.asset, hold.status);
                    format!("{asset} of order {}, {}: {status}{reverted}", order.id, order.status)
                });
            }
        }
        let is_refused = order.cancel_reason == Some(CancelReason::AssetLockFailed);
        if is_refused && !holds.iter().any(is_buried) {
            against.add(|| format!("order {}, of which no lock was refused", order.id));
        }
    }
    for (order, holds) in &books.assets.holds {
        if !holds.is_empty() && !books.orders.contains_key(order) {
            against.add(|| format!("order {order}, which is not in the table"));
        }
    }
    let count = |holds: usize| format!("{holds} holds");
    promise("holds end as their orders do", count(promised), count(found), &against)
}

/// A lock that was refused leaves a hold of nothing.
pub(super) fn is_buried(hold: &Hold) -> bool {
    hold.status == HoldStatus::Released && hold.amount == 0 && hold.coupon.is_none()
}

/// A lock can be refused after its order was cancelled for something else.
fn is_as(hold: &Hold, order: &Order, may_be_refused: bool) -> bool {
    // One that has not ended is another promise.
    if hold.status == HoldStatus::Frozen {
        return true;
    }
    let is_whole = hold.amount == order.assets.amount(hold.asset)
        && hold.user == order.buyer
        && hold.coupon.is_some() == (hold.asset == Asset::Coupon);
    let is_refused = may_be_refused && is_buried(hold);
    let ended = (hold.status, hold.reverted);
    match order.status {
        OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed => {
            is_whole && ended == (HoldStatus::Committed, false)
        }
        OrderStatus::Refunded => is_whole && ended == (HoldStatus::Committed, true),
        OrderStatus::Cancelled => (is_whole || is_refused) && ended == (HoldStatus::Released, false),
        OrderStatus::Pending => false,
    }
}

/// Each coupon is used by one order at most, and says so.
pub(super) fn coupons(evidence: &Evidence<'_>) -> Promise {
    let assets = &evidence.books.assets;
    let mut uses: BTreeMap<CouponId, i64> = BTreeMap::new();
    for operation in assets.on_assets().filter(|operation| operation.asset == Asset::Coupon) {
        let step = match operation.kind {
            OperationKind::Commit => 1,
            OperationKind::Revert => -1,
            OperationKind::Deposit
            | OperationKind::Grant
            | OperationKind::Issue
            | OperationKind::Freeze
            | OperationKind::Release
            | OperationKind::Earn
            | OperationKind::Unearn
            | OperationKind::Capture
            | OperationKind::Payout => 0,
        };
        if let Some(coupon) = operation.coupon {
            *uses.entry(coupon).or_insert(0) += step;
        }
    }
    let mut against = Against::default();
    let (mut used, mut left) = (0, 0);
    for coupon in &assets.coupons {
        match (uses.remove(&coupon.id).unwrap_or(0), coupon.status) {
            (1, CouponStatus::Used) => used += 1,
            (0, CouponStatus::Available | CouponStatus::Expired) => left += 1,
            (times, status) => against.add(|| format!("coupon {}, {status}, used {times} times", coupon.id)),
        }
    }
    uses.keys().for_each(|id| against.add(|| format!("coupon {id}, which nobody was given")));
    let promised = format!("{} coupons", assets.coupons.len());
    promise("a coupon is used once", promised, format!("{used} used, {left} left"), &against)
}
