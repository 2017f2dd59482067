//! Holds, earned points and refunds of one order match its events.

use std::collections::BTreeMap;

use handover_events::{ConsumeStatus, TenantId};
use handover_outbox::ports::{OutboxRow, StoreError};
use marketplace_domain::{
    Asset, AssetOperation, Capture, CouponId, CouponStatus, EventKind, Hold, HoldStatus, Money,
    OperationKind, Order, OrderId, OrderStatus, PayableId, Purse, Refund, RefundCause, RefundResult,
    RefundStatus, UserId,
};

use super::Checker;
use crate::row_kinds::is_invalid;

/// Use of purses and coupons by all orders.
#[derive(Default)]
pub(super) struct AssetUsage {
    /// Change of a user's purse since the grants, including frozen amounts.
    pub(super) purses: BTreeMap<(TenantId, UserId, Purse), i64>,
    /// Frozen amount of a purse.
    pub(super) frozen: BTreeMap<(TenantId, UserId, Purse), i64>,
    /// Orders that use a coupon, with the resulting status of the coupon.
    pub(super) coupons: BTreeMap<(TenantId, CouponId), Vec<(OrderId, CouponStatus)>>,
}

pub(super) async fn check(
    checker: &mut Checker<'_>,
    order: &Order,
    rows: &[&OutboxRow],
    usage: &mut AssetUsage,
) -> Result<(), StoreError> {
    let holds = checker.view.holds_of(order.tenant, &[order.id]).await?;
    let operations = checker.view.operations_of(order.tenant, &[order.id]).await?;
    for asset in Asset::HELD {
        let hold = holds.iter().find(|hold| hold.asset == asset);
        check_hold(checker, order, rows, (asset, hold));
        check_operations(checker, order, (asset, hold), &operations);
        check_recipients(checker, order, rows, asset);
        if let Some(hold) = hold {
            add(usage, hold);
        }
    }
    check_points(checker, order, rows, &operations, usage);
    check_refunds(checker, order, &operations).await
}

/// No event of an order excludes the consumer of an asset that the order uses, and no payment or refund that of points.
fn check_recipients(checker: &mut Checker<'_>, order: &Order, rows: &[&OutboxRow], asset: Asset) {
    let moves_points = [EventKind::OrderPaid, EventKind::OrderRefunded].map(EventKind::as_str);
    for row in rows.iter().filter(|row| row.idle_consumers.contains(asset.as_str())) {
        let is_points = asset == Asset::Points && moves_points.contains(&row.event_type.as_str());
        if order.assets.names(asset) || is_points {
            checker.violation(format!(
                "{} {} excludes {asset}, which has work with it",
                row.event_type, row.event_id
            ));
        }
    }
}

fn add(usage: &mut AssetUsage, hold: &Hold) {
    let purse = match hold.asset {
        Asset::Wallet => Some(Purse::Wallet),
        Asset::Points => Some(Purse::Points),
        Asset::Coupon | Asset::Cash => None,
    };
    let status = match hold.status {
        HoldStatus::Frozen => CouponStatus::Locked,
        HoldStatus::Committed if !hold.reverted => CouponStatus::Used,
        HoldStatus::Committed | HoldStatus::Released => return,
    };
    if let Some(coupon) = hold.coupon {
        usage.coupons.entry((hold.tenant, coupon)).or_default().push((hold.order, status));
    }
    if let Some(purse) = purse {
        let into = if status == CouponStatus::Locked { &mut usage.frozen } else { &mut usage.purses };
        let sign = if status == CouponStatus::Locked { 1 } else { -1 };
        *into.entry((hold.tenant, hold.user, purse)).or_default() += sign * hold.amount;
    }
}

/// Whether this consumer has applied an event of this type.
fn applied(checker: &Checker<'_>, consumer: &str, rows: &[&OutboxRow], kind: EventKind) -> bool {
    let mut of_kind = rows.iter().filter(|row| row.event_type == kind.as_str());
    of_kind.any(|row| {
        let record = checker.record(consumer, &row.event_id);
        record.is_some_and(|record| record.status == ConsumeStatus::Success)
    })
}

/// Whether only an operator can end this hold: the ORDER_PAID that would end it is dead, or blocked by a FAILED event.
pub(super) fn is_dead_or_blocked(checker: &Checker<'_>, order: &Order, asset: Asset) -> bool {
    let paid = EventKind::OrderPaid.as_str();
    let about = |row: &&OutboxRow| {
        let is_about = row.aggregate.tenant == order.tenant && row.aggregate.id == order.id.get();
        is_about && row.event_type == paid && !is_invalid(&row.event_id)
    };
    let mut events = checker.rows.iter().filter(about).peekable();
    events.peek().is_some()
        && events.all(|row| {
            let record = checker.record(asset.as_str(), &row.event_id);
            record.is_some_and(|record| record.status == ConsumeStatus::Dead) || checker.is_blocked(row)
        })
}

fn check_hold(
    checker: &mut Checker<'_>,
    order: &Order,
    rows: &[&OutboxRow],
    (asset, hold): (Asset, Option<&Hold>),
) {
    let state = hold.map(|hold| match hold.status {
        HoldStatus::Committed if hold.reverted => "REVERTED",
        HoldStatus::Frozen | HoldStatus::Committed | HoldStatus::Released => hold.status.as_str(),
    });
    let has = |kind| applied(checker, asset.as_str(), rows, kind);
    let expected = if !order.assets.names(asset) {
        None
    } else {
        match order.status {
            OrderStatus::Refunded if has(EventKind::OrderRefunded) => Some("REVERTED"),
            OrderStatus::Refunded if has(EventKind::OrderPaid) => Some("COMMITTED"),
            OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed
                if has(EventKind::OrderPaid) =>
            {
                Some("COMMITTED")
            }
            OrderStatus::Cancelled if has(EventKind::OrderCancelled) => Some("RELEASED"),
            // The event that should have ended the hold is dead: the hold is missing, or the reaper releases it.
            OrderStatus::Cancelled if hold.is_none() => None,
            OrderStatus::Cancelled => Some("RELEASED"),
            OrderStatus::Pending
            | OrderStatus::Paid
            | OrderStatus::Shipped
            | OrderStatus::Completed
            | OrderStatus::Refunded => {
                if is_dead_or_blocked(checker, order, asset) {
                    Some("FROZEN")
                } else {
                    state
                }
            }
        }
    };
    if state != expected {
        let status = order.status;
        checker.violation(format!(
            "order {} is {status}, its {asset} hold is {state:?}, expected {expected:?}",
            order.id
        ));
    }
}

/// Each operation occurs at most once with the amount of the hold, and a hold ends in one of two ways.
fn check_operations(
    checker: &mut Checker<'_>,
    order: &Order,
    (asset, hold): (Asset, Option<&Hold>),
    operations: &[AssetOperation],
) {
    let of = |kind: OperationKind| {
        operations.iter().filter(move |it| it.asset == asset && it.kind == kind).collect::<Vec<_>>()
    };
    let (locks, commits) = (of(OperationKind::Freeze), of(OperationKind::Commit));
    let (releases, reverts) = (of(OperationKind::Release), of(OperationKind::Revert));
    let ends = commits.len() + releases.len();
    let kept = hold.filter(|hold| hold.amount > 0);
    let expected = match kept.map(|hold| (hold.status, hold.reverted)) {
        None => (0, 0, 0),
        Some((HoldStatus::Frozen, _)) => (1, 0, 0),
        Some((HoldStatus::Committed, true)) => (1, 1, 1),
        Some((HoldStatus::Committed | HoldStatus::Released, _)) => (1, 1, 0),
    };
    if (locks.len(), ends, reverts.len()) != expected {
        let kinds: Vec<_> = operations.iter().filter(|it| it.asset == asset).map(|it| it.kind).collect();
        checker.violation(format!(
            "order {} has the {asset} hold {hold:?}, but the operations {kinds:?}",
            order.id
        ));
    }
    let amount = kept.map(|hold| hold.amount);
    let mut moved = locks.iter().chain(&commits).chain(&releases).chain(&reverts);
    if moved.any(|it| Some(it.amount) != amount)
        || kept.is_some_and(|it| it.amount != order.assets.amount(asset))
    {
        checker.violation(format!(
            "the {asset} amounts of order {}, of its hold and of its operations differ",
            order.id
        ));
    }
}

/// A paid order earns points once, and its refund revokes them once.
fn check_points(
    checker: &mut Checker<'_>,
    order: &Order,
    rows: &[&OutboxRow],
    operations: &[AssetOperation],
    usage: &mut AssetUsage,
) {
    let of = |kind: OperationKind| -> Vec<i64> {
        operations.iter().filter(|it| it.kind == kind).map(|it| it.amount).collect()
    };
    let (earned, revoked) = (of(OperationKind::Earn), of(OperationKind::Unearn));
    let is_paid = order.pay_time.is_some();
    let per_unit = i64::from(checker.evidence.app.rules.points.earned_per_unit);
    let worth = if is_paid { order.payable.minor() / 100 * per_unit } else { 0 };
    let paid = applied(checker, "points", rows, EventKind::OrderPaid);
    let refunded = applied(checker, "points", rows, EventKind::OrderRefunded);
    // Points revoked before they were earned are never earned.
    let never_earned = refunded && revoked == [0];
    let expected: &[i64] = if worth == 0 || never_earned || !paid { &[] } else { &[worth] };
    let expected_revoked: &[i64] = if !refunded {
        &[]
    } else if earned.is_empty() {
        &[0]
    } else {
        &earned
    };
    if earned != expected || revoked != expected_revoked {
        checker.violation(format!(
            "order {} earned {earned:?} points, expected {expected:?}; revoked {revoked:?}, expected {expected_revoked:?}",
            order.id
        ));
    }
    let net = earned.iter().sum::<i64>() - revoked.iter().sum::<i64>();
    *usage.purses.entry((order.tenant, order.buyer, Purse::Points)).or_default() += net;
}

/// Checks the refunds and captures of an order, and that they match its status and the ledger.
async fn check_refunds(
    checker: &mut Checker<'_>,
    order: &Order,
    operations: &[AssetOperation],
) -> Result<(), StoreError> {
    let captures = checker.view.captures_of(order.tenant, &[order.id]).await?;
    let refunds = checker.view.refunds_of(order.tenant, &[order.id]).await?;
    check_refund_results(checker, &refunds);
    check_captures(checker, order.id.into(), &captures, &refunds);
    let refunds_order = |refund: &&Refund| Some(refund.id) == order.refund && refund.payouts > 0;
    let paid_back = refunds.iter().filter(refunds_order).count();
    if paid_back != usize::from(order.status == OrderStatus::Refunded) || order.running_refund().is_some() {
        let (status, refund) = (order.status, order.refund);
        checker.violation(format!(
            "order {} is {status} with {refund:?}, but {paid_back} refunds succeeded",
            order.id
        ));
    }
    check_ledger(checker, order, operations, (&captures, &refunds));
    Ok(())
}

/// Each refund has its events, and succeeded or failed as at the gateway.
pub(super) fn check_refund_results(checker: &mut Checker<'_>, refunds: &[Refund]) {
    let gateway_refunds = checker.evidence.gateway_model.refunds();
    for refund in refunds {
        let announced: Vec<&str> = checker
            .rows
            .iter()
            .filter(|row| row.aggregate.kind == "Refund" && row.aggregate.id == refund.id.get())
            .map(|row| row.event_type.as_str())
            .collect();
        let expected: &[&str] = match refund.status {
            RefundStatus::Processing => &[],
            RefundStatus::Success => &["REFUND_SUCCEEDED"],
            RefundStatus::Failed if refund.payouts > 0 => &["REFUND_SUCCEEDED", "REFUND_FAILED"],
            RefundStatus::Failed => &["REFUND_FAILED"],
        };
        if announced != expected {
            let status = refund.status;
            checker.violation(format!("refund {} is {status}, but its events are {announced:?}", refund.id));
        }
        let at_gateway = gateway_refunds.get(&refund.id);
        let succeeded =
            at_gateway.is_some_and(|it| it.result == RefundResult::Success && it.amount == refund.amount);
        let is_contradicted = at_gateway.is_some_and(|it| it.is_contradicted);
        let differs = succeeded != (refund.status == RefundStatus::Success);
        if refund.amount > Money::ZERO && differs && !is_contradicted {
            checker.violation(format!(
                "refund {} is {}, but at the gateway {at_gateway:?}",
                refund.id, refund.status
            ));
        }
        let places = [
            (refund.status == RefundStatus::Failed, "failed refund"),
            (
                refund.status == RefundStatus::Failed && refund.payouts > 0,
                "refund that failed after it had succeeded",
            ),
            (refund.cause == RefundCause::Seller, "refund by the seller"),
            (refund.cause == RefundCause::WrongAmount, "captured wrong amount"),
            (refund.cause == RefundCause::SecondCapture, "second capture"),
            (refund.cause == RefundCause::LatePayment, "refund of a late payment"),
        ];
        let reached = places.into_iter().filter(|(reached, _)| *reached);
        checker.evidence.faults.cover(|coverage| reached.for_each(|(_, place)| coverage.situation(place)));
    }
}

/// The gateway made each capture, refunds do not exceed it, and one that buys nothing has a refund.
pub(super) fn check_captures(
    checker: &mut Checker<'_>,
    of: PayableId,
    captures: &[Capture],
    refunds: &[Refund],
) {
    for capture in captures {
        let of_capture: Vec<&Refund> = refunds.iter().filter(|it| capture.is_refunded_by(it)).collect();
        let live: Vec<&&Refund> = of_capture.iter().filter(|it| it.status != RefundStatus::Failed).collect();
        let refunded: i64 = live.iter().map(|it| it.amount.minor()).sum();
        if live.len() > 1 || refunded > capture.amount.minor() {
            checker.violation(format!(
                "capture {capture:?} of {of} has more than one live refund, or refunds above its amount: {of_capture:?}"
            ));
        }
        if capture.refund_due && of_capture.is_empty() {
            checker.violation(format!("{capture:?} buys nothing and has no refund"));
        }
        let at_gateway = checker.evidence.gateway_model.captured(capture.payment, &capture.transaction_id);
        if capture.amount > Money::ZERO && at_gateway != Some(capture.amount) {
            checker.violation(format!("the gateway captured {at_gateway:?}, but the capture is {capture:?}"));
        }
    }
}

/// Captures and refunds of the gateway are in the ledger once.
fn check_ledger(
    checker: &mut Checker<'_>,
    order: &Order,
    operations: &[AssetOperation],
    (captures, refunds): (&[Capture], &[Refund]),
) {
    let of = |kind: OperationKind| -> Vec<i64> {
        let mut in_ledger: Vec<i64> =
            operations.iter().filter(|it| it.kind == kind).map(|it| it.amount).collect();
        in_ledger.sort_unstable();
        in_ledger
    };
    let times = |refund: &Refund, times: u32| std::iter::repeat_n(refund.amount.minor(), times as usize);
    let reversed = refunds.iter().flat_map(|it| {
        let current = u32::from(it.status == RefundStatus::Success);
        times(it, it.payouts - current)
    });
    let paid = captures.iter().map(|it| it.amount.minor()).chain(reversed);
    let refunded = refunds.iter().flat_map(|it| times(it, it.payouts));
    let sorted = |amounts: &mut dyn Iterator<Item = i64>| -> Vec<i64> {
        let mut amounts: Vec<i64> = amounts.filter(|amount| *amount > 0).collect();
        amounts.sort_unstable();
        amounts
    };
    let (paid, refunded) = (sorted(&mut paid.into_iter()), sorted(&mut refunded.into_iter()));
    let in_ledger = (of(OperationKind::Capture), of(OperationKind::Payout));
    if in_ledger != (paid.clone(), refunded.clone()) {
        checker.violation(format!(
            "order {}: captures and returned refunds {paid:?}, refunds {refunded:?}, but ledger {in_ledger:?}",
            order.id
        ));
    }
}
