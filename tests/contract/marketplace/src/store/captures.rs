//! Rules for captures: money that the gateway took in one of its transactions.

use chrono::TimeDelta;
use handover_contract::concurrency::{one_succeeded, race};
use handover_contract::samples::{SPECIAL_CHARACTERS, later, start, tenant};
use handover_contract::work::{changes_none, changes_one, is_conflict};
use handover_events::{MAX_ID, TenantId};
use marketplace_domain::{Capture, Money};

use super::{MarketRig, begin, in_unit, view};
use crate::samples::{capture, money, order_id};

async fn add(rig: &dyn MarketRig, captures: &[Capture]) {
    in_unit!(rig, |unit| {
        for capture in captures {
            unit.insert_capture(capture).await.expect("cannot insert a capture");
        }
    });
}

async fn of_order(rig: &dyn MarketRig, order: i64) -> Vec<Capture> {
    let orders = [order_id(order)];
    view(rig).await.captures_of(TenantId::DEFAULT, &orders).await.expect("cannot read captures")
}

async fn by_transaction(rig: &dyn MarketRig, transaction: &str) -> Option<Capture> {
    view(rig).await.capture_by_transaction(transaction).await.expect("cannot read a capture")
}

pub async fn capture_is_read_as_written(rig: &dyn MarketRig) {
    let micro = TimeDelta::microseconds(1);
    let all = [
        capture(1, 1),
        Capture { amount: money(MAX_ID), number: 1_000_000, ..capture(2, 2) },
        Capture { amount: Money::ZERO, ..capture(MAX_ID, 1) },
        Capture { transaction_id: SPECIAL_CHARACTERS.into(), ..capture(3, 1) },
        Capture { transaction_id: "😀".repeat(255), ..capture(4, 1) },
        Capture { refund_due: true, in_suspense: true, ..capture(5, 1) },
        Capture { refund_due: true, ..capture(6, 1) },
        Capture { in_suspense: true, ..capture(7, 1) },
        Capture { create_time: start() + micro, ..capture(8, 1) },
    ];
    add(rig, &all).await;
    for written in all {
        assert_eq!(
            of_order(rig, written.of.order().expect("an order").get()).await,
            std::slice::from_ref(&written)
        );
        assert_eq!(by_transaction(rig, &written.transaction_id).await, Some(written));
    }
}

/// A number identifies one capture of a payment; other payments have the same numbers.
pub async fn duplicate_capture_number_is_conflict(rig: &dyn MarketRig) {
    add(rig, &[capture(1, 1), capture(2, 1)]).await;
    let again = Capture { transaction_id: "other".into(), ..capture(1, 1) };
    is_conflict(begin(rig).await.insert_capture(&again).await);
    is_conflict(begin(rig).await.insert_capture(&Capture { tenant: tenant(2), ..again.clone() }).await);
    is_conflict(begin(rig).await.insert_capture(&Capture { of: order_id(9).into(), ..again }).await);
    add(rig, &[capture(1, 2)]).await;
    assert_eq!(of_order(rig, 1).await, [capture(1, 1), capture(1, 2)]);
}

/// A gateway transaction captures money for at most one payment and once, across all tenants.
pub async fn duplicate_captured_transaction_is_conflict(rig: &dyn MarketRig) {
    add(rig, &[capture(1, 1)]).await;
    for other in [capture(1, 2), capture(2, 1), Capture { tenant: tenant(2), ..capture(3, 1) }] {
        let same = Capture { transaction_id: capture(1, 1).transaction_id, ..other };
        is_conflict(begin(rig).await.insert_capture(&same).await);
    }
    assert_eq!(of_order(rig, 1).await, [capture(1, 1)]);
}

/// Transactions that differ in case, spaces or accents are different.
pub async fn captured_transactions_are_compared_byte_by_byte(rig: &dyn MarketRig) {
    let transactions = ["TX-A", "Tx-A", "tx-a", "tx-a ", " tx-a", "tx-á", "ｔｘ-ａ"];
    for (payment, transaction) in (1..).zip(transactions) {
        assert_eq!(by_transaction(rig, transaction).await, None, "{transaction:?}");
        let written = Capture { transaction_id: transaction.into(), ..capture(payment, 1) };
        add(rig, std::slice::from_ref(&written)).await;
        assert_eq!(by_transaction(rig, transaction).await, Some(written));
    }
}

/// An update replaces `refund_due` and `in_suspense` of one capture, and nothing else.
pub async fn update_of_capture_replaces_only_what_becomes_of_the_money(rig: &dyn MarketRig) {
    add(rig, &[capture(1, 1), capture(1, 2), capture(2, 1)]).await;
    for (refund_due, in_suspense) in [(true, true), (false, true), (true, false), (false, false)] {
        let after = Capture { refund_due, in_suspense, ..capture(1, 2) };
        let other_values = Capture {
            amount: money(1),
            transaction_id: "other".into(),
            create_time: later(9),
            ..after.clone()
        };
        in_unit!(rig, |unit| changes_one(unit.update_capture(&other_values).await));
        assert_eq!(of_order(rig, 1).await, [capture(1, 1), after]);
    }
    in_unit!(rig, |unit| changes_none(unit.update_capture(&capture(1, 3)).await));
    in_unit!(rig, |unit| changes_none(unit.update_capture(&capture(3, 1)).await));
    assert_eq!(of_order(rig, 2).await, [capture(2, 1)]);
    assert_eq!(of_order(rig, 3).await, [], "a missing row must not be inserted");
}

/// The captures of an order are sorted by payment and number; those of other orders and tenants are not returned.
pub async fn captures_of_order_are_ordered_by_payment_and_number(rig: &dyn MarketRig) {
    let of_first = |payment, number| Capture { of: order_id(1).into(), ..capture(payment, number) };
    let foreign = Capture { tenant: tenant(2), ..of_first(5, 1) };
    add(rig, &[of_first(12, 1), of_first(3, 10), of_first(3, 9), capture(4, 1), foreign.clone()]).await;
    add(rig, &[of_first(3, 1)]).await;
    assert_eq!(of_order(rig, 1).await, [of_first(3, 1), of_first(3, 9), of_first(3, 10), of_first(12, 1)]);
    assert_eq!(of_order(rig, 7).await, []);
    let of_other = view(rig).await.captures_of(tenant(2), &[order_id(1)]).await.unwrap();
    assert_eq!(of_other, [foreign]);
}

/// One gateway transaction that is reported concurrently for several payments is captured once.
pub async fn concurrent_captures_of_transaction_succeed_exactly_once(rig: &dyn MarketRig) {
    let outcomes = race(&rig.market(), |unit, n| {
        Box::pin(async move {
            let same = Capture { transaction_id: "t".into(), ..capture(n as i64 + 1, 1) };
            unit.insert_capture(&same).await
        })
    })
    .await;
    let winner = one_succeeded(outcomes);
    let seen = by_transaction(rig, "t").await.map(|capture| capture.payment.get());
    assert_eq!(seen, Some(winner as i64 + 1));
}
