//! Rules for refunds.

use chrono::TimeDelta;
use handover_contract::concurrency::{one_changed, one_succeeded, race};
use handover_contract::samples::{SPECIAL_CHARACTERS, later, start, tenant};
use handover_contract::work::{changes_none, changes_one, is_conflict};
use handover_events::{MAX_ID, TenantId, Trace};
use marketplace_domain::{Currency, Money, Refund, RefundCause, RefundStatus};

use super::{MarketRig, begin, in_unit, view};
use crate::samples::{money, order_id, refund, refund_id, refund_moved_to};

use RefundStatus::{Failed, Processing, Success};

async fn add(rig: &dyn MarketRig, refunds: &[Refund]) {
    in_unit!(rig, |unit| {
        for refund in refunds {
            unit.insert_refund(refund).await.expect("cannot insert a refund");
        }
    });
}

async fn stored(rig: &dyn MarketRig, id: i64) -> Option<Refund> {
    view(rig).await.refund_by_id(refund_id(id)).await.expect("cannot read a refund")
}

async fn settle(rig: &dyn MarketRig, refund: &Refund, status: RefundStatus) -> Refund {
    let after = refund_moved_to(refund, status);
    in_unit!(rig, |unit| changes_one(unit.advance_refund(&after).await));
    after
}

fn numbers(refunds: Vec<Refund>) -> Vec<i64> {
    refunds.into_iter().map(|refund| refund.id.get()).collect()
}

/// A refund is read as it was written, in every status, for every cause, and with and without optional values.
pub async fn refund_is_read_as_written(rig: &dyn MarketRig) {
    let micro = TimeDelta::microseconds(1);
    let mut written: Vec<Refund> =
        RefundStatus::ALL.iter().map(|status| refund_moved_to(&refund(1, 1), *status)).collect();
    written.extend(RefundCause::ALL.iter().map(|cause| Refund { cause: *cause, ..refund(1, 1) }));
    written.push(Refund {
        reason: SPECIAL_CHARACTERS.into(),
        last_error: Some(SPECIAL_CHARACTERS.into()),
        ..refund(1, 1)
    });
    written.push(Refund { reason: "退".repeat(Refund::MAX_REASON_CHARS), ..refund(1, 1) });
    written.push(Refund { reason: "😀".repeat(Refund::MAX_REASON_CHARS), ..refund(1, 1) });
    written.push(Refund { reason: String::new(), last_error: Some(String::new()), ..refund(1, 1) });
    written.push(Refund { amount: money(MAX_ID), attempts: 1_000_000, version: 70_000, ..refund(1, 1) });
    written.push(Refund { amount: Money::ZERO, order: order_id(MAX_ID), ..refund(1, 1) });
    written.push(Refund { next_attempt_time: Some(later(7) + micro), ..refund(1, 1) });
    written.push(Refund { create_time: later(1) + micro, update_time: later(2) - micro, ..refund(1, 1) });
    written.push(Refund { trace: None, ..refund(1, 1) });
    let longest = Trace { trace_id: "t".repeat(64), traceparent: None };
    written.push(Refund { trace: Some(longest), ..refund(1, 1) });
    for (n, written) in written.into_iter().enumerate() {
        let number = n as i64 + 1;
        let Refund { id, payment, .. } = refund(number, number);
        let refund = Refund { id, payment, ..written };
        add(rig, std::slice::from_ref(&refund)).await;
        assert_eq!(stored(rig, number).await, Some(refund));
    }
    add(rig, &[refund(MAX_ID, MAX_ID)]).await;
    assert_eq!(stored(rig, MAX_ID).await.map(|refund| refund.currency), Some(Currency::CNY));
    assert_eq!(stored(rig, MAX_ID).await, Some(refund(MAX_ID, MAX_ID)));
    assert_eq!(stored(rig, 999).await, None);
}

/// A duplicate id is a conflict, even in another tenant.
pub async fn duplicate_refund_id_is_conflict(rig: &dyn MarketRig) {
    add(rig, &[refund(1, 1)]).await;
    is_conflict(begin(rig).await.insert_refund(&refund(1, 2)).await);
    is_conflict(begin(rig).await.insert_refund(&Refund { tenant: tenant(2), ..refund(1, 3) }).await);
    assert_eq!(stored(rig, 1).await, Some(refund(1, 1)));
}

/// A payment has at most one refund in `PROCESSING` or `SUCCESS`.
pub async fn second_refund_of_payment_is_conflict(rig: &dyn MarketRig) {
    add(rig, &[refund(1, 1), refund(2, 2)]).await;
    is_conflict(begin(rig).await.insert_refund(&refund(3, 1)).await);
    is_conflict(begin(rig).await.insert_refund(&Refund { order: order_id(9), ..refund(3, 1) }).await);
    is_conflict(begin(rig).await.insert_refund(&refund_moved_to(&refund(3, 1), Success)).await);
    settle(rig, &refund(1, 1), Success).await;
    is_conflict(begin(rig).await.insert_refund(&refund(3, 1)).await);
    let mut unit = begin(rig).await;
    unit.insert_refund(&refund(4, 4)).await.unwrap();
    is_conflict(unit.insert_refund(&refund(5, 4)).await);
    assert_eq!(stored(rig, 3).await, None);
}

/// After a refund has failed, its payment may have another refund, even in the same unit of work, but again at most one
/// that has not failed.
pub async fn refund_is_allowed_after_previous_failed(rig: &dyn MarketRig) {
    add(rig, &[refund(1, 1)]).await;
    let first = settle(rig, &refund(1, 1), Failed).await;
    add(rig, &[refund(2, 1)]).await;
    is_conflict(begin(rig).await.insert_refund(&refund(3, 1)).await);
    let second = refund_moved_to(&refund(2, 1), Failed);
    in_unit!(rig, |unit| {
        changes_one(unit.advance_refund(&second).await);
        unit.insert_refund(&refund(3, 1)).await.unwrap();
    });
    is_conflict(begin(rig).await.insert_refund(&refund(4, 1)).await);
    let third = settle(rig, &refund(3, 1), Success).await;
    is_conflict(begin(rig).await.insert_refund(&refund(4, 1)).await);
    let all = view(rig).await.refunds_of(TenantId::DEFAULT, &[order_id(1)]).await.unwrap();
    assert_eq!(all, [first, second, third]);
}

/// A refund is found by its id without a tenant, because the gateway does not report a tenant.
pub async fn refund_is_found_by_id_without_tenant(rig: &dyn MarketRig) {
    let foreign = Refund { tenant: tenant(2), ..refund(1, 1) };
    add(rig, std::slice::from_ref(&foreign)).await;
    assert_eq!(stored(rig, 1).await, Some(foreign));
}

/// A refund, with its attempts and its last error, is replaced only if its stored version is one less than the new
/// version.
pub async fn refund_advances_only_from_previous_version(rig: &dyn MarketRig) {
    add(rig, &[refund(1, 1), refund(2, 2)]).await;
    let retried = Refund {
        attempts: 1,
        next_attempt_time: Some(later(60)),
        last_error: Some(SPECIAL_CHARACTERS.into()),
        ..refund_moved_to(&refund(1, 1), Processing)
    };
    let settled = refund_moved_to(&retried, Success);
    for after in [&retried, &settled] {
        in_unit!(rig, |unit| changes_one(unit.advance_refund(after).await));
        in_unit!(rig, |unit| changes_none(unit.advance_refund(after).await));
        assert_eq!(stored(rig, 1).await.as_ref(), Some(after));
    }
    for version in [1, 2, 3, 5] {
        let other = Refund { version, ..refund_moved_to(&refund(1, 1), Failed) };
        in_unit!(rig, |unit| changes_none(unit.advance_refund(&other).await));
    }
    in_unit!(rig, |unit| {
        changes_none(unit.advance_refund(&refund_moved_to(&refund(3, 3), Failed)).await);
    });
    let foreign = Refund { tenant: tenant(2), ..refund_moved_to(&refund(2, 2), Failed) };
    in_unit!(rig, |unit| changes_none(unit.advance_refund(&foreign).await));
    assert_eq!(stored(rig, 1).await, Some(settled));
    assert_eq!(stored(rig, 2).await, Some(refund(2, 2)), "other rows must be unchanged");
    assert_eq!(stored(rig, 3).await, None, "a missing row must not be inserted");
}

/// All refunds of an order are returned sorted by id, in any status; those of other orders and tenants are not.
pub async fn refunds_of_order_are_ordered_by_id(rig: &dyn MarketRig) {
    let of_first = |id, payment| Refund { order: order_id(1), ..refund(id, payment) };
    let foreign = Refund { tenant: tenant(2), ..of_first(4, 41) };
    add(rig, &[of_first(12, 1), of_first(3, 2), refund(5, 3), foreign.clone()]).await;
    let failed = settle(rig, &of_first(12, 1), Failed).await;
    add(rig, &[of_first(9, 1)]).await;
    let of = async |of: i64, order: i64| {
        view(rig).await.refunds_of(tenant(of), &[order_id(order)]).await.expect("cannot read refunds")
    };
    assert_eq!(of(1, 1).await, [of_first(3, 2), of_first(9, 1), failed]);
    assert_eq!(of(1, 3).await, [refund(5, 3)]);
    assert_eq!(of(2, 1).await, [foreign]);
    assert_eq!(of(1, 7).await, []);
}

/// A refund is due if its next attempt time is at or before now, with microsecond precision.
pub async fn refund_is_due_at_its_next_attempt_time(rig: &dyn MarketRig) {
    let micro = TimeDelta::microseconds(1);
    let due = |id, at| Refund { next_attempt_time: Some(at), ..refund(id, id) };
    add(rig, &[due(1, start() - micro), due(2, start()), due(3, start() + micro)]).await;
    assert_eq!(numbers(view(rig).await.refunds_due(start(), 9).await.unwrap()), [1, 2]);
}

/// Only refunds in `PROCESSING` with a next attempt time are due: those of every tenant, earliest first, up to the
/// limit.
pub async fn due_refunds_are_processing_and_ordered_earliest_first(rig: &dyn MarketRig) {
    for (n, status) in RefundStatus::ALL.iter().enumerate() {
        let id = n as i64 + 50;
        add(rig, &[Refund { status: *status, next_attempt_time: Some(later(-500)), ..refund(id, id) }]).await;
    }
    let due = |id, seconds| Refund { next_attempt_time: Some(later(seconds)), ..refund(id, id) };
    let foreign = Refund { tenant: tenant(2), ..due(3, -20) };
    let without_time = Refund { next_attempt_time: None, ..refund(4, 4) };
    add(rig, &[due(1, -10), due(2, -30), foreign.clone(), without_time]).await;
    let seen = view(rig).await.refunds_due(start(), 9).await.unwrap();
    assert_eq!(seen[1..3], [due(2, -30), foreign]);
    assert_eq!(numbers(seen), [50, 2, 3, 1]);
    assert_eq!(numbers(view(rig).await.refunds_due(start(), 2).await.unwrap()), [50, 2]);
    let postponed = Refund { next_attempt_time: Some(later(9)), ..refund_moved_to(&due(2, -30), Processing) };
    in_unit!(rig, |unit| changes_one(unit.advance_refund(&postponed).await));
    assert_eq!(numbers(view(rig).await.refunds_due(start(), 9).await.unwrap()), [50, 3, 1]);
    assert_eq!(numbers(view(rig).await.refunds_due(later(9), 9).await.unwrap()), [50, 3, 1, 2]);
}

pub async fn concurrent_refunds_of_payment_succeed_exactly_once(rig: &dyn MarketRig) {
    let outcomes = race(&rig.market(), |unit, n| {
        Box::pin(async move { unit.insert_refund(&refund(n as i64 + 1, 1)).await })
    })
    .await;
    let winner = one_succeeded(outcomes);
    let all = view(rig).await.refunds_of(TenantId::DEFAULT, &[order_id(1)]).await.unwrap();
    assert_eq!(all, [refund(winner as i64 + 1, 1)]);
}

pub async fn concurrent_refund_settlements_succeed_exactly_once(rig: &dyn MarketRig) {
    in_unit!(rig, |unit| unit.insert_refund(&refund(1, 1)).await.unwrap());
    let outcomes = race(&rig.market(), |unit, n| {
        Box::pin(async move {
            let status = if n.is_multiple_of(2) { Success } else { Failed };
            let settled = refund_moved_to(&refund(1, 1), status);
            unit.advance_refund(&Refund { update_time: later(n as i64), ..settled }).await
        })
    })
    .await;
    let winner = one_changed(outcomes);
    let seen = stored(rig, 1).await.unwrap();
    assert_eq!((seen.version, seen.update_time), (2, later(winner as i64)));
}
