//! Promises about assets and refunds.

use marketplace_domain::{
    Account, Asset, AssetOperation, CouponStatus, Entry, Hold, HoldStatus, OperationKey, OperationKind,
    OrderStatus, Purse, RefundStatus,
};

use super::super::super::journal::Step;
use super::super::super::plan::Cover;
use super::after;
use super::small_day::{CANCELLED, HELD, PAID, PAID_TOO_LATE, REFUNDED, REFUSED, SmallDay};

const ZERO: [&str; 1] = ["the ledger sums to zero"];
const BALANCES: [&str; 1] = ["balances are the sum of their entries"];
const ENDED: [&str; 1] = ["holds end as their orders do"];
const COUPONS: [&str; 1] = ["a coupon is used once"];
const EARNED: [&str; 1] = ["points are earned by what was paid"];
const REFUNDS: [&str; 1] = ["refunds are what was captured"];
const LATE: [&str; 1] = ["a late payment is paid back once"];

fn total(day: &mut SmallDay, account: Account) -> &mut i64 {
    let totals = day.books.assets.totals.iter_mut();
    &mut totals.into_iter().find(|total| total.account == account).unwrap().total
}

fn hold(day: &mut SmallDay, order: i64, asset: Asset) -> &mut Hold {
    let holds = day.books.assets.holds.get_mut(&order.try_into().unwrap()).unwrap();
    holds.iter_mut().find(|hold| hold.asset == asset).unwrap()
}

fn operations(day: &mut SmallDay, order: i64) -> &mut Vec<AssetOperation> {
    day.books.assets.operations.get_mut(&order.try_into().unwrap()).unwrap()
}

/// What an order has done once is done twice, and nothing has caused it.
fn again(day: &mut SmallDay, order: i64, kind: OperationKind, asset: Asset) {
    let operations = operations(day, order);
    let once = operations.iter().find(|it| (it.kind, it.asset) == (kind, asset)).unwrap().clone();
    let key = OperationKey::stored("again".to_owned());
    operations.push(AssetOperation { key, event_id: None, ..once });
}

/// The money of a refund goes out once more, in the ledger too.
fn pay_out_again(day: &mut SmallDay, order: i64) {
    again(day, order, OperationKind::Payout, Asset::Cash);
    let amount = operations(day, order).last().unwrap().amount;
    day.post(&[Entry::own(Account::Platform, -amount), Entry::own(Account::Gateway, amount)]);
}

#[test]
fn a_ledger_that_does_not_sum_to_zero_or_is_empty_is_told() {
    assert_eq!(after(|day| *total(day, Account::Gateway) += 1), ZERO);
    assert_eq!(after(|day| *total(day, Account::PointsIssued) -= 1), ZERO);
    assert_eq!(after(|day| day.books.assets.totals.clear()), ZERO);
    let moved = after(|day| {
        *total(day, Account::Gateway) += 1;
        *total(day, Account::PointsIssued) -= 1;
    });
    assert_eq!(moved, ZERO, "points make up for no money");
}

#[test]
fn a_balance_that_is_not_the_sum_of_its_entries_is_told() {
    assert_eq!(after(|day| day.books.assets.balances[0].available += 1), BALANCES);
    assert_eq!(after(|day| day.books.assets.balances[0].frozen += 1), BALANCES);
    let missing = after(|day| {
        day.books.assets.balances.remove(0);
    });
    assert_eq!(missing, BALANCES);
    let nobodys = after(|day| {
        *total(day, Account::Wallet) += 1;
        *total(day, Account::Gateway) -= 1;
    });
    assert_eq!(nobodys, BALANCES, "an entry of nobody's");
}

#[test]
fn a_hold_that_has_not_ended_is_told() {
    for (order, asset) in [(HELD, Asset::Wallet), (REFUNDED, Asset::Points), (REFUSED, Asset::Coupon)] {
        let broken = after(|day| hold(day, order, asset).status = HoldStatus::Frozen);
        assert_eq!(broken, ["every hold is resolved"], "{order} {asset}");
    }
}

#[test]
fn a_hold_that_ended_otherwise_than_its_order_is_told() {
    assert_eq!(after(|day| hold(day, HELD, Asset::Wallet).status = HoldStatus::Released), ENDED);
    assert_eq!(after(|day| hold(day, HELD, Asset::Points).reverted = true), ENDED);
    assert_eq!(after(|day| hold(day, HELD, Asset::Points).amount += 1), ENDED);
    assert_eq!(after(|day| hold(day, REFUNDED, Asset::Coupon).reverted = false), ENDED);
    assert_eq!(after(|day| hold(day, REFUSED, Asset::Coupon).status = HoldStatus::Committed), ENDED);
    let missing = after(|day| {
        day.books.assets.holds.get_mut(&HELD.try_into().unwrap()).unwrap().pop();
    });
    assert_eq!(missing, ENDED);
    let unnamed = after(|day| {
        let hold = hold(day, HELD, Asset::Wallet).clone();
        day.books.assets.holds.entry(PAID.try_into().unwrap()).or_default().push(hold);
    });
    assert_eq!(unnamed, ENDED);
    let refused = after(|day| {
        day.client(CANCELLED).cover = Cover::TooLittle;
        day.client(CANCELLED).step = Step::Placed;
        day.row(CANCELLED).cancel_reason = Some(marketplace_domain::CancelReason::AssetLockFailed);
    });
    assert_eq!(refused, ENDED, "no lock of it was refused");
}

#[test]
fn a_coupon_that_is_used_twice_or_says_otherwise_is_told() {
    assert_eq!(after(|day| again(day, HELD, OperationKind::Commit, Asset::Coupon)), COUPONS);
    assert_eq!(after(|day| again(day, REFUNDED, OperationKind::Revert, Asset::Coupon)), COUPONS);
    for status in [CouponStatus::Locked, CouponStatus::Used] {
        let broken = after(|day| {
            let of_refunded = |coupon: &&mut marketplace_domain::Coupon| coupon.user.get() == REFUNDED;
            day.books.assets.coupons.iter_mut().find(of_refunded).unwrap().status = status;
        });
        assert_eq!(broken, COUPONS, "{status}");
    }
    assert_eq!(after(|day| day.books.assets.coupons.clear()), COUPONS, "nobody was given it");
}

#[test]
fn points_that_nobody_earned_are_told() {
    assert_eq!(after(|day| again(day, PAID, OperationKind::Earn, Asset::Points)), EARNED);
    let with_balance = after(|day| {
        again(day, PAID, OperationKind::Earn, Asset::Points);
        day.moved(PAID.try_into().unwrap(), Purse::Points, |balance, now| {
            balance.receive(1, Account::PointsIssued, now).unwrap()
        });
    });
    assert_eq!(with_balance, EARNED, "the balance agrees with the ledger, and the points come from nothing");
    assert_eq!(after(|day| again(day, REFUNDED, OperationKind::Unearn, Asset::Points)), EARNED);
    let less = after(|day| {
        let operations = operations(day, HELD);
        operations.iter_mut().find(|it| it.kind == OperationKind::Earn).unwrap().amount -= 1;
    });
    assert_eq!(less, EARNED);
}

#[test]
fn a_refund_of_more_or_less_than_was_captured_is_told() {
    assert_eq!(after(|day| pay_out_again(day, REFUNDED)), REFUNDS);
    let captured = after(|day| {
        let operations = operations(day, HELD);
        operations.iter_mut().find(|it| it.kind == OperationKind::Capture).unwrap().amount -= 1;
    });
    assert_eq!(captured, REFUNDS, "less came in than was paid");
    let refunds =
        |day: &mut SmallDay, order: i64| day.books.assets.refunds.remove(&order.try_into().unwrap()).unwrap();
    let missing = after(|day| drop(refunds(day, REFUNDED)));
    assert_eq!(missing, ["no change without its event", REFUNDS[0]]);
    let open = after(|day| {
        let mut refunds = refunds(day, REFUNDED);
        refunds[1].status = RefundStatus::Processing;
        day.books.assets.refunds.insert(REFUNDED.try_into().unwrap(), refunds);
    });
    assert_eq!(open, ["no change without its event", REFUNDS[0]]);
    let unasked = after(|day| {
        let mut refund = refunds(day, PAID_TOO_LATE).pop().unwrap();
        let payment = day.books.payments[&PAID.try_into().unwrap()][0].clone();
        (refund.order, refund.payment) = (payment.order, payment.id);
        day.books.assets.refunds.insert(payment.order, vec![refund]);
    });
    assert_eq!(unasked, ["no change without its event", REFUNDS[0], LATE[0]]);
}

#[test]
fn a_late_payment_that_is_paid_back_twice_or_not_at_all_is_told() {
    assert_eq!(after(|day| pay_out_again(day, PAID_TOO_LATE)), LATE);
    let order = || PAID_TOO_LATE.try_into().unwrap();
    assert_eq!(after(|day| day.books.assets.refunds.get_mut(&order()).unwrap().clear()), LATE);
    let twice = after(|day| {
        let refunds = day.books.assets.refunds.get_mut(&order()).unwrap();
        refunds.push(refunds[0].clone());
    });
    assert_eq!(twice, LATE);
}

#[test]
fn an_order_with_assets_that_stands_elsewhere_than_its_client_was_told_is_told() {
    let states = ["orders stand where their clients were told"];
    for (order, step) in [
        (REFUNDED, Step::Paid),
        (HELD, Step::Refunded),
        (REFUSED, Step::Paid),
        (PAID_TOO_LATE, Step::PaymentFailed),
        (CANCELLED, Step::PaidTooLate),
    ] {
        assert_eq!(after(|day| day.client(order).step = step), states, "{order}: {step:?}");
    }
    let enough = after(|day| day.client(REFUSED).cover = Cover::Enough);
    assert_eq!(enough, [states[0], ENDED[0]], "there was enough");
    let broken = after(|day| day.client(HELD).cover = Cover::TooLittle);
    assert_eq!(broken, states, "it was paid with more than there was");
}

#[test]
fn an_effect_on_assets_that_is_missing_or_out_of_order_is_told() {
    let once = "each effect exactly once";
    let unlocked = after(|day| drop(operations(day, HELD).remove(0)));
    assert_eq!(unlocked, [once]);
    let broken = after(|day| {
        let once = operations(day, HELD)[0].clone();
        operations(day, HELD).insert(0, once);
    });
    assert_eq!(broken, [once]);
    assert_eq!(after(|day| operations(day, HELD).reverse()), ["effects come in the order of events"]);
}

#[test]
fn a_refunded_order_whose_product_is_not_free_is_told() {
    let broken = after(|day| day.row(REFUNDED).status = OrderStatus::Paid);
    assert!(broken.contains(&"a product is sold once"), "{broken:?}");
    assert!(broken.contains(&"no change without its event"), "{broken:?}");
}
