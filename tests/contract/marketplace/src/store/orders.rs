//! Rules for orders.

use chrono::{DateTime, TimeDelta, Utc};
use handover_contract::samples::{SPECIAL_CHARACTERS, later, start, tenant};
use handover_contract::work::{changes_none, changes_one, is_conflict};
use handover_events::{MAX_ID, TenantId};
use handover_outbox::ports::Changed;
use marketplace::ports::{DueOrder, OrderSide};
use marketplace_domain::{CancelReason, CouponUse, Money, Order, OrderAssets, OrderStatus, Points, Shipment};

use super::{MarketRig, begin, in_unit, view};
use crate::samples::{coupon_id, money, order, order_id, order_moved_to, product_id, refund_id, user};

async fn add(rig: &dyn MarketRig, orders: &[Order]) {
    in_unit!(rig, |unit| {
        for order in orders {
            unit.insert_order(order).await.expect("cannot insert an order");
        }
    });
}

async fn stored(rig: &dyn MarketRig, id: i64) -> Option<Order> {
    view(rig).await.order_by_id(TenantId::DEFAULT, order_id(id)).await.expect("cannot read an order")
}

fn numbers(orders: Vec<Order>) -> Vec<i64> {
    orders.into_iter().map(|order| order.id.get()).collect()
}

/// The key of an order, with the time of its last change.
fn changed(order: &Order) -> DueOrder {
    DueOrder { tenant: order.tenant, id: order.id, time: order.update_time }
}

fn due(of: i64, id: i64, time: DateTime<Utc>) -> DueOrder {
    DueOrder { tenant: tenant(of), id: order_id(id), time }
}

/// An order is read as it was written, in every status and with and without optional values.
pub async fn order_is_read_as_written(rig: &dyn MarketRig) {
    let mut written: Vec<Order> =
        OrderStatus::ALL.iter().map(|status| order_moved_to(&order(1), *status, later(5))).collect();
    written.extend(CancelReason::ALL.iter().map(|reason| Order { cancel_reason: Some(*reason), ..order(1) }));
    written
        .push(Order {
            shipment: Shipment::new("运".repeat(64), SPECIAL_CHARACTERS.into()).ok(), ..order(1)
        });
    written.push(Order { total: Money::from_minor(MAX_ID).unwrap(), payable: Money::ZERO, ..order(1) });
    written.push(Order { buyer: user(MAX_ID), seller: user(1), product: product_id(MAX_ID), ..order(1) });
    let coupon = Some(CouponUse { id: coupon_id(MAX_ID), discount: money(MAX_ID) });
    let zero_discount = Some(CouponUse { id: coupon_id(1), discount: Money::ZERO });
    let points = |number: i64| Points::try_from(number).unwrap();
    for assets in [
        OrderAssets { coupon, wallet: money(MAX_ID), points: points(MAX_ID) },
        OrderAssets { coupon: zero_discount, ..OrderAssets::NONE },
        OrderAssets { wallet: money(1), ..OrderAssets::NONE },
        OrderAssets { points: points(1), ..OrderAssets::NONE },
    ] {
        written.push(Order { assets, ..order(1) });
    }
    written.push(Order { refund: Some(refund_id(MAX_ID)), payable: money(1), ..order(1) });
    for (n, mut order) in written.into_iter().enumerate() {
        order.id = order_id(n as i64 + 1);
        add(rig, std::slice::from_ref(&order)).await;
        assert_eq!(stored(rig, n as i64 + 1).await, Some(order));
    }
    add(rig, &[order(MAX_ID)]).await;
    assert_eq!(stored(rig, MAX_ID).await, Some(order(MAX_ID)));
    assert_eq!(stored(rig, 999).await, None);
}

/// A duplicate id is a conflict, even in another tenant.
pub async fn duplicate_order_id_is_conflict(rig: &dyn MarketRig) {
    add(rig, &[order(1)]).await;
    is_conflict(begin(rig).await.insert_order(&Order { buyer: user(11), ..order(1) }).await);
    is_conflict(begin(rig).await.insert_order(&Order { tenant: tenant(2), ..order(1) }).await);
    assert_eq!(stored(rig, 1).await, Some(order(1)));
}

/// An order is replaced only if its stored version is one less than the new version, for every transition.
pub async fn order_advances_only_from_previous_version(rig: &dyn MarketRig) {
    let mut now = order(1);
    add(rig, &[now.clone(), order(2)]).await;
    for status in [OrderStatus::Paid, OrderStatus::Shipped, OrderStatus::Completed] {
        let after = order_moved_to(&now, status, later(now.version));
        in_unit!(rig, |unit| changes_one(unit.advance_order(&after).await));
        in_unit!(rig, |unit| changes_none(unit.advance_order(&after).await));
        assert_eq!(stored(rig, 1).await.as_ref(), Some(&after));
        now = after;
    }
    for version in [1, 2, 3, 4, 6] {
        in_unit!(rig, |unit| changes_none(unit.advance_order(&Order { version, ..order(1) }).await));
    }
    in_unit!(rig, |unit| changes_none(unit.advance_order(&Order { version: 2, ..order(3) }).await));
    assert_eq!(stored(rig, 1).await, Some(now));
    assert_eq!(stored(rig, 2).await, Some(order(2)), "other rows must be unchanged");
    assert_eq!(stored(rig, 3).await, None, "a missing row must not be inserted");
}

/// An order cannot be read or changed in another tenant.
pub async fn order_is_isolated_by_tenant(rig: &dyn MarketRig) {
    add(rig, &[order(1), Order { tenant: tenant(2), ..order(2) }]).await;
    let mut view = view(rig).await;
    assert_eq!(view.order_by_id(tenant(2), order_id(1)).await.unwrap(), None);
    assert_eq!(view.order_of_party(tenant(2), order_id(1), user(10)).await.unwrap(), None);
    for side in [OrderSide::Buyer, OrderSide::Seller] {
        let who = if side == OrderSide::Buyer { user(10) } else { user(20) };
        assert_eq!(numbers(view.orders_page(tenant(1), who, side, None, None, 10).await.unwrap()), [1]);
        assert_eq!(numbers(view.orders_page(tenant(2), who, side, None, None, 10).await.unwrap()), [2]);
    }
    let foreign = Order { tenant: tenant(2), ..order_moved_to(&order(1), OrderStatus::Paid, later(1)) };
    in_unit!(rig, |unit| changes_none(unit.advance_order(&foreign).await));
    assert_eq!(stored(rig, 1).await, Some(order(1)));
}

/// An order is visible only to its buyer and its seller.
pub async fn order_is_visible_only_to_its_parties(rig: &dyn MarketRig) {
    add(rig, &[order(1), Order { buyer: user(30), seller: user(40), ..order(2) }]).await;
    let mut view = view(rig).await;
    for (id, who, is_visible) in [
        (1, 10, true),
        (1, 20, true),
        (1, 30, false),
        (1, 40, false),
        (2, 30, true),
        (2, 10, false),
        (3, 10, false),
    ] {
        let seen = view.order_of_party(TenantId::DEFAULT, order_id(id), user(who)).await.unwrap();
        assert_eq!(seen.is_some(), is_visible, "order {id} for user {who}");
        assert!(seen.is_none_or(|order| order.id.get() == id));
    }
}

/// A page contains the orders of one buyer, or of one seller, greatest id first.
pub async fn order_pages_filter_by_buyer_or_seller(rig: &dyn MarketRig) {
    let swapped = |id| Order { buyer: user(20), seller: user(10), ..order(id) };
    add(rig, &[order(3), swapped(1), order(10), order(2), swapped(7), Order { buyer: user(11), ..order(8) }])
        .await;
    let mut view = view(rig).await;
    let mut page = async |who: i64, side, before: Option<i64>, limit| {
        let before = before.map(order_id);
        numbers(view.orders_page(TenantId::DEFAULT, user(who), side, None, before, limit).await.unwrap())
    };
    assert_eq!(page(10, OrderSide::Buyer, None, 2).await, [10, 3]);
    assert_eq!(page(10, OrderSide::Buyer, Some(3), 2).await, [2]);
    assert_eq!(page(10, OrderSide::Buyer, Some(2), 2).await, [0; 0]);
    assert_eq!(page(10, OrderSide::Seller, None, 9).await, [7, 1]);
    assert_eq!(page(20, OrderSide::Seller, None, 9).await, [10, 8, 3, 2]);
    assert_eq!(page(30, OrderSide::Buyer, None, 9).await, [0; 0]);
}

/// A page filtered by status contains only that status, up to the limit.
pub async fn order_pages_filter_by_status(rig: &dyn MarketRig) {
    let mut all = Vec::new();
    for n in 0..18_usize {
        let status = OrderStatus::ALL[n % OrderStatus::ALL.len()];
        all.push(Order { id: order_id(n as i64 + 1), ..order_moved_to(&order(1), status, later(1)) });
    }
    add(rig, &all).await;
    let mut view = view(rig).await;
    for status in OrderStatus::ALL {
        let page = view
            .orders_page(TenantId::DEFAULT, user(10), OrderSide::Buyer, Some(*status), None, 2)
            .await
            .unwrap();
        assert_eq!(page.len(), 2);
        assert!(page.iter().all(|order| order.status == *status));
    }
}

/// An order is overdue if it was created at or before the deadline, with microsecond precision.
pub async fn order_created_at_deadline_is_overdue(rig: &dyn MarketRig) {
    let micro = TimeDelta::microseconds(1);
    add(
        rig,
        &[
            Order { create_time: start() - micro, ..order(1) },
            Order { create_time: start(), ..order(2) },
            Order { create_time: start() + micro, ..order(3) },
        ],
    )
    .await;
    let overdue = view(rig).await.orders_overdue(start(), None, 10).await.unwrap();
    assert_eq!(overdue, [due(1, 1, start() - micro), due(1, 2, start())]);
}

/// Only pending orders are returned as overdue: those of every tenant, oldest first, up to the limit.
pub async fn overdue_orders_are_pending_and_ordered_oldest_first(rig: &dyn MarketRig) {
    for (n, status) in OrderStatus::ALL.iter().enumerate() {
        let moved = order_moved_to(&order(1), *status, later(1));
        add(rig, &[Order { id: order_id(n as i64 + 50), create_time: later(-500), ..moved }]).await;
    }
    add(
        rig,
        &[
            Order { create_time: later(-10), ..order(1) },
            Order { create_time: later(-30), ..order(2) },
            Order { create_time: later(-20), tenant: tenant(2), ..order(3) },
        ],
    )
    .await;
    let overdue = view(rig).await.orders_overdue(start(), None, 10).await.unwrap();
    let expected = [(1, 50, -500), (1, 2, -30), (2, 3, -20), (1, 1, -10)];
    let expected = expected.map(|(of, id, seconds)| due(of, id, later(seconds)));
    assert_eq!(overdue, expected);
    assert_eq!(view(rig).await.orders_overdue(start(), None, 2).await.unwrap(), expected[..2]);
}

/// A page of overdue orders starts directly after the last order of the previous page, even if that order is no longer
/// pending.
pub async fn overdue_order_pages_continue_after_the_last_order(rig: &dyn MarketRig) {
    let pending = |id, seconds| Order { create_time: later(seconds), ..order(id) };
    let foreign = Order { tenant: tenant(2), ..pending(3, -20) };
    add(rig, &[pending(4, -20), foreign, pending(1, -10), pending(2, -30), pending(7, -20), pending(5, 10)])
        .await;
    let page = async |after: Option<DueOrder>, limit| {
        let after = after.map(|order| order.position());
        view(rig).await.orders_overdue(start(), after, limit).await.unwrap()
    };
    let all = [(1, 2, -30), (2, 3, -20), (1, 4, -20), (1, 7, -20), (1, 1, -10)];
    let all = all.map(|(of, id, seconds)| due(of, id, later(seconds)));
    assert_eq!(page(None, 2).await, all[..2]);
    assert_eq!(page(Some(all[1]), 2).await, all[2..4]);
    assert_eq!(page(Some(all[3]), 2).await, all[4..]);
    assert_eq!(page(Some(all[4]), 2).await, []);
    let paid = order_moved_to(&pending(4, -20), OrderStatus::Paid, later(0));
    in_unit!(rig, |unit| changes_one(unit.advance_order(&paid).await));
    assert_eq!(page(Some(all[2]), 9).await, all[3..]);
}

/// An order is to be completed if it was shipped at or before the limit, with microsecond precision.
pub async fn order_shipped_at_limit_is_to_be_completed(rig: &dyn MarketRig) {
    let micro = TimeDelta::microseconds(1);
    let shipped = |id, at| order_moved_to(&order(id), OrderStatus::Shipped, at);
    add(rig, &[shipped(1, later(60) - micro), shipped(2, later(60)), shipped(3, later(60) + micro)]).await;
    let found = view(rig).await.orders_shipped(later(60), None, 10).await.unwrap();
    assert_eq!(found, [due(1, 1, later(60) - micro), due(1, 2, later(60))]);
}

/// Only shipped orders are to be completed: those of every tenant, in pages by the time of shipment and the id. An order
/// that is completed is not in the next page.
pub async fn shipped_orders_are_paged_oldest_first(rig: &dyn MarketRig) {
    for (n, status) in OrderStatus::ALL.iter().enumerate() {
        add(rig, &[order_moved_to(&order(n as i64 + 50), *status, later(-500))]).await;
    }
    let shipped = |id, at| order_moved_to(&order(id), OrderStatus::Shipped, later(at));
    let foreign = Order { tenant: tenant(2), ..shipped(3, -20) };
    add(rig, &[shipped(4, -20), foreign, shipped(1, -10), shipped(2, -30), shipped(5, 10)]).await;
    let page = async |after: Option<DueOrder>, limit| {
        let after = after.map(|order| order.position());
        view(rig).await.orders_shipped(start(), after, limit).await.unwrap()
    };
    let all = [(1, 52, -500), (1, 2, -30), (2, 3, -20), (1, 4, -20), (1, 1, -10)];
    let all = all.map(|(of, id, seconds)| due(of, id, later(seconds)));
    assert_eq!(page(None, 9).await, all);
    assert_eq!(page(None, 2).await, all[..2]);
    assert_eq!(page(Some(all[1]), 2).await, all[2..4]);
    assert_eq!(page(Some(all[2]), 9).await, all[3..]);
    let completed = order_moved_to(&shipped(4, -20), OrderStatus::Completed, later(0));
    in_unit!(rig, |unit| assert_eq!(unit.advance_order(&completed).await.unwrap(), Changed::One));
    assert_eq!(page(Some(all[2]), 9).await, all[4..]);
    assert_eq!(page(Some(all[4]), 9).await, []);
}

/// Orders are found by their ids, each once, in one tenant or in any; missing ids are omitted.
pub async fn orders_are_found_by_ids_in_tenant(rig: &dyn MarketRig) {
    let foreign = Order { tenant: tenant(2), ..order(3) };
    let shipped = order_moved_to(&order(2), OrderStatus::Shipped, later(1));
    add(rig, &[order(1), shipped.clone(), foreign.clone(), order(4)]).await;
    let mut view = view(rig).await;
    let mut find = async |of: Option<i64>, ids: &[i64]| {
        let ids: Vec<_> = ids.iter().map(|id| order_id(*id)).collect();
        let mut found = view.orders_by_id(of.map(tenant), &ids).await.unwrap();
        found.sort_by_key(|order| order.id);
        found
    };
    assert_eq!(find(Some(1), &[3, 2, 9, 1, 2]).await, [order(1), shipped.clone()]);
    assert_eq!(find(Some(2), &[1, 2, 3, 4]).await, std::slice::from_ref(&foreign));
    assert_eq!(find(None, &[3, 2, 9]).await, [shipped, foreign]);
    assert_eq!(find(None, &[]).await, []);
}

pub async fn many_orders_are_found_by_ids(rig: &dyn MarketRig) {
    let all: Vec<Order> = (1..=700).map(order).collect();
    add(rig, &all).await;
    let ids: Vec<_> = all.iter().map(|order| order.id).collect();
    let mut found = view(rig).await.orders_by_id(Some(TenantId::DEFAULT), &ids).await.unwrap();
    found.sort_by_key(|order| order.id);
    assert_eq!(found, all);
}

/// The time range of changed orders includes its start and excludes its end, with microsecond precision.
pub async fn changed_orders_include_range_start_and_exclude_end(rig: &dyn MarketRig) {
    let micro = TimeDelta::microseconds(1);
    let at = |id, update_time| Order { update_time, ..order(id) };
    let since = start();
    let until = later(1);
    add(rig, &[at(1, since - micro), at(2, since), at(3, until - micro), at(4, until), at(5, until + micro)])
        .await;
    let mut view = view(rig).await;
    for tenant in [None, Some(TenantId::DEFAULT)] {
        let mut changed = async |since, until| {
            let found = view.orders_changed(tenant, since, until, None, 9).await.unwrap();
            found.iter().map(|order| order.id.get()).collect::<Vec<_>>()
        };
        assert_eq!(changed(since, until).await, [2, 3]);
        assert_eq!(changed(since, since).await, [0; 0]);
        assert_eq!(changed(until, since).await, [0; 0]);
    }
}

/// Changed orders of one tenant or of all tenants are returned sorted by the time of the last change and by id; a page
/// starts after the last order of the previous page.
pub async fn changed_orders_are_paged_by_time_and_id(rig: &dyn MarketRig) {
    let at = |id, seconds| Order { update_time: later(seconds), ..order(id) };
    let foreign = Order { tenant: tenant(2), ..at(8, 2) };
    let all = [at(9, 1), at(4, 2), at(5, 2), foreign.clone(), at(10, 2), at(1, 3)];
    let mut added = all.to_vec();
    added.reverse();
    added.swap(0, 2);
    add(rig, &added).await;
    let all = all.each_ref().map(changed);
    let ours: Vec<DueOrder> = all.iter().filter(|order| order.tenant == tenant(1)).copied().collect();
    let foreign = changed(&foreign);
    for (of, expected) in [(None, &all[..]), (Some(1), &ours[..]), (Some(2), &[foreign]), (Some(3), &[])] {
        for limit in 1..=3 {
            let mut seen: Vec<DueOrder> = Vec::new();
            loop {
                let after = seen.last().map(DueOrder::position);
                let mut view = view(rig).await;
                let page =
                    view.orders_changed(of.map(tenant), start(), later(9), after, limit).await.unwrap();
                if page.is_empty() {
                    break;
                }
                assert!(page.len() <= limit as usize);
                seen.extend(page);
                assert!(seen.len() <= expected.len(), "a page repeats orders");
            }
            assert_eq!(seen, expected, "orders in pages of {limit}");
        }
    }
    let mut view = view(rig).await;
    let before_all = Some((later(-9), order_id(99)));
    assert_eq!(view.orders_changed(None, later(2), later(3), before_all, 9).await.unwrap(), all[1..5]);
    let absent = Some((later(2), order_id(6)));
    assert_eq!(view.orders_changed(None, start(), later(9), absent, 9).await.unwrap(), all[3..]);
}

/// The query for changed orders finds an order only at the time of its last change.
pub async fn order_is_found_only_at_the_time_of_its_last_change(rig: &dyn MarketRig) {
    add(rig, &[order(1)]).await;
    let paid = order_moved_to(&order(1), OrderStatus::Paid, later(5));
    in_unit!(rig, |unit| {
        changes_one(unit.advance_order(&paid).await);
        let seen = unit.orders_changed(None, start(), later(9), None, 9).await.unwrap();
        assert_eq!(seen, [changed(&paid)]);
    });
    let mut view = view(rig).await;
    assert_eq!(view.orders_changed(None, start(), later(5), None, 9).await.unwrap(), []);
    assert_eq!(view.orders_changed(None, later(5), later(9), None, 9).await.unwrap(), [changed(&paid)]);
}
