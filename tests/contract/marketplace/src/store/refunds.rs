//! Rules for refunds.

use chrono::{DateTime, TimeDelta, Utc};
use handover_contract::concurrency::{one_changed, one_succeeded, race};
use handover_contract::samples::{SPECIAL_CHARACTERS, later, start, tenant};
use handover_contract::work::{changes_none, changes_one, is_conflict};
use handover_events::{MAX_ID, TenantId, Trace};
use marketplace::ports::{OpenRefunds, RefundFilter, SentRefundRequest};
use marketplace_domain::{
    Capture, Currency, Money, Order, OrderStatus, Payment, Reference, Refund, RefundCause, RefundId,
    RefundStatus, SupersededAttempt,
};

use super::{MarketRig, begin, in_unit, view};
use crate::samples::{
    capture, invoice_id, money, order, order_id, order_moved_to, payment, reference, refund, refund_id,
    refund_moved_to,
};

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
    written.push(Refund { cause: RefundCause::Seller, off_shelf: true, ..refund(1, 1) });
    written.push(Refund { amount: Money::ZERO, of: order_id(MAX_ID).into(), ..refund(1, 1) });
    written.push(Refund { next_attempt_time: Some(later(7) + micro), ..refund(1, 1) });
    written.push(Refund { create_time: later(1) + micro, update_time: later(2) - micro, ..refund(1, 1) });
    written.push(Refund { trace: None, ..refund(1, 1) });
    let longest = Trace { trace_id: "t".repeat(64), traceparent: None };
    written.push(Refund { trace: Some(longest), ..refund(1, 1) });
    written.push(Refund { capture: 1_000_000, attempt: 1_000_000, is_keyed_by_id: true, ..refund(1, 1) });
    written.push(Refund {
        settled_attempt: Some(2),
        attempt: 3,
        payouts: 4,
        settled_by: Some(SPECIAL_CHARACTERS.into()),
        transaction_id: Some(SPECIAL_CHARACTERS.into()),
        is_excess: true,
        ..refund_moved_to(&refund(1, 1), Success)
    });
    written.push(Refund {
        payouts: 2,
        transaction_id: Some("😀".repeat(255)),
        settled_by: Some(String::new()),
        ..refund_moved_to(&refund(1, 1), Failed)
    });
    for (n, written) in written.into_iter().enumerate() {
        let number = n as i64 + 1;
        let Refund { id, payment, reference, .. } = refund(number, number);
        let refund = Refund { id, payment, reference, ..written };
        add(rig, std::slice::from_ref(&refund)).await;
        assert_eq!(stored(rig, number).await, Some(refund));
    }
    let unnamed = Refund { reference: None, ..refund(998, 998) };
    add(rig, &[refund(MAX_ID, MAX_ID), unnamed.clone()]).await;
    assert_eq!(stored(rig, 998).await, Some(unnamed));
    assert_eq!(stored(rig, MAX_ID).await.map(|refund| refund.currency), Some(Currency::CNY));
    assert_eq!(stored(rig, MAX_ID).await, Some(refund(MAX_ID, MAX_ID)));
    assert_eq!(stored(rig, 999).await, None);
}

/// A duplicate id is a conflict, even in another tenant.
pub async fn duplicate_refund_id_is_conflict(rig: &dyn MarketRig) {
    add(rig, &[refund(1, 1)]).await;
    let other = Refund { reference: Some(reference(9)), ..refund(1, 2) };
    is_conflict(begin(rig).await.insert_refund(&other).await);
    is_conflict(begin(rig).await.insert_refund(&Refund { tenant: tenant(2), ..other }).await);
    assert_eq!(stored(rig, 1).await, Some(refund(1, 1)));
}

/// A reference names at most one refund, across all tenants. Any number of refunds may have none.
pub async fn duplicate_refund_reference_is_conflict(rig: &dyn MarketRig) {
    let with = |id, reference: Option<Reference>| Refund { reference, ..refund(id, id) };
    add(rig, &[refund(1, 1), refund(2, 2), with(3, None), with(4, None)]).await;
    let same = with(5, Some(reference(1)));
    is_conflict(begin(rig).await.insert_refund(&same).await);
    is_conflict(begin(rig).await.insert_refund(&Refund { tenant: tenant(2), ..same }).await);
    let renamed = Refund { version: 2, ..with(2, Some(reference(1))) };
    is_conflict(begin(rig).await.advance_refund(&renamed).await);
    let named = Refund { version: 2, ..with(3, Some(reference(3))) };
    in_unit!(rig, |unit| changes_one(unit.advance_refund(&named).await));
    is_conflict(begin(rig).await.insert_refund(&with(6, Some(reference(3)))).await);
    assert_eq!(stored(rig, 2).await, Some(refund(2, 2)));
    assert_eq!(stored(rig, 5).await, None);
}

/// A capture has at most one refund in `PROCESSING` or `SUCCESS`.
pub async fn second_refund_of_capture_is_conflict(rig: &dyn MarketRig) {
    add(rig, &[refund(1, 1), refund(2, 2)]).await;
    is_conflict(begin(rig).await.insert_refund(&refund(3, 1)).await);
    is_conflict(begin(rig).await.insert_refund(&Refund { of: order_id(9).into(), ..refund(3, 1) }).await);
    is_conflict(begin(rig).await.insert_refund(&refund_moved_to(&refund(3, 1), Success)).await);
    settle(rig, &refund(1, 1), Success).await;
    is_conflict(begin(rig).await.insert_refund(&refund(3, 1)).await);
    let mut unit = begin(rig).await;
    unit.insert_refund(&refund(4, 4)).await.unwrap();
    is_conflict(unit.insert_refund(&refund(5, 4)).await);
    assert_eq!(stored(rig, 3).await, None);
}

/// Each capture of a payment can be refunded, and each once.
pub async fn refunds_of_different_captures_do_not_conflict(rig: &dyn MarketRig) {
    let of = |id, capture| Refund { capture, ..refund(id, 1) };
    add(rig, &[of(1, 1), of(2, 2), of(3, 3)]).await;
    is_conflict(begin(rig).await.insert_refund(&of(4, 2)).await);
    settle(rig, &of(1, 1), Failed).await;
    is_conflict(begin(rig).await.insert_refund(&of(4, 3)).await);
    add(rig, &[of(4, 1)]).await;
    let all = view(rig).await.refunds_of(TenantId::DEFAULT, &[order_id(1)]).await.unwrap();
    assert_eq!(numbers(all), [1, 2, 3, 4]);
}

/// Excess refunds of a capture are neither checked nor counted; a refund that becomes one allows another refund.
pub async fn excess_refunds_do_not_conflict(rig: &dyn MarketRig) {
    let excess = |id| Refund { is_excess: true, ..refund(id, 1) };
    add(rig, &[refund(1, 1), excess(2), excess(3)]).await;
    settle(rig, &excess(2), Success).await;
    let counted = Refund { is_excess: false, ..refund_moved_to(&excess(3), Processing) };
    is_conflict(begin(rig).await.advance_refund(&counted).await);
    is_conflict(begin(rig).await.insert_refund(&refund(4, 1)).await);
    let stopped = Refund { is_excess: true, ..refund_moved_to(&refund(1, 1), Processing) };
    in_unit!(rig, |unit| {
        changes_one(unit.advance_refund(&stopped).await);
        unit.insert_refund(&refund(4, 1)).await.unwrap();
    });
    is_conflict(begin(rig).await.insert_refund(&refund(5, 1)).await);
    let all = view(rig).await.refunds_of(TenantId::DEFAULT, &[order_id(1)]).await.unwrap();
    assert_eq!(numbers(all), [1, 2, 3, 4]);
}

/// After a refund has failed, its capture may have another refund, even in the same unit of work, but again at most one
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

/// A refund of any tenant and the number of its attempt are found by the reference of the current attempt, and of each
/// attempt that was superseded.
pub async fn attempt_is_found_by_current_or_superseded_reference(rig: &dyn MarketRig) {
    let first = Refund { tenant: tenant(2), reference: Some(reference(10)), ..refund(1, 1) };
    add(rig, &[first.clone(), Refund { reference: None, ..refund(2, 2) }, refund(3, 3)]).await;
    let attempt = async |number: i64| {
        let found = view(rig).await.attempt_by_reference(reference(number)).await;
        found.expect("cannot read an attempt").map(|(refund, attempt)| (refund.get(), attempt))
    };
    assert_eq!(attempt(10).await, Some((1, 1)));
    let mut current = first;
    for next in [2, 3] {
        let replaced = SupersededAttempt {
            refund: current.id,
            attempt: current.attempt,
            reference: current.reference.unwrap(),
        };
        let retried = Refund {
            attempt: next,
            reference: Some(reference(10 * i64::from(next))),
            ..refund_moved_to(&current, Processing)
        };
        in_unit!(rig, |unit| {
            changes_one(unit.advance_refund(&retried).await);
            unit.insert_superseded_attempt(&replaced).await.unwrap();
        });
        current = retried;
    }
    for (number, expected) in
        [(10, Some((1, 1))), (20, Some((1, 2))), (30, Some((1, 3))), (3, Some((3, 1))), (2, None), (40, None)]
    {
        assert_eq!(attempt(number).await, expected, "{number}");
    }
}

/// A reference names at most one superseded attempt.
pub async fn duplicate_superseded_reference_is_conflict(rig: &dyn MarketRig) {
    let attempt =
        |refund, attempt| SupersededAttempt { refund: refund_id(refund), attempt, reference: reference(1) };
    in_unit!(rig, |unit| unit.insert_superseded_attempt(&attempt(1, 1)).await.unwrap());
    is_conflict(begin(rig).await.insert_superseded_attempt(&attempt(1, 2)).await);
    is_conflict(begin(rig).await.insert_superseded_attempt(&attempt(2, 1)).await);
    let found = view(rig).await.attempt_by_reference(reference(1)).await.unwrap();
    assert_eq!(found, Some((refund_id(1), 1)));
}

/// A request of a refund of order 1, with this version and number.
pub(super) fn sent_request(refund: i64, version: i64) -> SentRefundRequest {
    SentRefundRequest {
        refund: refund_id(refund),
        version,
        tenant: TenantId::DEFAULT,
        order: Some(order_id(1)),
        attempt: 1,
        number: 1,
        sent: later(version),
        error: None,
    }
}

/// The latest requests of a refund are read first, each with its own error.
pub async fn latest_requests_of_refund_are_read_with_their_errors(rig: &dyn MarketRig) {
    let of_invoice = SentRefundRequest { order: None, tenant: tenant(2), ..sent_request(2, 2) };
    let later_attempt = SentRefundRequest { attempt: 2, number: 7, ..sent_request(1, 12) };
    let written = [sent_request(1, 2), sent_request(1, 4), later_attempt.clone(), of_invoice.clone()];
    in_unit!(rig, |unit| {
        for request in &written {
            unit.insert_refund_request(request).await.unwrap();
        }
    });
    in_unit!(rig, |unit| {
        for (refund, version) in [(1, 4), (1, 3), (3, 2)] {
            let set = unit.set_refund_request_error(refund_id(refund), version, SPECIAL_CHARACTERS).await;
            set.expect("without such a request nothing changes");
        }
    });
    let requests = async |refund: i64, limit: u32| {
        let requests = view(rig).await.refund_requests(refund_id(refund), limit).await;
        requests.expect("cannot read requests")
    };
    let failed = SentRefundRequest { error: Some(SPECIAL_CHARACTERS.into()), ..sent_request(1, 4) };
    assert_eq!(requests(1, 9).await, [later_attempt.clone(), failed.clone(), sent_request(1, 2)]);
    assert_eq!(requests(1, 2).await, [later_attempt, failed]);
    assert_eq!(requests(2, 9).await, [of_invoice]);
    assert_eq!(requests(3, 9).await, []);
}

/// A version of a refund counts at most one request.
pub async fn duplicate_refund_request_is_conflict(rig: &dyn MarketRig) {
    in_unit!(rig, |unit| unit.insert_refund_request(&sent_request(1, 2)).await.unwrap());
    let again = SentRefundRequest { number: 2, ..sent_request(1, 2) };
    is_conflict(begin(rig).await.insert_refund_request(&again).await);
    assert_eq!(view(rig).await.refund_requests(refund_id(1), 9).await.unwrap(), [sent_request(1, 2)]);
}

async fn page(rig: &dyn MarketRig, filter: RefundFilter, before: Option<i64>, limit: u32) -> Vec<i64> {
    let page = view(rig).await.refunds_page(filter, before.map(refund_id), limit).await;
    numbers(page.expect("cannot read a page of refunds"))
}

/// A page contains refunds with ids below the given id, greatest id first.
pub async fn refund_pages_are_ordered_by_descending_id(rig: &dyn MarketRig) {
    let old = Refund { create_time: later(9), update_time: later(9), ..refund(4, 4) };
    add(rig, &[refund(12, 12), refund(3, 3), refund(MAX_ID, 1), old.clone(), refund(5, 5)]).await;
    let all = RefundFilter::default();
    assert_eq!(page(rig, all, None, 2).await, [MAX_ID, 12]);
    assert_eq!(page(rig, all, Some(12), 2).await, [5, 4]);
    assert_eq!(page(rig, all, Some(4), 2).await, [3]);
    assert_eq!(page(rig, all, Some(3), 2).await, [0; 0]);
    assert_eq!(page(rig, all, Some(7), 9).await, [5, 4, 3]);
    let rows = view(rig).await.refunds_page(all, Some(refund_id(5)), 1).await.unwrap();
    assert_eq!(rows, [old]);
}

/// Filters of a page apply together; rows that do not match do not count against the limit.
pub async fn refund_pages_filter_by_tenant_and_status(rig: &dyn MarketRig) {
    for (id, of, status) in [
        (1, 1, Processing),
        (2, 1, Success),
        (3, 2, Failed),
        (4, 1, Failed),
        (5, 2, Processing),
        (6, 2, Success),
        (7, 1, Failed),
        (8, 1, Success),
    ] {
        let of_tenant = Refund { tenant: tenant(of), ..refund(id, id) };
        add(rig, &[Refund { version: 1, ..refund_moved_to(&of_tenant, status) }]).await;
    }
    let expected: [(Option<i64>, Option<RefundStatus>, &[i64]); 9] = [
        (None, None, &[8, 7, 6, 5, 4, 3, 2, 1]),
        (None, Some(Processing), &[5, 1]),
        (None, Some(Success), &[8, 6, 2]),
        (None, Some(Failed), &[7, 4, 3]),
        (Some(1), None, &[8, 7, 4, 2, 1]),
        (Some(2), None, &[6, 5, 3]),
        (Some(1), Some(Failed), &[7, 4]),
        (Some(2), Some(Success), &[6]),
        (Some(3), Some(Processing), &[]),
    ];
    for (of, status, ids) in expected {
        let filter = RefundFilter { tenant: of.map(tenant), status };
        assert_eq!(page(rig, filter, None, 100).await, ids, "{filter:?}");
        assert_eq!(page(rig, filter, None, 2).await, ids[..ids.len().min(2)], "{filter:?}");
        let below: Vec<i64> = ids.iter().copied().filter(|id| *id < 6).collect();
        assert_eq!(page(rig, filter, Some(6), 100).await, below, "{filter:?}");
    }
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
    let settled = Refund {
        transaction_id: Some(SPECIAL_CHARACTERS.into()),
        settled_by: Some("user:9".into()),
        ..refund_moved_to(&retried, Success)
    };
    let failed = refund_moved_to(&settled, Failed);
    let renewed = Refund {
        capture: 2,
        reference: Some(reference(11)),
        is_keyed_by_id: true,
        attempt: 2,
        is_excess: true,
        ..refund_moved_to(&failed, Processing)
    };
    for after in [&retried, &settled, &failed, &renewed] {
        in_unit!(rig, |unit| changes_one(unit.advance_refund(after).await));
        in_unit!(rig, |unit| changes_none(unit.advance_refund(after).await));
        assert_eq!(stored(rig, 1).await.as_ref(), Some(after));
    }
    for version in [1, 2, 3, 4, 5, 7] {
        let other = Refund { version, ..refund_moved_to(&refund(1, 1), Failed) };
        in_unit!(rig, |unit| changes_none(unit.advance_refund(&other).await));
    }
    in_unit!(rig, |unit| {
        changes_none(unit.advance_refund(&refund_moved_to(&refund(3, 3), Failed)).await);
    });
    let foreign = Refund { tenant: tenant(2), ..refund_moved_to(&refund(2, 2), Failed) };
    in_unit!(rig, |unit| changes_none(unit.advance_refund(&foreign).await));
    assert_eq!(stored(rig, 1).await, Some(renewed));
    assert_eq!(stored(rig, 2).await, Some(refund(2, 2)), "other rows must be unchanged");
    assert_eq!(stored(rig, 3).await, None, "a missing row must not be inserted");
}

/// All refunds of an order are returned sorted by id, in any status; those of other orders and tenants are not.
pub async fn refunds_of_order_are_ordered_by_id(rig: &dyn MarketRig) {
    let of_first = |id, payment| Refund { of: order_id(1).into(), ..refund(id, payment) };
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

async fn due_at(rig: &dyn MarketRig, now: DateTime<Utc>, limit: u32) -> Vec<i64> {
    let due = view(rig).await.refunds_due(now, limit).await.expect("cannot read the due refunds");
    due.into_iter().map(RefundId::get).collect()
}

/// A refund is due if its next attempt time is at or before now, with microsecond precision.
pub async fn refund_is_due_at_its_next_attempt_time(rig: &dyn MarketRig) {
    let micro = TimeDelta::microseconds(1);
    let due = |id, at| Refund { next_attempt_time: Some(at), ..refund(id, id) };
    add(rig, &[due(1, start() - micro), due(2, start()), due(3, start() + micro)]).await;
    assert_eq!(due_at(rig, start(), 9).await, [1, 2]);
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
    add(rig, &[due(1, -10), due(2, -30), foreign, without_time]).await;
    assert_eq!(due_at(rig, start(), 9).await, [50, 2, 3, 1]);
    assert_eq!(due_at(rig, start(), 2).await, [50, 2]);
    let postponed = Refund { next_attempt_time: Some(later(9)), ..refund_moved_to(&due(2, -30), Processing) };
    in_unit!(rig, |unit| changes_one(unit.advance_refund(&postponed).await));
    assert_eq!(due_at(rig, start(), 9).await, [50, 3, 1]);
    assert_eq!(due_at(rig, later(9), 9).await, [50, 3, 1, 2]);
}

/// The refunds of all tenants are counted. The oldest one is not the one with the smallest id, and its creation counts, not the
/// time of its next request.
pub async fn open_refunds_are_counted_with_the_earliest_creation_in_processing(rig: &dyn MarketRig) {
    assert_eq!(view(rig).await.open_refunds().await.unwrap(), OpenRefunds::default());
    let created = |id, seconds, status| Refund { status, create_time: later(seconds), ..refund(id, id) };
    let without_attempt = Refund { next_attempt_time: None, ..created(3, 30, Processing) };
    let foreign = Refund { tenant: tenant(2), ..created(4, 10, Processing) };
    let settled = [created(5, -9, Success), created(6, -8, Failed), created(7, -7, Failed)];
    add(rig, &[created(2, 20, Processing), without_attempt, foreign.clone()]).await;
    add(rig, &settled).await;
    let open = OpenRefunds { processing: 3, failed: 2, oldest_processing: Some(later(10)) };
    assert_eq!(view(rig).await.open_refunds().await.unwrap(), open);
    settle(rig, &foreign, Success).await;
    let open = OpenRefunds { processing: 2, failed: 2, oldest_processing: Some(later(20)) };
    assert_eq!(view(rig).await.open_refunds().await.unwrap(), open);
}

/// The age of a retried refund counts from the first request of its attempt or, before that, from the retry.
pub async fn age_of_retried_refund_counts_from_first_request_of_its_attempt(rig: &dyn MarketRig) {
    let oldest =
        async || view(rig).await.open_refunds().await.expect("cannot count refunds").oldest_processing;
    let at = |version, seconds, attempt| SentRefundRequest {
        attempt,
        sent: later(seconds),
        ..sent_request(1, version)
    };
    let retried = Refund { attempt: 2, update_time: later(40), version: 5, ..refund(1, 1) };
    let recent = Refund { create_time: later(90), ..refund(2, 2) };
    add(rig, &[retried, recent]).await;
    in_unit!(rig, |unit| unit.insert_refund_request(&at(2, 10, 1)).await.unwrap());
    assert_eq!(oldest().await, Some(later(40)));
    in_unit!(rig, |unit| {
        for request in [at(6, 50, 2), at(7, 60, 2), SentRefundRequest { refund: refund_id(3), ..at(8, 5, 2) }]
        {
            unit.insert_refund_request(&request).await.unwrap();
        }
    });
    assert_eq!(oldest().await, Some(later(50)));
}

async fn failed_refunds(rig: &dyn MarketRig) -> u64 {
    view(rig).await.open_refunds().await.expect("cannot count refunds").failed
}

/// A failed refund is counted until another refund of its capture has returned the money or is returning it, also as an
/// excess. Excess refunds that failed are not counted. Refunds of another capture, order or invoice do not matter.
pub async fn failed_refund_is_counted_until_another_one_returns_its_money(rig: &dyn MarketRig) {
    let failed = |id, payment| Refund { status: Failed, next_attempt_time: None, ..refund(id, payment) };
    let of_invoice = |refund| Refund { of: invoice_id(1).into(), ..refund };
    add(rig, &[failed(1, 1), failed(2, 1), failed(3, 2), of_invoice(failed(4, 3))]).await;
    add(rig, &[Refund { tenant: tenant(2), ..failed(5, 4) }]).await;
    add(rig, &[Refund { is_excess: true, ..failed(6, 5) }]).await;
    assert_eq!(failed_refunds(rig).await, 5);
    add(rig, &[Refund { capture: 2, ..refund(11, 1) }, refund(12, 6), of_invoice(refund(13, 7))]).await;
    assert_eq!(failed_refunds(rig).await, 5, "other captures, orders and invoices");
    let again = refund(14, 1);
    add(rig, std::slice::from_ref(&again)).await;
    assert_eq!(failed_refunds(rig).await, 3);
    let again = settle(rig, &again, Failed).await;
    assert_eq!(failed_refunds(rig).await, 6);
    settle(rig, &Refund { status: Processing, ..again }, Success).await;
    assert_eq!(failed_refunds(rig).await, 3);
    in_unit!(rig, |unit| {
        unit.insert_capture(&Capture { refund_due: true, ..capture(2, 1) }).await.unwrap();
        let excess = Refund { is_excess: true, ..refund_moved_to(&refund(15, 2), Success) };
        unit.insert_refund(&excess).await.unwrap();
    });
    assert_eq!(failed_refunds(rig).await, 2);
    add(rig, &[of_invoice(refund_moved_to(&refund(16, 3), Success))]).await;
    assert_eq!(failed_refunds(rig).await, 1);
}

/// A failed refund of an order that was shipped since is counted only if the money pays no order: the row of the capture or,
/// for a payment of an earlier version, that of the payment is `refund_due`.
pub async fn failed_refund_of_shipped_order_is_counted_only_if_its_money_pays_nothing(rig: &dyn MarketRig) {
    for (id, status) in (1..).zip(OrderStatus::ALL) {
        let failed = Refund { status: Failed, next_attempt_time: None, ..refund(id, id) };
        in_unit!(rig, |unit| {
            let order = Order { status: *status, ..order_moved_to(&order(id), *status, later(1)) };
            unit.insert_order(&order).await.unwrap();
            unit.insert_payment(&payment(id, id)).await.unwrap();
            unit.insert_capture(&capture(id, 1)).await.unwrap();
            unit.insert_refund(&failed).await.unwrap();
        });
        let is_shipped = matches!(status, OrderStatus::Shipped | OrderStatus::Completed);
        let before = failed_refunds(rig).await;
        in_unit!(rig, |unit| {
            let due = Capture { refund_due: true, ..capture(id, 1) };
            changes_one(unit.update_capture(&due).await);
        });
        assert_eq!(
            failed_refunds(rig).await - before,
            u64::from(is_shipped),
            "capture of an order that is {status}"
        );
        in_unit!(rig, |unit| changes_one(unit.update_capture(&capture(id, 1)).await));
        assert_eq!(failed_refunds(rig).await, before);
        let late = Payment { refund_due: true, version: 2, ..payment(id, id) };
        in_unit!(rig, |unit| changes_one(unit.advance_payment(&late).await));
        assert_eq!(
            failed_refunds(rig).await - before,
            u64::from(is_shipped),
            "payment of an order that is {status}"
        );
    }
    assert_eq!(failed_refunds(rig).await, OrderStatus::ALL.len() as u64);
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
