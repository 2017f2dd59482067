//! Promises about asset holds.

use std::collections::BTreeMap;

use marketplace_domain::{
    Asset, CancelReason, CouponId, CouponStatus, Hold, HoldStatus, OperationKind, Order, OrderStatus,
};

use super::super::plan::AssetCoverage;
use super::promise::{Evidence, Promise, Violations, promise};

/// Promise: every hold is committed or released.
pub(super) fn resolved(evidence: &Evidence<'_>) -> Promise {
    let holds = || evidence.database.assets.holds.values().flatten();
    let mut violations = Violations::default();
    for hold in holds().filter(|hold| hold.status == HoldStatus::Frozen) {
        violations.add(|| format!("the hold on {} of order {} is still frozen", hold.asset, hold.order));
    }
    let (all, frozen) = (holds().count(), violations.count);
    promise(
        "every hold is resolved",
        format!("{all} of {all}"),
        format!("{} of {all}", all - frozen),
        &violations,
    )
}

/// Promise: each asset that an order uses has a hold whose state matches the state of the order.
pub(super) fn match_orders(evidence: &Evidence<'_>) -> Promise {
    let database = evidence.database;
    let mut violations = Violations::default();
    let (mut promised, mut found) = (0, 0);
    for order in database.orders.values() {
        let holds = database.assets.holds.get(&order.id).map(Vec::as_slice).unwrap_or_default();
        let client_order = evidence.clients.orders.get(&order.id);
        promised += order.assets.named().count();
        for asset in order.assets.named().filter(|asset| !holds.iter().any(|hold| hold.asset == *asset)) {
            violations.add(|| format!("{asset} of order {}, {}: no hold", order.id, order.status));
        }
        for hold in holds {
            let may_be_refused = client_order.is_none_or(|order| order.cover != AssetCoverage::Sufficient);
            if order.assets.names(hold.asset) && matches_order(hold, order, may_be_refused) {
                found += 1;
            } else {
                violations.add(|| {
                    let reverted = if hold.reverted { " and reverted" } else { "" };
                    let (asset, status) = (hold.asset, hold.status);
                    format!(
                        "{asset} of order {}, {}: hold is {status}{reverted}, which does not match",
                        order.id, order.status
                    )
                });
            }
        }
        let is_conflict = order.cancel_reason == Some(CancelReason::AssetLockFailed);
        if is_conflict && !holds.iter().any(is_tombstone) {
            violations
                .add(|| format!("order {}: cancelled because of a refused lock, but no tombstone", order.id));
        }
    }
    for (order, holds) in &database.assets.holds {
        if !holds.is_empty() && !database.orders.contains_key(order) {
            violations.add(|| format!("order {order}: has holds, but is not in the table"));
        }
    }
    let count = |holds: usize| format!("{holds} holds");
    promise("holds match their orders", count(promised), count(found), &violations)
}

/// Whether a hold is a tombstone, as after a rejected lock.
pub(super) fn is_tombstone(hold: &Hold) -> bool {
    hold.status == HoldStatus::Released && hold.amount == 0 && hold.coupon.is_none()
}

/// Whether a hold matches the state of its order. Any cancelled order may have a tombstone, because a lock may be
/// rejected after the order was cancelled for another reason.
fn matches_order(hold: &Hold, order: &Order, may_be_refused: bool) -> bool {
    // A hold that is still frozen is accepted here: it violates the promise "every hold is resolved".
    if hold.status == HoldStatus::Frozen {
        return true;
    }
    let is_whole = hold.amount == order.assets.amount(hold.asset)
        && hold.user == order.buyer
        && hold.coupon.is_some() == (hold.asset == Asset::Coupon);
    let is_conflict = may_be_refused && is_tombstone(hold);
    let ended = (hold.status, hold.reverted);
    match order.status {
        OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed => {
            is_whole && ended == (HoldStatus::Committed, false)
        }
        OrderStatus::Refunded => is_whole && ended == (HoldStatus::Committed, true),
        OrderStatus::Cancelled => (is_whole || is_conflict) && ended == (HoldStatus::Released, false),
        OrderStatus::Pending => false,
    }
}

/// Promise: the number of commits of each coupon is equal to its number of reverts or greater by one, and its status
/// matches.
pub(super) fn coupons(evidence: &Evidence<'_>) -> Promise {
    let assets = &evidence.database.assets;
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
    let mut violations = Violations::default();
    let (mut used, mut left) = (0, 0);
    for coupon in &assets.coupons {
        match (uses.remove(&coupon.id).unwrap_or(0), coupon.status) {
            (1, CouponStatus::Used) => used += 1,
            (0, CouponStatus::Available | CouponStatus::Expired) => left += 1,
            (times, status) => {
                violations.add(|| format!("coupon {}, {status}: commits minus reverts is {times}", coupon.id))
            }
        }
    }
    uses.keys()
        .for_each(|id| violations.add(|| format!("coupon {id}: has operations, but is not in the table")));
    let promised = format!("{} coupons", assets.coupons.len());
    promise("no coupon is used twice", promised, format!("{used} used, {left} left"), &violations)
}
