//! Rules for holds of assets for orders.

use chrono::TimeDelta;
use handover_contract::concurrency::{RACERS, one_succeeded, race};
use handover_contract::samples::{later, start, tenant};
use handover_contract::work::is_conflict;
use handover_events::{MAX_ID, TenantId};
use marketplace::ports::FrozenHold;
use marketplace_domain::{Asset, Hold, HoldStatus};

use super::{MarketRig, begin, in_unit, view};
use crate::samples::{coupon_id, hold, hold_moved_to, order_id, user};

use Asset::{Coupon, Points, Wallet};

async fn put(rig: &dyn MarketRig, holds: &[Hold]) {
    in_unit!(rig, |unit| unit.put_holds(holds).await.expect("cannot write holds"));
}

async fn of(rig: &dyn MarketRig, order: i64) -> Vec<Hold> {
    view(rig).await.holds_of(TenantId::DEFAULT, &[order_id(order)]).await.expect("cannot read holds")
}

fn key(hold: Hold) -> FrozenHold {
    FrozenHold { tenant: hold.tenant, order: hold.order, asset: hold.asset, create_time: hold.create_time }
}

/// A hold is read as it was written, in every status and of every asset.
pub async fn hold_is_read_as_written(rig: &dyn MarketRig) {
    let micro = TimeDelta::microseconds(1);
    let status = |status| Hold { status, ..hold(1, Wallet) };
    let mut written: Vec<Hold> = HoldStatus::ALL.iter().copied().map(status).collect();
    written.extend(Asset::HELD.iter().map(|asset| hold(1, *asset)));
    written.push(Hold { status: HoldStatus::Committed, reverted: true, ..hold(1, Points) });
    written.push(Hold { amount: MAX_ID, user: user(MAX_ID), ..hold(1, Points) });
    written.push(Hold { amount: 0, coupon: None, ..hold(1, Coupon) });
    written.push(Hold { coupon: Some(coupon_id(MAX_ID)), ..hold(1, Coupon) });
    written.push(Hold { create_time: later(1) + micro, update_time: later(2) - micro, ..hold(1, Wallet) });
    for (n, mut hold) in written.into_iter().enumerate() {
        hold.order = order_id(n as i64 + 1);
        put(rig, std::slice::from_ref(&hold)).await;
        assert_eq!(of(rig, n as i64 + 1).await, [hold]);
    }
    put(rig, &[hold(MAX_ID, Wallet)]).await;
    assert_eq!(of(rig, MAX_ID).await, [hold(MAX_ID, Wallet)]);
}

/// The holds of an order are returned sorted by asset (coupon, wallet, points), at most one per asset.
pub async fn holds_of_order_are_ordered_by_asset(rig: &dyn MarketRig) {
    put(rig, &[hold(1, Points), hold(2, Coupon), hold(1, Coupon), hold(1, Wallet)]).await;
    assert_eq!(of(rig, 1).await, [hold(1, Coupon), hold(1, Wallet), hold(1, Points)]);
    assert_eq!(of(rig, 2).await, [hold(2, Coupon)]);
    assert_eq!(of(rig, 3).await, []);
}

/// A hold of version 1 is inserted; if the hold already exists, that is a conflict.
pub async fn existing_hold_is_conflict(rig: &dyn MarketRig) {
    put(rig, &[hold(1, Wallet)]).await;
    let other = Hold { amount: 7, ..hold(1, Wallet) };
    is_conflict(begin(rig).await.put_holds(&[hold(2, Wallet), other]).await);
    is_conflict(begin(rig).await.put_holds(&[hold(3, Wallet), hold(3, Wallet)]).await);
    put(rig, &[hold_moved_to(&hold(1, Wallet), HoldStatus::Released)]).await;
    is_conflict(begin(rig).await.put_holds(&[hold(1, Wallet)]).await);
    assert_eq!(of(rig, 1).await, [hold_moved_to(&hold(1, Wallet), HoldStatus::Released)]);
    assert_eq!(of(rig, 2).await, []);
}

/// A hold with a version above 1 replaces only the hold with the previous version; otherwise that is a conflict.
pub async fn hold_with_unexpected_version_is_conflict(rig: &dyn MarketRig) {
    let committed = hold_moved_to(&hold(1, Wallet), HoldStatus::Committed);
    let reverted = Hold { reverted: true, ..hold_moved_to(&committed, HoldStatus::Committed) };
    put(rig, &[hold(1, Wallet), hold(2, Wallet)]).await;
    is_conflict(begin(rig).await.put_holds(std::slice::from_ref(&reverted)).await);
    put(rig, std::slice::from_ref(&committed)).await;
    assert_eq!(of(rig, 1).await, std::slice::from_ref(&committed));
    is_conflict(begin(rig).await.put_holds(std::slice::from_ref(&committed)).await);
    put(rig, std::slice::from_ref(&reverted)).await;
    for version in [2, 3, 5] {
        let moved = Hold { version, ..reverted.clone() };
        is_conflict(begin(rig).await.put_holds(&[hold(5, Coupon), moved]).await);
    }
    let missing = hold_moved_to(&hold(3, Wallet), HoldStatus::Released);
    is_conflict(begin(rig).await.put_holds(&[missing]).await);
    assert_eq!(of(rig, 1).await, [reverted]);
    assert_eq!(of(rig, 2).await, [hold(2, Wallet)], "other rows must be unchanged");
    assert_eq!(of(rig, 3).await, [], "a missing row must not be inserted");
}

pub async fn batch_may_insert_and_replace_holds(rig: &dyn MarketRig) {
    put(rig, &[hold(1, Wallet), hold(1, Points)]).await;
    let released = hold_moved_to(&hold(1, Points), HoldStatus::Released);
    put(rig, &[hold(2, Wallet), released.clone(), hold(1, Coupon)]).await;
    put(rig, &[]).await;
    assert_eq!(of(rig, 1).await, [hold(1, Coupon), hold(1, Wallet), released]);
    assert_eq!(of(rig, 2).await, [hold(2, Wallet)]);
}

/// A large batch is inserted, locked and replaced completely.
pub async fn large_batch_of_holds_is_written_completely(rig: &dyn MarketRig) {
    let all: Vec<Hold> = (1..=700).map(|n| hold(n, Wallet)).collect();
    put(rig, &all).await;
    let moved: Vec<Hold> = all.iter().map(|hold| hold_moved_to(hold, HoldStatus::Committed)).collect();
    in_unit!(rig, |unit| {
        let keys: Vec<_> = all.iter().map(|hold| (hold.tenant, hold.order)).collect();
        let mut locked = unit.lock_holds(Wallet, &keys).await.unwrap();
        locked.sort_by_key(|hold| hold.order);
        assert_eq!(locked, all);
        unit.put_holds(&moved).await.unwrap();
    });
    for moved in [&moved[0], &moved[349], &moved[698], &moved[699]] {
        assert_eq!(of(rig, moved.order.get()).await, std::slice::from_ref(moved));
    }
}

/// Holds are visible in their tenant only, even with equal order and user ids.
pub async fn holds_are_isolated_by_tenant(rig: &dyn MarketRig) {
    let foreign = Hold { tenant: tenant(2), amount: 7, ..hold(1, Wallet) };
    put(rig, &[hold(1, Wallet), foreign.clone()]).await;
    let released = hold_moved_to(&hold(1, Wallet), HoldStatus::Released);
    put(rig, std::slice::from_ref(&released)).await;
    let mut view = view(rig).await;
    assert_eq!(view.holds_of(tenant(2), &[order_id(1)]).await.unwrap(), std::slice::from_ref(&foreign));
    assert_eq!(view.holds_of(tenant(1), &[order_id(1)]).await.unwrap(), [released]);
    assert_eq!(view.holds_of(tenant(3), &[order_id(1)]).await.unwrap(), []);
    assert_eq!(view.holds_of_user(tenant(1), user(10), Wallet).await.unwrap(), []);
    assert_eq!(
        view.holds_of_user(tenant(2), user(10), Wallet).await.unwrap(),
        std::slice::from_ref(&foreign)
    );
    drop(view);
    in_unit!(rig, |unit| {
        let locked = unit.lock_holds(Wallet, &[(tenant(2), order_id(1))]).await.unwrap();
        assert_eq!(locked, [foreign]);
    });
}

/// Locking returns the existing holds of these orders for this asset, in every status, each once.
pub async fn lock_returns_the_requested_holds(rig: &dyn MarketRig) {
    let released = hold_moved_to(&hold(3, Wallet), HoldStatus::Released);
    put(rig, &[hold(1, Wallet), hold(1, Points), hold(2, Wallet), hold(3, Wallet)]).await;
    put(rig, std::slice::from_ref(&released)).await;
    let keys = |orders: &[i64]| -> Vec<_> {
        orders.iter().map(|order| (TenantId::DEFAULT, order_id(*order))).collect()
    };
    in_unit!(rig, |unit| {
        let mut locked = unit.lock_holds(Wallet, &keys(&[3, 1, 9, 3])).await.unwrap();
        locked.sort_by_key(|hold| hold.order);
        assert_eq!(locked, [hold(1, Wallet), released]);
        assert_eq!(unit.lock_holds(Points, &keys(&[1, 2])).await.unwrap(), [hold(1, Points)]);
        assert_eq!(unit.lock_holds(Coupon, &keys(&[1, 2, 3])).await.unwrap(), []);
        assert_eq!(unit.lock_holds(Wallet, &[]).await.unwrap(), []);
    });
}

/// The query for the holds of a user and an asset returns only frozen holds, sorted by order id.
pub async fn query_for_holds_of_user_returns_frozen_holds_ordered_by_order_id(rig: &dyn MarketRig) {
    let other = Hold { user: user(11), ..hold(4, Wallet) };
    put(rig, &[hold(30, Wallet), hold(2, Wallet), hold(100, Wallet), hold(5, Points), other.clone()]).await;
    let mut ended = vec![hold(7, Wallet), hold(8, Wallet)];
    put(rig, &ended).await;
    ended[0] = hold_moved_to(&ended[0], HoldStatus::Committed);
    ended[1] = hold_moved_to(&ended[1], HoldStatus::Released);
    put(rig, &ended).await;
    let mut view = view(rig).await;
    let mut of = async |who, asset| view.holds_of_user(TenantId::DEFAULT, user(who), asset).await.unwrap();
    assert_eq!(of(10, Wallet).await, [hold(2, Wallet), hold(30, Wallet), hold(100, Wallet)]);
    assert_eq!(of(10, Points).await, [hold(5, Points)]);
    assert_eq!(of(10, Coupon).await, []);
    assert_eq!(of(11, Wallet).await, [other]);
}

/// The query for frozen holds includes a hold that was created exactly at the given time, with microsecond precision.
pub async fn frozen_hold_created_exactly_at_the_given_time_is_included(rig: &dyn MarketRig) {
    let micro = TimeDelta::microseconds(1);
    let at = |order, create_time| Hold { create_time, ..hold(order, Wallet) };
    put(rig, &[at(1, start() - micro), at(2, start()), at(3, start() + micro)]).await;
    let seen = view(rig).await.holds_frozen(start(), None, 10).await.unwrap();
    assert_eq!(seen, [at(1, start() - micro), at(2, start())].map(key));
}

/// Frozen holds of every tenant are returned sorted by creation time, order id and asset, up to the limit.
pub async fn frozen_holds_are_ordered_by_time_order_and_asset(rig: &dyn MarketRig) {
    let at = |order, asset, seconds| Hold { create_time: later(seconds), ..hold(order, asset) };
    let foreign = Hold { tenant: tenant(2), ..at(3, Wallet, -20) };
    let expected = [
        at(9, Points, -30),
        foreign,
        at(4, Coupon, -20),
        at(4, Wallet, -20),
        at(4, Points, -20),
        at(1, Wallet, -10),
    ];
    let mut added = expected.to_vec();
    added.reverse();
    added.swap(1, 3);
    put(rig, &added).await;
    let mut ended = [at(5, Wallet, -25), at(6, Wallet, -25)];
    put(rig, &ended).await;
    ended[0] = hold_moved_to(&ended[0], HoldStatus::Committed);
    ended[1] = hold_moved_to(&ended[1], HoldStatus::Released);
    put(rig, &ended).await;
    let seen = view(rig).await.holds_frozen(start(), None, 10).await.unwrap();
    let expected = expected.map(key);
    assert_eq!(seen, expected);
    assert_eq!(view(rig).await.holds_frozen(start(), None, 2).await.unwrap(), expected[..2]);
    assert_eq!(view(rig).await.holds_frozen(later(-21), None, 9).await.unwrap(), expected[..1]);
}

/// A page of frozen holds starts directly after the last hold of the previous page.
pub async fn frozen_hold_pages_continue_after_the_last_hold(rig: &dyn MarketRig) {
    let at = |order, asset, seconds| Hold { create_time: later(seconds), ..hold(order, asset) };
    let all = [
        at(9, Wallet, -30),
        at(4, Coupon, -20),
        at(4, Wallet, -20),
        at(4, Points, -20),
        at(5, Coupon, -20),
        at(1, Wallet, -10),
    ];
    put(rig, &all).await;
    let all = all.map(key);
    for limit in 1..=4 {
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let page = view(rig).await.holds_frozen(start(), after, limit).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.position());
            seen.extend(page);
            assert!(seen.len() <= all.len(), "a page repeats holds: {seen:?}");
        }
        assert_eq!(seen, all, "holds in pages of {limit}");
    }
    let absent = Some((later(-20), order_id(4), Asset::Cash));
    assert_eq!(view(rig).await.holds_frozen(start(), absent, 9).await.unwrap(), all[4..]);
}

/// Concurrent units of work that lock one hold lose no update.
pub async fn concurrent_hold_updates_are_not_lost(rig: &dyn MarketRig) {
    put(rig, &[hold(1, Wallet)]).await;
    let outcomes = race(&rig.market(), |unit, _| {
        Box::pin(async move {
            let mut locked = unit.lock_holds(Wallet, &[(TenantId::DEFAULT, order_id(1))]).await?;
            for hold in &mut locked {
                hold.amount += 1;
                hold.version += 1;
            }
            tokio::task::yield_now().await;
            unit.put_holds(&locked).await
        })
    })
    .await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let seen = of(rig, 1).await;
    assert_eq!((seen[0].version, seen[0].amount), (1 + RACERS as i64, 500 + RACERS as i64));
}

pub async fn concurrent_hold_inserts_succeed_exactly_once(rig: &dyn MarketRig) {
    let outcomes = race(&rig.market(), |unit, n| {
        Box::pin(async move { unit.put_holds(&[Hold { amount: n as i64, ..hold(1, Wallet) }]).await })
    })
    .await;
    let winner = one_succeeded(outcomes);
    assert_eq!(of(rig, 1).await, [Hold { amount: winner as i64, ..hold(1, Wallet) }]);
}

/// If several units of work commit or release one hold concurrently, exactly one succeeds.
pub async fn concurrent_hold_endings_succeed_exactly_once(rig: &dyn MarketRig) {
    put(rig, &[hold(1, Points)]).await;
    let ended = |n: usize| {
        let status = if n.is_multiple_of(2) { HoldStatus::Committed } else { HoldStatus::Released };
        Hold { update_time: later(n as i64), ..hold_moved_to(&hold(1, Points), status) }
    };
    let outcomes =
        race(&rig.market(), move |unit, n| Box::pin(async move { unit.put_holds(&[ended(n)]).await })).await;
    let winner = one_succeeded(outcomes);
    assert_eq!(of(rig, 1).await, [ended(winner)]);
}
