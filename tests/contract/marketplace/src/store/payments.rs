//! Rules for payments.

use handover_contract::samples::{SPECIAL_CHARACTERS, tenant};
use handover_contract::work::{changes_none, changes_one, is_conflict};
use handover_events::{MAX_ID, TenantId, Trace};
use marketplace::ports::PaymentFilter;
use marketplace_domain::{Money, Order, Payment, PaymentMethod, PaymentStatus, Reference};

use super::{MarketRig, begin, in_unit, view};
use crate::samples::{order, order_id, payment, payment_id, reference, settled};

async fn add(rig: &dyn MarketRig, payments: &[Payment]) {
    in_unit!(rig, |unit| {
        for payment in payments {
            unit.insert_payment(payment).await.expect("cannot insert a payment");
        }
    });
}

async fn stored(rig: &dyn MarketRig, id: i64) -> Option<Payment> {
    view(rig).await.payment_by_id(payment_id(id)).await.expect("cannot read a payment")
}

async fn settle(rig: &dyn MarketRig, payment: &Payment, status: PaymentStatus, transaction: &str) -> Payment {
    let after = settled(payment, status, transaction);
    in_unit!(rig, |unit| changes_one(unit.advance_payment(&after).await));
    after
}

pub async fn payment_is_read_as_written(rig: &dyn MarketRig) {
    let greatest = Payment { amount: Money::from_minor(MAX_ID).unwrap(), ..payment(MAX_ID, MAX_ID) };
    let awkward = Payment { method: PaymentMethod::BankTransfer, amount: Money::ZERO, ..payment(2, 2) };
    let plain = payment(1, 1);
    let untraced = Payment { trace: None, ..payment(4, 4) };
    let longest = Trace { trace_id: "t".repeat(64), traceparent: None };
    let traced = Payment { trace: Some(longest), ..payment(5, 5) };
    let unnamed = Payment { reference: None, ..payment(6, 6) };
    let named = |id, reference: &str| Payment { reference: reference.parse().ok(), ..payment(id, id) };
    let smallest = named(7, "00000000-0000-0000-0000-000000000000");
    let largest = named(8, "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF");
    let all = [greatest, awkward, plain, untraced, traced, unnamed, smallest, largest];
    add(rig, &all).await;
    for written in all {
        assert_eq!(stored(rig, written.id.get()).await, Some(written));
    }
    assert_eq!(stored(rig, 3).await, None);
}

/// A duplicate id is a conflict, even in another tenant.
pub async fn duplicate_payment_id_is_conflict(rig: &dyn MarketRig) {
    add(rig, &[payment(1, 1)]).await;
    let other = Payment { reference: Some(reference(9)), ..payment(1, 2) };
    is_conflict(begin(rig).await.insert_payment(&other).await);
    is_conflict(begin(rig).await.insert_payment(&Payment { tenant: tenant(2), ..other }).await);
    assert_eq!(stored(rig, 1).await, Some(payment(1, 1)));
}

/// A reference names at most one payment, across all tenants. Any number of payments may have none.
pub async fn duplicate_payment_reference_is_conflict(rig: &dyn MarketRig) {
    let with = |id, reference: Option<Reference>| Payment { reference, ..payment(id, id) };
    add(rig, &[with(1, Some(reference(1))), with(2, Some(reference(2))), with(3, None), with(4, None)]).await;
    let same = with(5, Some(reference(1)));
    is_conflict(begin(rig).await.insert_payment(&same).await);
    is_conflict(begin(rig).await.insert_payment(&Payment { tenant: tenant(2), ..same }).await);
    let renamed = Payment { version: 2, ..with(2, Some(reference(1))) };
    is_conflict(begin(rig).await.advance_payment(&renamed).await);
    let named = Payment { version: 2, ..with(3, Some(reference(3))) };
    in_unit!(rig, |unit| changes_one(unit.advance_payment(&named).await));
    is_conflict(begin(rig).await.insert_payment(&with(6, Some(reference(3)))).await);
    assert_eq!(stored(rig, 2).await, Some(payment(2, 2)));
    assert_eq!(stored(rig, 5).await, None);
}

/// A payment is found by its reference without a tenant, because the gateway does not report a tenant.
pub async fn payment_is_found_by_reference_without_tenant(rig: &dyn MarketRig) {
    let foreign = Payment { tenant: tenant(2), ..payment(2, 2) };
    add(rig, &[payment(1, 1), foreign.clone(), Payment { reference: None, ..payment(3, 3) }]).await;
    let after = settle(rig, &payment(1, 1), PaymentStatus::Success, "t1").await;
    let found = async |number: i64| {
        view(rig).await.payment_by_reference(reference(number)).await.expect("cannot read a payment")
    };
    assert_eq!(found(1).await, Some(after));
    assert_eq!(found(2).await, Some(foreign));
    assert_eq!(found(3).await, None);
}

/// A payment is found by the gateway transaction that settled it last, in any tenant; transactions are compared byte by
/// byte.
pub async fn payment_is_found_by_gateway_transaction_that_settled_it_last(rig: &dyn MarketRig) {
    let foreign = Payment { tenant: tenant(2), ..payment(2, 2) };
    add(rig, &[payment(1, 1), foreign.clone(), payment(3, 3)]).await;
    let failed = settle(rig, &payment(1, 1), PaymentStatus::Failed, "tx-a").await;
    let foreign = settle(rig, &foreign, PaymentStatus::Success, "TX-A").await;
    let found = async |transaction: &str| {
        view(rig).await.payment_by_transaction(transaction).await.expect("cannot read a payment")
    };
    assert_eq!(found("tx-a").await.as_ref(), Some(&failed));
    assert_eq!(found("TX-A").await, Some(foreign));
    for other in ["tx-a ", "tx-á", "tx-b", ""] {
        assert_eq!(found(other).await, None, "{other:?}");
    }
    let succeeded = settle(rig, &failed, PaymentStatus::Success, "tx-b").await;
    assert_eq!(found("tx-b").await, Some(succeeded));
    assert_eq!(found("tx-a").await, None);
}

/// An order has at most one payment in `PROCESSING`; payments of other orders do not conflict.
pub async fn second_processing_payment_of_order_is_conflict(rig: &dyn MarketRig) {
    add(rig, &[payment(1, 1), payment(2, 2)]).await;
    is_conflict(begin(rig).await.insert_payment(&payment(3, 1)).await);
    let mut unit = begin(rig).await;
    unit.insert_payment(&payment(4, 4)).await.unwrap();
    is_conflict(unit.insert_payment(&payment(5, 4)).await);
}

/// An order can have another payment after its previous payment was settled.
pub async fn payment_is_allowed_after_previous_is_settled(rig: &dyn MarketRig) {
    add(rig, &[payment(1, 1)]).await;
    settle(rig, &payment(1, 1), PaymentStatus::Failed, "t1").await;
    add(rig, &[payment(2, 1)]).await;
    settle(rig, &payment(2, 1), PaymentStatus::Success, "t2").await;
    add(rig, &[payment(3, 1)]).await;
    let open = view(rig).await.payment_in_processing(TenantId::DEFAULT, order_id(1)).await.unwrap();
    assert_eq!(open, Some(payment(3, 1)));
}

/// One unit of work can settle a payment and insert another payment, which is then the payment in `PROCESSING`.
pub async fn unit_of_work_can_settle_payment_and_insert_another(rig: &dyn MarketRig) {
    for (old, new) in [(1, 2), (4, 3)] {
        let order = old;
        add(rig, &[payment(old, order)]).await;
        let done = settled(&payment(old, order), PaymentStatus::Failed, &format!("t{old}"));
        in_unit!(rig, |unit| {
            changes_one(unit.advance_payment(&done).await);
            unit.insert_payment(&payment(new, order)).await.unwrap();
        });
        let open = view(rig).await.payment_in_processing(TenantId::DEFAULT, order_id(order)).await.unwrap();
        assert_eq!(open, Some(payment(new, order)));
        is_conflict(begin(rig).await.insert_payment(&payment(9, order)).await);
    }
}

/// The payment in `PROCESSING` is found by tenant and order, and only while it has that status.
pub async fn processing_payment_is_found_only_in_that_status(rig: &dyn MarketRig) {
    add(rig, &[payment(1, 1), Payment { tenant: tenant(2), ..payment(2, 2) }]).await;
    let Order { id: first, .. } = order(1);
    let mut found = Vec::new();
    for (tenant, order) in
        [(tenant(1), first), (tenant(2), first), (tenant(1), order_id(2)), (tenant(2), order_id(2))]
    {
        let open = view(rig).await.payment_in_processing(tenant, order).await.unwrap();
        found.push(open.map(|payment| payment.id.get()));
    }
    assert_eq!(found, [Some(1), None, None, Some(2)]);
    settle(rig, &payment(1, 1), PaymentStatus::Failed, "t1").await;
    assert_eq!(view(rig).await.payment_in_processing(tenant(1), first).await.unwrap(), None);
}

/// A payment is found by its id without a tenant, because the gateway does not report a tenant.
pub async fn payment_is_found_by_id_without_tenant(rig: &dyn MarketRig) {
    let foreign = Payment { tenant: tenant(2), ..payment(1, 1) };
    add(rig, std::slice::from_ref(&foreign)).await;
    assert_eq!(stored(rig, 1).await, Some(foreign));
}

/// A payment, with the gateway's transaction id and the refund flag, is replaced only if its stored version is one less
/// than the new version.
pub async fn payment_advances_only_from_previous_version(rig: &dyn MarketRig) {
    add(rig, &[payment(1, 1), payment(2, 2)]).await;
    let after =
        Payment { refund_due: true, ..settled(&payment(1, 1), PaymentStatus::Success, SPECIAL_CHARACTERS) };
    in_unit!(rig, |unit| changes_one(unit.advance_payment(&after).await));
    in_unit!(rig, |unit| changes_none(unit.advance_payment(&after).await));
    assert_eq!(stored(rig, 1).await.as_ref(), Some(&after));
    for version in [1, 2, 4] {
        let other = Payment { version, ..settled(&payment(1, 1), PaymentStatus::Failed, "other") };
        in_unit!(rig, |unit| changes_none(unit.advance_payment(&other).await));
    }
    in_unit!(rig, |unit| {
        changes_none(unit.advance_payment(&settled(&payment(3, 3), PaymentStatus::Failed, "t3")).await);
    });
    let foreign = Payment { tenant: tenant(2), ..settled(&payment(2, 2), PaymentStatus::Failed, "t2") };
    in_unit!(rig, |unit| changes_none(unit.advance_payment(&foreign).await));
    assert_eq!(stored(rig, 1).await, Some(after));
    assert_eq!(stored(rig, 2).await, Some(payment(2, 2)), "other rows must be unchanged");
    assert_eq!(stored(rig, 3).await, None, "a missing row must not be inserted");
}

/// A gateway transaction settles at most one payment, across all tenants.
pub async fn duplicate_gateway_transaction_is_conflict(rig: &dyn MarketRig) {
    add(rig, &[payment(1, 1), payment(2, 2), Payment { tenant: tenant(2), ..payment(3, 3) }]).await;
    settle(rig, &payment(1, 1), PaymentStatus::Success, "t").await;
    let same = settled(&payment(2, 2), PaymentStatus::Failed, "t");
    is_conflict(begin(rig).await.advance_payment(&same).await);
    let foreign = Payment { tenant: tenant(2), ..settled(&payment(3, 3), PaymentStatus::Success, "t") };
    is_conflict(begin(rig).await.advance_payment(&foreign).await);
    assert_eq!(stored(rig, 2).await, Some(payment(2, 2)));
}

/// Gateway transactions that differ in case, spaces or accents are different.
pub async fn gateway_transactions_are_compared_byte_by_byte(rig: &dyn MarketRig) {
    for (n, transaction) in ["Tx-A", "tx-a", "tx-a ", " tx-a", "tx-á", "ｔｘ-ａ"].into_iter().enumerate()
    {
        let id = n as i64 + 1;
        add(rig, &[payment(id, id)]).await;
        settle(rig, &payment(id, id), PaymentStatus::Success, transaction).await;
        assert_eq!(stored(rig, id).await.and_then(|p| p.transaction_id).as_deref(), Some(transaction));
    }
}

/// All payments of an order are returned sorted by id, in any status; those of other orders and tenants are not.
pub async fn payments_of_order_are_ordered_by_id(rig: &dyn MarketRig) {
    add(rig, &[payment(9, 1)]).await;
    let first = settle(rig, &payment(9, 1), PaymentStatus::Failed, "t1").await;
    add(rig, &[payment(3, 1)]).await;
    let second = settle(rig, &payment(3, 1), PaymentStatus::Success, "t2").await;
    add(rig, &[payment(12, 1), payment(5, 2)]).await;
    let foreign = Payment { tenant: tenant(2), ..payment(4, 1) };
    add(rig, std::slice::from_ref(&foreign)).await;
    let of = async |of: i64, order: i64| {
        view(rig).await.payments_of(tenant(of), &[order_id(order)]).await.expect("cannot read payments")
    };
    assert_eq!(of(1, 1).await, [second, first, payment(12, 1)]);
    assert_eq!(of(1, 2).await, [payment(5, 2)]);
    assert_eq!(of(2, 1).await, [foreign]);
    assert_eq!(of(1, 3).await, []);
}

async fn page(rig: &dyn MarketRig, filter: PaymentFilter, before: Option<i64>, limit: u32) -> Vec<i64> {
    let page = view(rig).await.payments_page(filter, before.map(payment_id), limit).await;
    page.expect("cannot read a page of payments").iter().map(|payment| payment.id.get()).collect()
}

/// A page contains payments with ids below the given id, greatest id first.
pub async fn payment_pages_are_ordered_by_descending_id(rig: &dyn MarketRig) {
    add(rig, &[payment(12, 12), payment(3, 3), payment(MAX_ID, 1), payment(4, 4), payment(5, 5)]).await;
    let all = PaymentFilter::default();
    assert_eq!(page(rig, all, None, 2).await, [MAX_ID, 12]);
    assert_eq!(page(rig, all, Some(12), 2).await, [5, 4]);
    assert_eq!(page(rig, all, Some(4), 2).await, [3]);
    assert_eq!(page(rig, all, Some(3), 2).await, [0; 0]);
    let rows = view(rig).await.payments_page(all, Some(payment_id(5)), 1).await.unwrap();
    assert_eq!(rows, [payment(4, 4)]);
}

/// Filters of a page apply together; rows that do not match do not count against the limit.
pub async fn payment_pages_filter_by_tenant_status_and_bound(rig: &dyn MarketRig) {
    for id in 1..=6 {
        add(rig, &[Payment { tenant: tenant(1 + id % 2), ..payment(id, id) }]).await;
    }
    for id in [2, 3, 5] {
        let started = stored(rig, id).await.unwrap();
        settle(rig, &started, PaymentStatus::Failed, &format!("txn-{id}")).await;
    }
    let of_tenant = |id| PaymentFilter { tenant: Some(tenant(id)), ..PaymentFilter::default() };
    let failed = |filter| PaymentFilter { status: Some(PaymentStatus::Failed), ..filter };
    let above = |id, filter| PaymentFilter { above_id: Some(id), ..filter };
    let all = PaymentFilter::default();
    let expected: [(PaymentFilter, &[i64]); 7] = [
        (all, &[6, 5, 4, 3, 2, 1]),
        (of_tenant(1), &[6, 4, 2]),
        (failed(all), &[5, 3, 2]),
        (failed(of_tenant(2)), &[5, 3]),
        (above(4, all), &[6, 5]),
        (above(2, failed(all)), &[5, 3]),
        (above(2, failed(of_tenant(1))), &[]),
    ];
    for (filter, ids) in expected {
        assert_eq!(page(rig, filter, None, 100).await, ids, "{filter:?}");
        assert_eq!(page(rig, filter, None, 1).await, ids[..ids.len().min(1)], "{filter:?}");
    }
}
