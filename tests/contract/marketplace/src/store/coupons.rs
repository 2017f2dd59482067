//! Rules for coupons.

use chrono::{DateTime, TimeDelta, Utc};
use handover_contract::concurrency::{one_changed, race};
use handover_contract::samples::{later, start, tenant};
use handover_contract::work::{changes_none, changes_one, is_conflict};
use handover_events::{MAX_ID, TenantId};
use marketplace::ports::ExpiredCoupon;
use marketplace_domain::{Coupon, CouponStatus, Money};

use super::{MarketRig, begin, in_unit, view};
use crate::samples::{coupon, coupon_id, coupon_moved_to, money, order_id, user};

async fn add(rig: &dyn MarketRig, coupons: &[Coupon]) {
    in_unit!(rig, |unit| {
        for coupon in coupons {
            unit.insert_coupon(coupon).await.expect("cannot insert a coupon");
        }
    });
}

async fn stored(rig: &dyn MarketRig, id: i64) -> Option<Coupon> {
    view(rig).await.coupon_by_id(TenantId::DEFAULT, coupon_id(id)).await.expect("cannot read a coupon")
}

fn numbers(coupons: Vec<Coupon>) -> Vec<i64> {
    coupons.into_iter().map(|coupon| coupon.id.get()).collect()
}

async fn expired_ids(rig: &dyn MarketRig, now: DateTime<Utc>, limit: u32) -> Vec<i64> {
    let expired = view(rig).await.coupons_expired(now, None, limit).await.expect("cannot read coupons");
    expired.into_iter().map(|coupon| coupon.id.get()).collect()
}

fn key(coupon: &Coupon) -> ExpiredCoupon {
    ExpiredCoupon { tenant: coupon.tenant, id: coupon.id, expires_at: coupon.expires_at }
}

/// A coupon is read as it was written, in every status and with the greatest and smallest values.
pub async fn coupon_is_read_as_written(rig: &dyn MarketRig) {
    let micro = TimeDelta::microseconds(1);
    let mut written: Vec<Coupon> =
        CouponStatus::ALL.iter().map(|status| coupon_moved_to(&coupon(1), *status)).collect();
    written.push(Coupon { discount: money(MAX_ID), min_spend: money(MAX_ID), ..coupon(1) });
    written.push(Coupon { discount: Money::ZERO, min_spend: Money::ZERO, ..coupon(1) });
    written.push(Coupon { user: user(MAX_ID), order: Some(order_id(MAX_ID)), version: 70_000, ..coupon(1) });
    written.push(Coupon { expires_at: later(-5) - micro, ..coupon(1) });
    written.push(Coupon { create_time: later(1) + micro, update_time: later(2) + micro, ..coupon(1) });
    for (n, mut coupon) in written.into_iter().enumerate() {
        coupon.id = coupon_id(n as i64 + 1);
        add(rig, std::slice::from_ref(&coupon)).await;
        assert_eq!(stored(rig, n as i64 + 1).await, Some(coupon));
    }
    add(rig, &[coupon(MAX_ID)]).await;
    assert_eq!(stored(rig, MAX_ID).await, Some(coupon(MAX_ID)));
    assert_eq!(stored(rig, 999).await, None);
}

/// A duplicate id is a conflict, even in another tenant.
pub async fn duplicate_coupon_id_is_conflict(rig: &dyn MarketRig) {
    add(rig, &[coupon(1)]).await;
    is_conflict(begin(rig).await.insert_coupon(&Coupon { user: user(11), ..coupon(1) }).await);
    is_conflict(begin(rig).await.insert_coupon(&Coupon { tenant: tenant(2), ..coupon(1) }).await);
    assert_eq!(stored(rig, 1).await, Some(coupon(1)));
}

/// A coupon is replaced only if its stored version is one less than the new version, even when it returns to an earlier
/// status.
pub async fn coupon_advances_only_from_previous_version(rig: &dyn MarketRig) {
    let mut now = coupon(1);
    add(rig, &[now.clone(), coupon(2)]).await;
    for status in [CouponStatus::Locked, CouponStatus::Available, CouponStatus::Locked, CouponStatus::Used] {
        let after = coupon_moved_to(&now, status);
        in_unit!(rig, |unit| changes_one(unit.advance_coupon(&after).await));
        in_unit!(rig, |unit| changes_none(unit.advance_coupon(&after).await));
        assert_eq!(stored(rig, 1).await.as_ref(), Some(&after));
        now = after;
    }
    for version in [1, 2, 4, 5, 7] {
        in_unit!(rig, |unit| changes_none(unit.advance_coupon(&Coupon { version, ..coupon(1) }).await));
    }
    in_unit!(rig, |unit| changes_none(unit.advance_coupon(&Coupon { version: 2, ..coupon(3) }).await));
    assert_eq!(stored(rig, 1).await, Some(now));
    assert_eq!(stored(rig, 2).await, Some(coupon(2)), "other rows must be unchanged");
    assert_eq!(stored(rig, 3).await, None, "a missing row must not be inserted");
}

/// A coupon cannot be read or changed in another tenant.
pub async fn coupon_is_isolated_by_tenant(rig: &dyn MarketRig) {
    add(rig, &[coupon(1), Coupon { tenant: tenant(2), ..coupon(2) }]).await;
    let mut view = view(rig).await;
    assert_eq!(view.coupon_by_id(tenant(2), coupon_id(1)).await.unwrap(), None);
    assert_eq!(numbers(view.coupons_page(tenant(1), user(10), None, 9).await.unwrap()), [1]);
    assert_eq!(numbers(view.coupons_page(tenant(2), user(10), None, 9).await.unwrap()), [2]);
    let foreign = Coupon { tenant: tenant(2), ..coupon_moved_to(&coupon(1), CouponStatus::Locked) };
    in_unit!(rig, |unit| changes_none(unit.advance_coupon(&foreign).await));
    assert_eq!(stored(rig, 1).await, Some(coupon(1)));
}

/// A page contains the coupons of one user in every status, greatest id first.
pub async fn coupon_pages_are_ordered_by_descending_id(rig: &dyn MarketRig) {
    let used = coupon_moved_to(&coupon(3), CouponStatus::Used);
    add(rig, &[used.clone(), coupon(10), coupon(2), Coupon { user: user(11), ..coupon(8) }]).await;
    let mut view = view(rig).await;
    let mut page = async |who: i64, before: Option<i64>, limit| {
        let before = before.map(coupon_id);
        view.coupons_page(TenantId::DEFAULT, user(who), before, limit).await.unwrap()
    };
    assert_eq!(page(10, None, 2).await, [coupon(10), used]);
    assert_eq!(numbers(page(10, Some(3), 2).await), [2]);
    assert_eq!(numbers(page(10, Some(11), 1).await), [10]);
    assert_eq!(page(10, Some(2), 2).await, []);
    assert_eq!(numbers(page(11, None, 9).await), [8]);
    assert_eq!(page(12, None, 9).await, []);
}

/// A coupon is expired if its expiry time is at or before now, with microsecond precision.
pub async fn coupon_is_expired_at_its_expiry_time(rig: &dyn MarketRig) {
    let micro = TimeDelta::microseconds(1);
    add(
        rig,
        &[
            Coupon { expires_at: start() - micro, ..coupon(1) },
            Coupon { expires_at: start(), ..coupon(2) },
            Coupon { expires_at: start() + micro, ..coupon(3) },
        ],
    )
    .await;
    assert_eq!(expired_ids(rig, start(), 10).await, [1, 2]);
}

/// Only available coupons are returned as expired: those of every tenant, earliest expiry first, up to the limit.
pub async fn expired_coupons_are_available_and_ordered_earliest_first(rig: &dyn MarketRig) {
    for (n, status) in CouponStatus::ALL.iter().enumerate() {
        let moved = coupon_moved_to(&coupon(n as i64 + 50), *status);
        add(rig, &[Coupon { expires_at: later(-500), ..moved }]).await;
    }
    let earlier = Coupon { expires_at: later(-30), ..coupon(2) };
    let foreign = Coupon { expires_at: later(-20), tenant: tenant(2), ..coupon(3) };
    add(rig, &[Coupon { expires_at: later(-10), ..coupon(1) }, earlier.clone(), foreign.clone()]).await;
    let seen = view(rig).await.coupons_expired(start(), None, 10).await.unwrap();
    assert_eq!(seen[1..3], [key(&earlier), key(&foreign)]);
    assert_eq!(expired_ids(rig, start(), 10).await, [50, 2, 3, 1]);
    assert_eq!(expired_ids(rig, start(), 2).await, [50, 2]);
    let expired = coupon_moved_to(&earlier, CouponStatus::Expired);
    in_unit!(rig, |unit| changes_one(unit.advance_coupon(&expired).await));
    assert_eq!(expired_ids(rig, start(), 10).await, [50, 3, 1]);
}

/// A page begins after the position of the last coupon of the page before, also between coupons of one expiry time.
pub async fn expired_coupon_pages_continue_after_the_last_coupon(rig: &dyn MarketRig) {
    let at = |id, seconds| Coupon { expires_at: later(seconds), ..coupon(id) };
    let all = [at(9, -30), at(2, -20), at(3, -20), Coupon { tenant: tenant(2), ..at(4, -20) }, at(1, -10)];
    add(rig, &all).await;
    for limit in 1..=4 {
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = view(rig).await.coupons_expired(start(), after, limit).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.position());
            seen.extend(page);
            assert!(seen.len() <= all.len(), "a page repeats coupons: {seen:?}");
        }
        assert_eq!(seen, all.each_ref().map(key), "coupons in pages of {limit}");
    }
}

/// If several units of work lock one coupon for different orders concurrently, exactly one succeeds.
pub async fn concurrent_coupon_changes_succeed_exactly_once(rig: &dyn MarketRig) {
    in_unit!(rig, |unit| unit.insert_coupon(&coupon(1)).await.unwrap());
    let outcomes = race(&rig.market(), |unit, n| {
        Box::pin(async move {
            let order = Some(order_id(n as i64 + 1));
            let locked = Coupon { order, ..coupon_moved_to(&coupon(1), CouponStatus::Locked) };
            unit.advance_coupon(&locked).await
        })
    })
    .await;
    let winner = one_changed(outcomes);
    let seen = stored(rig, 1).await.unwrap();
    assert_eq!((seen.version, seen.order), (2, Some(order_id(winner as i64 + 1))));
}
