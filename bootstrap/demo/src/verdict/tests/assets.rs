//! Promises about assets and refunds.

use marketplace_domain::{
    Account, Asset, AssetOperation, CouponStatus, Entry, Hold, HoldStatus, OperationKey, OperationKind,
    OrderStatus, Purse, RefundStatus,
};

use super::super::super::journal::Step;
use super::super::super::plan::AssetCoverage;
use super::after;
use super::small_day::{CANCELLED, PAID, PAID_AFTER_CANCEL, REFUNDED, REFUSED, SmallDay, WITH_ASSETS};

const ZERO: [&str; 1] = ["the ledger sums to zero"];
const BALANCES: [&str; 1] = ["balances are the sum of their entries"];
const ENDED: [&str; 1] = ["holds match their orders"];
const COUPONS: [&str; 1] = ["no coupon is used twice"];
const EARNED: [&str; 1] = ["earned points match payments"];
const REFUNDS: [&str; 1] = ["refunds equal captured amounts"];
const LATE: [&str; 1] = ["money that pays no order is refunded"];

fn total(day: &mut SmallDay, account: Account) -> &mut i64 {
    let totals = day.database.assets.totals.iter_mut();
    &mut totals.into_iter().find(|total| total.account == account).unwrap().total
}

fn hold(day: &mut SmallDay, order: i64, asset: Asset) -> &mut Hold {
    let holds = day.database.assets.holds.get_mut(&order.try_into().unwrap()).unwrap();
    holds.iter_mut().find(|hold| hold.asset == asset).unwrap()
}

fn operations(day: &mut SmallDay, order: i64) -> &mut Vec<AssetOperation> {
    day.database.assets.operations.get_mut(&order.try_into().unwrap()).unwrap()
}

/// Adds a copy of an operation of an order, without an event that causes it.
fn repeat_operation(day: &mut SmallDay, order: i64, kind: OperationKind, asset: Asset) {
    let operations = operations(day, order);
    let once = operations.iter().find(|it| (it.kind, it.asset) == (kind, asset)).unwrap().clone();
    let key = OperationKey::stored("again".to_owned());
    operations.push(AssetOperation { key, event_id: None, ..once });
}

/// Pays out a refund a second time, also in the ledger.
fn pay_out_again(day: &mut SmallDay, order: i64) {
    repeat_operation(day, order, OperationKind::Payout, Asset::Cash);
    let amount = operations(day, order).last().unwrap().amount;
    day.post(&[Entry::own(Account::Platform, -amount), Entry::own(Account::Gateway, amount)]);
}

#[test]
fn ledger_that_is_empty_or_does_not_sum_to_zero_breaks_promise() {
    assert_eq!(after(|day| *total(day, Account::Gateway) += 1), ZERO);
    assert_eq!(after(|day| *total(day, Account::PointsIssued) -= 1), ZERO);
    assert_eq!(after(|day| day.database.assets.totals.clear()), ZERO);
    let moved = after(|day| {
        *total(day, Account::Gateway) += 1;
        *total(day, Account::PointsIssued) -= 1;
    });
    assert_eq!(moved, ZERO, "money and points are summed separately");
}

#[test]
fn balance_that_differs_from_its_entries_breaks_promise() {
    assert_eq!(after(|day| day.database.assets.balances[0].available += 1), BALANCES);
    assert_eq!(after(|day| day.database.assets.balances[0].frozen += 1), BALANCES);
    let missing = after(|day| {
        day.database.assets.balances.remove(0);
    });
    assert_eq!(missing, BALANCES);
    let without_user = after(|day| {
        *total(day, Account::Wallet) += 1;
        *total(day, Account::Gateway) -= 1;
    });
    assert_eq!(without_user, BALANCES, "an entry in an account that belongs to no known user");
}

#[test]
fn frozen_hold_breaks_promise() {
    for (order, asset) in [(WITH_ASSETS, Asset::Wallet), (REFUNDED, Asset::Points), (REFUSED, Asset::Coupon)]
    {
        let broken = after(|day| hold(day, order, asset).status = HoldStatus::Frozen);
        assert_eq!(broken, ["every hold is resolved"], "{order} {asset}");
    }
}

#[test]
fn hold_that_differs_from_its_order_breaks_promise() {
    assert_eq!(after(|day| hold(day, WITH_ASSETS, Asset::Wallet).status = HoldStatus::Released), ENDED);
    assert_eq!(after(|day| hold(day, WITH_ASSETS, Asset::Points).reverted = true), ENDED);
    assert_eq!(after(|day| hold(day, WITH_ASSETS, Asset::Points).amount += 1), ENDED);
    assert_eq!(after(|day| hold(day, REFUNDED, Asset::Coupon).reverted = false), ENDED);
    assert_eq!(after(|day| hold(day, REFUSED, Asset::Coupon).status = HoldStatus::Committed), ENDED);
    let missing = after(|day| {
        day.database.assets.holds.get_mut(&WITH_ASSETS.try_into().unwrap()).unwrap().pop();
    });
    assert_eq!(missing, ENDED);
    let unnamed = after(|day| {
        let hold = hold(day, WITH_ASSETS, Asset::Wallet).clone();
        day.database.assets.holds.entry(PAID.try_into().unwrap()).or_default().push(hold);
    });
    assert_eq!(unnamed, ENDED);
    let refused = after(|day| {
        day.client(CANCELLED).cover = AssetCoverage::Insufficient;
        day.client(CANCELLED).step = Step::Placed;
        day.row(CANCELLED).cancel_reason = Some(marketplace_domain::CancelReason::AssetLockFailed);
    });
    assert_eq!(refused, ENDED, "the reason is a refused lock, but no lock of the order was refused");
}

#[test]
fn coupon_used_twice_or_with_wrong_status_breaks_promise() {
    assert_eq!(
        after(|day| repeat_operation(day, WITH_ASSETS, OperationKind::Commit, Asset::Coupon)),
        COUPONS
    );
    assert_eq!(after(|day| repeat_operation(day, REFUNDED, OperationKind::Revert, Asset::Coupon)), COUPONS);
    for status in [CouponStatus::Locked, CouponStatus::Used] {
        let broken = after(|day| {
            let of_refunded = |coupon: &&mut marketplace_domain::Coupon| coupon.user.get() == REFUNDED;
            day.database.assets.coupons.iter_mut().find(of_refunded).unwrap().status = status;
        });
        assert_eq!(broken, COUPONS, "{status}");
    }
    assert_eq!(
        after(|day| day.database.assets.coupons.clear()),
        COUPONS,
        "the operations name coupons that are not in the table"
    );
}

#[test]
fn earned_points_that_differ_from_payment_break_promise() {
    assert_eq!(after(|day| repeat_operation(day, PAID, OperationKind::Earn, Asset::Points)), EARNED);
    let with_balance = after(|day| {
        repeat_operation(day, PAID, OperationKind::Earn, Asset::Points);
        day.change_balance(PAID.try_into().unwrap(), Purse::Points, |balance, now| {
            balance.receive(1, Account::PointsIssued, now).unwrap()
        });
    });
    assert_eq!(with_balance, EARNED, "balance and ledger agree, but no payment earned the points");
    assert_eq!(after(|day| repeat_operation(day, REFUNDED, OperationKind::Unearn, Asset::Points)), EARNED);
    let less = after(|day| {
        let operations = operations(day, WITH_ASSETS);
        operations.iter_mut().find(|it| it.kind == OperationKind::Earn).unwrap().amount -= 1;
    });
    assert_eq!(less, EARNED);
}

#[test]
fn refund_that_differs_from_captured_amount_breaks_promise() {
    assert_eq!(after(|day| pay_out_again(day, REFUNDED)), REFUNDS);
    let captured = after(|day| {
        let operations = operations(day, WITH_ASSETS);
        operations.iter_mut().find(|it| it.kind == OperationKind::Capture).unwrap().amount -= 1;
    });
    assert_eq!(captured, REFUNDS, "captured less than the payment");
    let refunds = |day: &mut SmallDay, order: i64| {
        day.database.assets.refunds.remove(&order.try_into().unwrap()).unwrap()
    };
    let missing = after(|day| drop(refunds(day, REFUNDED)));
    assert_eq!(missing, ["no change without its event", REFUNDS[0]]);
    let open = after(|day| {
        let mut refunds = refunds(day, REFUNDED);
        refunds[1].status = RefundStatus::Processing;
        day.database.assets.refunds.insert(REFUNDED.try_into().unwrap(), refunds);
    });
    assert_eq!(open, ["no change without its event", REFUNDS[0]]);
    let unrequested = after(|day| {
        let mut refund = refunds(day, PAID_AFTER_CANCEL).pop().unwrap();
        let payment = day.database.payments[&PAID.try_into().unwrap()][0].clone();
        (refund.of, refund.payment) = (payment.of, payment.id);
        day.database.assets.refunds.insert(payment.of.order().unwrap(), vec![refund]);
    });
    assert_eq!(unrequested, ["no change without its event", REFUNDS[0], LATE[0]]);
}

#[test]
fn late_payment_refunded_twice_or_never_breaks_promise() {
    assert_eq!(after(|day| pay_out_again(day, PAID_AFTER_CANCEL)), LATE);
    let order = || PAID_AFTER_CANCEL.try_into().unwrap();
    assert_eq!(after(|day| day.database.assets.refunds.get_mut(&order()).unwrap().clear()), LATE);
    let twice = after(|day| {
        let refunds = day.database.assets.refunds.get_mut(&order()).unwrap();
        refunds.push(refunds[0].clone());
    });
    assert_eq!(twice, LATE);
}

#[test]
fn order_state_that_differs_from_response_breaks_promise_for_orders_with_assets_or_refund() {
    let states = ["order states match the responses"];
    for (order, step) in [
        (REFUNDED, Step::Paid),
        (WITH_ASSETS, Step::Refunded),
        (REFUSED, Step::Paid),
        (PAID_AFTER_CANCEL, Step::PaymentFailed),
        (CANCELLED, Step::PaidAfterCancel),
    ] {
        assert_eq!(after(|day| day.client(order).step = step), states, "{order}: {step:?}");
    }
    let enough = after(|day| day.client(REFUSED).cover = AssetCoverage::Sufficient);
    assert_eq!(enough, [states[0], ENDED[0]], "the buyer had enough assets, so no lock may be rejected");
    let broken = after(|day| day.client(WITH_ASSETS).cover = AssetCoverage::Insufficient);
    assert_eq!(broken, states, "the order was paid with more than the balance");
}

#[test]
fn missing_duplicate_or_reordered_asset_effect_breaks_promise() {
    let once = "each effect exactly once";
    let unlocked = after(|day| drop(operations(day, WITH_ASSETS).remove(0)));
    assert_eq!(unlocked, [once]);
    let broken = after(|day| {
        let once = operations(day, WITH_ASSETS)[0].clone();
        operations(day, WITH_ASSETS).insert(0, once);
    });
    assert_eq!(broken, [once]);
    assert_eq!(after(|day| operations(day, WITH_ASSETS).reverse()), ["effects are in event order"]);
}

#[test]
fn paid_order_whose_product_is_on_sale_breaks_promise() {
    let broken = after(|day| day.row(REFUNDED).status = OrderStatus::Paid);
    assert!(broken.contains(&"a product is sold once"), "{broken:?}");
    assert!(broken.contains(&"no change without its event"), "{broken:?}");
}
