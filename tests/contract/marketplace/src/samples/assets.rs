//! Coupons, holds, balances, postings and refunds.

use handover_contract::samples::{event_id, later, start};
use handover_events::TenantId;
use marketplace_domain::{
    Account, Asset, AssetOperation, Balance, Coupon, CouponId, CouponStatus, Currency, Entry, Hold,
    HoldStatus, OperationKey, OperationKind, Posting, Purse, Refund, RefundCause, RefundId, RefundStatus,
};

use super::{money, order_id, payment_id, reference, trace, user};

pub fn coupon_id(number: i64) -> CouponId {
    number.try_into().expect("a valid id")
}

pub fn refund_id(number: i64) -> RefundId {
    number.try_into().expect("a valid id")
}

pub fn operation_key(text: &str) -> OperationKey {
    OperationKey::stored(text.to_owned())
}

/// An available coupon of tenant 1 and user 10: a discount of 5.00 for orders of at least 20.00, valid
/// for an hour.
pub fn coupon(id: i64) -> Coupon {
    Coupon {
        id: coupon_id(id),
        tenant: TenantId::DEFAULT,
        user: user(10),
        discount: money(500),
        min_spend: money(2_000),
        expires_at: later(3_600),
        status: CouponStatus::Available,
        order: None,
        version: 1,
        create_time: start(),
        update_time: start(),
    }
}

/// The coupon in its next version, in this status and with the fields that the status implies.
pub fn coupon_moved_to(coupon: &Coupon, status: CouponStatus) -> Coupon {
    let has_order = matches!(status, CouponStatus::Locked | CouponStatus::Used);
    Coupon {
        status,
        order: has_order.then(|| order_id(7)),
        version: coupon.version + 1,
        update_time: later(1),
        ..coupon.clone()
    }
}

/// A frozen hold of 500 for tenant 1 and user 10.
pub fn hold(order: i64, asset: Asset) -> Hold {
    Hold {
        tenant: TenantId::DEFAULT,
        order: order_id(order),
        asset,
        user: user(10),
        amount: 500,
        coupon: (asset == Asset::Coupon).then(|| coupon_id(order)),
        status: HoldStatus::Frozen,
        reverted: false,
        version: 1,
        create_time: start(),
        update_time: start(),
    }
}

/// The hold in its next version, in this status.
pub fn hold_moved_to(hold: &Hold, status: HoldStatus) -> Hold {
    Hold { status, version: hold.version + 1, update_time: later(1), ..hold.clone() }
}

/// The balance of a user of tenant 1, in version 1.
pub fn balance(of: i64, purse: Purse, available: i64) -> Balance {
    Balance { available, version: 1, ..Balance::empty(TenantId::DEFAULT, user(of), purse, start()) }
}

/// A deposit of 500 by an operator into the wallet of user 10, in tenant 1, with this key.
pub fn operation(key: &str) -> AssetOperation {
    AssetOperation {
        tenant: TenantId::DEFAULT,
        key: operation_key(key),
        asset: Asset::Wallet,
        kind: OperationKind::Deposit,
        user: Some(user(10)),
        order: None,
        refund: None,
        coupon: None,
        amount: 500,
        balance_after: Some(500),
        event_id: Some(event_id("e-1")),
        trace_id: Some("trace-1".into()),
        at: start(),
    }
}

/// A ledger entry of a user's account, with the balance after it.
pub fn entry(account: Account, of: i64, amount: i64, after: i64) -> Entry {
    Entry { account, user: Some(user(of)), amount, balance_after: Some(after) }
}

/// A deposit from the marketplace into the empty wallet of a user.
pub fn deposit(key: &str, of: i64, amount: i64) -> Posting {
    Posting {
        operation: AssetOperation {
            user: Some(user(of)),
            amount,
            balance_after: Some(amount),
            ..operation(key)
        },
        entries: vec![Entry::own(Account::Platform, -amount), entry(Account::Wallet, of, amount, amount)],
    }
}

/// A grant of points to a user who has no points yet.
pub fn grant(key: &str, of: i64, amount: i64) -> Posting {
    Posting {
        operation: AssetOperation {
            asset: Asset::Points,
            kind: OperationKind::Grant,
            ..deposit(key, of, amount).operation
        },
        entries: vec![Entry::own(Account::PointsIssued, -amount), entry(Account::Points, of, amount, amount)],
    }
}

/// A refund of tenant 1 in `PROCESSING`, due at the start time. Its order id is the same number as its payment id.
pub fn refund(id: i64, payment: i64) -> Refund {
    Refund {
        id: refund_id(id),
        tenant: TenantId::DEFAULT,
        of: order_id(payment).into(),
        payment: payment_id(payment),
        capture: 1,
        reference: Some(reference(id)),
        is_keyed_by_id: false,
        attempt: 1,
        amount: money(8_850),
        currency: Currency::CNY,
        cause: RefundCause::Buyer,
        reason: "it was broken".into(),
        off_shelf: false,
        status: RefundStatus::Processing,
        settled_attempt: None,
        transaction_id: None,
        payouts: 0,
        is_excess: false,
        settled_by: None,
        attempts: 0,
        next_attempt_time: Some(start()),
        last_error: None,
        trace: Some(trace()),
        version: 1,
        create_time: start(),
        update_time: start(),
    }
}

/// The refund in its next version, in this status.
pub fn refund_moved_to(refund: &Refund, status: RefundStatus) -> Refund {
    let due = refund.next_attempt_time.filter(|_| status == RefundStatus::Processing);
    let succeeded = status == RefundStatus::Success;
    Refund {
        status,
        settled_attempt: succeeded.then_some(refund.attempt),
        payouts: refund.payouts + u32::from(succeeded),
        next_attempt_time: due,
        version: refund.version + 1,
        update_time: later(1),
        ..refund.clone()
    }
}
