//! Holds, earned points and refunds of one order: each as its events say, and no others.

use std::collections::BTreeMap;

use handover_events::*;
use handover_outbox::ports::*;
use marketplace_domain::*;

use super::Case;
use crate::actors::rows_by_hand::is_misleading;

/// What all orders together have done to purses and coupons.
#[derive(Default)]
pub(super) struct Used {
    /// What a user's purse has more since the gifts, frozen or not; less where it is negative.
    pub(super) purses: BTreeMap<(TenantId, UserId, Purse), i64>,
    /// What is frozen in it.
    pub(super) frozen: BTreeMap<(TenantId, UserId, Purse), i64>,
    /// Which orders have a coupon, and how.
    pub(super) coupons: BTreeMap<(TenantId, CouponId), Vec<(OrderId, CouponStatus)>>,
}

pub(super) async fn check(
    case: &mut Case<'_>,
    order: &Order,
    rows: &[&OutboxRow],
    used: &mut Used,
) -> Result<(), StoreError> {
    let holds = case.view.holds_of(order.tenant, order.id).await?;
    let operations = case.view.operations_of(order.tenant, order.id).await?;
    for asset in Asset::HELD {
        let hold = holds.iter().find(|hold| hold.asset == asset);
        check_hold(case, order, rows, (asset, hold));
        check_operations(case, order, (asset, hold), &operations);
        if let Some(hold) = hold {
            add(used, hold);
        }
    }
    check_points(case, order, rows, &operations, used);
    check_refunds(case, order, &operations).await
}

fn add(used: &mut Used, hold: &Hold) {
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
        used.coupons.entry((hold.tenant, coupon)).or_default().push((hold.order, status));
    }
    if let Some(purse) = purse {
        let into = if status == CouponStatus::Locked { &mut used.frozen } else { &mut used.purses };
        let sign = if status == CouponStatus::Locked { 1 } else { -1 };
        *into.entry((hold.tenant, hold.user, purse)).or_default() += sign * hold.amount;
    }
}

/// Whether this consumer has applied an event of this type.
fn applied(case: &Case<'_>, consumer: &str, rows: &[&OutboxRow], kind: EventType) -> bool {
    let mut of_kind = rows.iter().filter(|row| row.event_type == kind.as_str());
    of_kind.any(|row| {
        let record = case.record(consumer, &row.event_id);
        record.is_some_and(|record| record.status == ConsumeStatus::Success)
    })
}

/// Whether nothing but a person can end this hold: the event that should have is parked, or held by a failed one.
pub(super) fn is_parked(case: &Case<'_>, order: &Order, asset: Asset) -> bool {
    let paid = EventType::OrderPaid.as_str();
    let about = |row: &&OutboxRow| {
        let is_about = row.aggregate.tenant == order.tenant && row.aggregate.id == order.id.get();
        is_about && row.event_type == paid && !is_misleading(&row.event_id)
    };
    let mut events = case.rows.iter().filter(about).peekable();
    events.peek().is_some()
        && events.all(|row| {
            let record = case.record(asset.as_str(), &row.event_id);
            record.is_some_and(|record| record.status == ConsumeStatus::Dead) || case.is_held(row)
        })
}

fn check_hold(
    case: &mut Case<'_>,
    order: &Order,
    rows: &[&OutboxRow],
    (asset, hold): (Asset, Option<&Hold>),
) {
    let state = hold.map(|hold| match hold.status {
        HoldStatus::Committed if hold.reverted => "REVERTED",
        HoldStatus::Frozen | HoldStatus::Committed | HoldStatus::Released => hold.status.as_str(),
    });
    let has = |kind| applied(case, asset.as_str(), rows, kind);
    let due = if !order.assets.names(asset) {
        None
    } else {
        match order.status {
            OrderStatus::Refunded if has(EventType::OrderRefunded) => Some("REVERTED"),
            OrderStatus::Refunded if has(EventType::OrderPaid) => Some("COMMITTED"),
            OrderStatus::Paid | OrderStatus::Shipped | OrderStatus::Completed
                if has(EventType::OrderPaid) =>
            {
                Some("COMMITTED")
            }
            OrderStatus::Cancelled if has(EventType::OrderCancelled) => Some("RELEASED"),
            // What should have ended it was given up: then a lock may stay, but for the reaper.
            OrderStatus::Cancelled if hold.is_none() => None,
            OrderStatus::Cancelled => Some("RELEASED"),
            OrderStatus::Pending
            | OrderStatus::Paid
            | OrderStatus::Shipped
            | OrderStatus::Completed
            | OrderStatus::Refunded => {
                if is_parked(case, order, asset) {
                    Some("FROZEN")
                } else {
                    state
                }
            }
        }
    };
    if state != due {
        let status = order.status;
        case.breaks(format!("order {} is {status}, its {asset} hold {state:?}, due is {due:?}", order.id));
    }
}

/// Each operation at most once, over what is held; a hold ends in one of two ways.
fn check_operations(
    case: &mut Case<'_>,
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
    let due = match kept.map(|hold| (hold.status, hold.reverted)) {
        None => (0, 0, 0),
        Some((HoldStatus::Frozen, _)) => (1, 0, 0),
        Some((HoldStatus::Committed, true)) => (1, 1, 1),
        Some((HoldStatus::Committed | HoldStatus::Released, _)) => (1, 1, 0),
    };
    if (locks.len(), ends, reverts.len()) != due {
        let kinds: Vec<_> = operations.iter().filter(|it| it.asset == asset).map(|it| it.kind).collect();
        case.breaks(format!("order {} has the {asset} hold {hold:?} and the operations {kinds:?}", order.id));
    }
    let amount = kept.map(|hold| hold.amount);
    let mut moved = locks.iter().chain(&commits).chain(&releases).chain(&reverts);
    if moved.any(|it| Some(it.amount) != amount)
        || kept.is_some_and(|it| it.amount != order.assets.amount(asset))
    {
        case.breaks(format!("the {asset} of order {} moved by another amount than it names", order.id));
    }
}

/// Points are earned once by a paid order, and taken back once by its refund.
fn check_points(
    case: &mut Case<'_>,
    order: &Order,
    rows: &[&OutboxRow],
    operations: &[AssetOperation],
    used: &mut Used,
) {
    let of = |kind: OperationKind| -> Vec<i64> {
        operations.iter().filter(|it| it.kind == kind).map(|it| it.amount).collect()
    };
    let (earned, back) = (of(OperationKind::Earn), of(OperationKind::Unearn));
    let was_paid = order.pay_time.is_some();
    let per_unit = i64::from(case.evidence.app.rules.points.earned_per_unit);
    let worth = if was_paid { order.payable.minor() / 100 * per_unit } else { 0 };
    let paid = applied(case, "points", rows, EventType::OrderPaid);
    let refunded = applied(case, "points", rows, EventType::OrderRefunded);
    // Taken back before it was earned: then it is not earned any more.
    let never = refunded && back == [0];
    let due: &[i64] = if worth == 0 || never || !paid { &[] } else { &[worth] };
    let due_back: &[i64] = if !refunded {
        &[]
    } else if earned.is_empty() {
        &[0]
    } else {
        &earned
    };
    if earned != due || back != due_back {
        case.breaks(format!(
            "order {} earned {earned:?} points, due {due:?}; taken back {back:?}, due {due_back:?}",
            order.id
        ));
    }
    let net = earned.iter().sum::<i64>() - back.iter().sum::<i64>();
    *used.purses.entry((order.tenant, order.buyer, Purse::Points)).or_default() += net;
}

/// Each refund is settled, announced and booked; no more goes back than came; each late payment has one.
async fn check_refunds(
    case: &mut Case<'_>,
    order: &Order,
    operations: &[AssetOperation],
) -> Result<(), StoreError> {
    let payments = case.view.payments_of(order.tenant, order.id).await?;
    let refunds = case.view.refunds_of(order.tenant, order.id).await?;
    let bank = case.evidence.bank.refunds();
    for refund in &refunds {
        let announced: Vec<&str> = case
            .rows
            .iter()
            .filter(|row| row.aggregate.kind == "Refund" && row.aggregate.id == refund.id.get())
            .map(|row| row.event_type.as_str())
            .collect();
        let due: &[&str] = match refund.status {
            RefundStatus::Processing => &[],
            RefundStatus::Success => &["REFUND_SUCCEEDED"],
            RefundStatus::Failed => &["REFUND_FAILED"],
        };
        if announced != due {
            let status = refund.status;
            case.breaks(format!("refund {} is {status} and was announced as {announced:?}", refund.id));
        }
        let at_bank = bank.get(&refund.id);
        let succeeded =
            at_bank.is_some_and(|it| it.result == RefundResult::Success && it.amount == refund.amount);
        if refund.amount > Money::ZERO && succeeded != (refund.status == RefundStatus::Success) {
            case.breaks(format!("refund {} is {}, at the gateway {at_bank:?}", refund.id, refund.status));
        }
        let places = [
            (refund.status == RefundStatus::Failed, "a refund that failed"),
            (refund.cause == RefundCause::LatePayment, "a refund of a payment that came too late"),
        ];
        let reached = places.into_iter().filter(|(reached, _)| *reached);
        case.evidence.faults.cover(|coverage| reached.for_each(|(_, place)| coverage.place(place)));
    }
    let mut paid_back = 0;
    for payment in &payments {
        let of_payment: Vec<&Refund> = refunds.iter().filter(|it| it.payment == payment.id).collect();
        let live: Vec<&&Refund> = of_payment.iter().filter(|it| it.status != RefundStatus::Failed).collect();
        let goes: i64 = live.iter().map(|it| it.amount.minor()).sum();
        if live.len() > 1 || goes > payment.amount.minor() {
            case.breaks(format!(
                "payment {} of order {} has the refunds {of_payment:?}",
                payment.id, order.id
            ));
        }
        if payment.refund_due && of_payment.is_empty() {
            case.breaks(format!("payment {} came too late, and nobody pays it back", payment.id));
        }
        if !payment.refund_due {
            paid_back += live.iter().filter(|it| it.status == RefundStatus::Success).count();
        }
    }
    if paid_back != usize::from(order.status == OrderStatus::Refunded) || order.running_refund().is_some() {
        let (status, refund) = (order.status, order.refund);
        case.breaks(format!("order {} is {status} with {refund:?}, {paid_back} refunds succeeded", order.id));
    }
    check_booked(case, order, operations, (&payments, &refunds));
    Ok(())
}

/// What came and went through the gateway is in the ledger once.
fn check_booked(
    case: &mut Case<'_>,
    order: &Order,
    operations: &[AssetOperation],
    (payments, refunds): (&[Payment], &[Refund]),
) {
    let of = |kind: OperationKind| -> Vec<i64> {
        let mut booked: Vec<i64> =
            operations.iter().filter(|it| it.kind == kind).map(|it| it.amount).collect();
        booked.sort_unstable();
        booked
    };
    let came = payments.iter().filter(|it| it.status == PaymentStatus::Success).map(|it| it.amount.minor());
    let went = refunds.iter().filter(|it| it.status == RefundStatus::Success).map(|it| it.amount.minor());
    let sorted = |amounts: &mut dyn Iterator<Item = i64>| -> Vec<i64> {
        let mut amounts: Vec<i64> = amounts.filter(|amount| *amount > 0).collect();
        amounts.sort_unstable();
        amounts
    };
    let (came, went) = (sorted(&mut came.into_iter()), sorted(&mut went.into_iter()));
    let booked = (of(OperationKind::Capture), of(OperationKind::Payout));
    if booked != (came.clone(), went.clone()) {
        case.breaks(format!("order {}: {came:?} came and {went:?} went, {booked:?} are booked", order.id));
    }
    for payment in payments.iter().filter(|it| it.status == PaymentStatus::Success && it.amount > Money::ZERO)
    {
        if case.evidence.bank.received(payment.id) != Some(payment.amount) {
            case.breaks(format!("payment {} of {} never came in", payment.id, payment.amount));
        }
    }
}
