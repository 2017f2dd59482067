//! Units of work and views: what is seen when, what is undone, what a commit means.

use std::time::Duration;

use chrono::TimeDelta;
use handover_application::ports::{IdKind, ListingChangeKind, MarketView, Work};
use handover_domain::ProductStatus;
use handover_events::TenantId;
use handover_outbox::ports::{DueQuery, NewEvent};

use super::super::{eventually, within};
use super::{StoreRig, begin, changes_one, commit, in_unit, view};
use crate::samples::{
    consumption, dead_letter, due_at, event, event_id, later, listing_change, order, payment, payment_id,
    product, product_id, relay, settled, shipment_task, start, user,
};

/// Writes one row of every kind, all of them new.
pub(super) async fn write_everything(unit: &mut Work) {
    let free = unit.outbox().partition_leases().await.unwrap().remove(0);
    unit.insert_product(&product(1)).await.unwrap();
    unit.insert_order(&order(1)).await.unwrap();
    unit.insert_payment(&payment(1, 1)).await.unwrap();
    unit.outbox().append(&[event("e", 1, 1)]).await.unwrap();
    unit.outbox().record(&[consumption("inventory", &event("e", 1, 1))]).await.unwrap();
    unit.outbox().subscribe_consumer("inventory", start()).await.unwrap();
    unit.outbox().park(&[dead_letter("queue", "key")]).await.unwrap();
    unit.change_listings(&[listing_change(1, 1, ListingChangeKind::Occupied, "e")]).await.unwrap();
    unit.open_shipments(&[shipment_task(1, "e")]).await.unwrap();
    unit.outbox().heartbeat(&relay("r1"), 60_000).await.unwrap();
    changes_one(unit.outbox().take_partition(&relay("r1"), &free, 60_000).await);
}

/// Which of those rows are seen.
async fn seen<V: MarketView + ?Sized>(view: &mut V) -> Vec<&'static str> {
    let one = TenantId::DEFAULT;
    let checks = [
        ("product", view.product_by_id(one, product_id(1)).await.unwrap().is_some()),
        ("order", view.order_by_id(one, order(1).id).await.unwrap().is_some()),
        ("payment", view.payment_by_id(payment_id(1)).await.unwrap().is_some()),
        ("event", !view.outbox_view().outbox_by_event(&[event_id("e")]).await.unwrap().is_empty()),
        (
            "due",
            !view
                .outbox_view()
                .outbox_due(&DueQuery { limit: 9, ..due_at(start()) })
                .await
                .unwrap()
                .is_empty(),
        ),
        ("consumption", view.outbox_view().consumption("inventory", &event_id("e")).await.unwrap().is_some()),
        ("subscription", view.outbox_view().consumer_subscription("inventory").await.unwrap().is_some()),
        ("dead letter", view.outbox_view().dead_letter("queue", "key").await.unwrap().is_some()),
        ("listing change", !view.listing_changes(one, order(1).id).await.unwrap().is_empty()),
        ("listing", !view.listing_of(one, user(20)).await.unwrap().is_empty()),
        ("shipment", !view.shipment_tasks(one, order(1).id).await.unwrap().is_empty()),
        ("relay", !view.outbox_view().heartbeats().await.unwrap().is_empty()),
        ("lease", view.outbox_view().partition_leases().await.unwrap()[0].owner.is_some()),
    ];
    checks.into_iter().filter_map(|(what, there)| there.then_some(what)).collect()
}

const EVERYTHING: usize = 13;

/// Nothing of a unit is seen by others before its commit.
pub async fn what_a_unit_writes_is_invisible_until_it_is_committed(rig: &dyn StoreRig) {
    let mut before = view(rig).await;
    let mut unit = begin(rig).await;
    write_everything(unit.as_mut()).await;
    assert_eq!(within("reading beside a unit", seen(before.as_mut())).await, [""; 0]);
    assert_eq!(within("reading beside a unit", seen(view(rig).await.as_mut())).await, [""; 0]);
    drop(unit);
}

/// All of a unit is seen once its commit returned, by every view opened from then on.
pub async fn what_a_unit_wrote_is_visible_once_it_is_committed(rig: &dyn StoreRig) {
    let mut unit = begin(rig).await;
    write_everything(unit.as_mut()).await;
    commit(unit).await;
    assert_eq!(seen(view(rig).await.as_mut()).await.len(), EVERYTHING);
    assert_eq!(seen(begin(rig).await.as_mut()).await.len(), EVERYTHING, "by later units as well");
}

/// A unit reads its own writes.
pub async fn a_unit_reads_its_own_writes(rig: &dyn StoreRig) {
    let mut unit = begin(rig).await;
    write_everything(unit.as_mut()).await;
    assert_eq!(seen(unit.as_mut()).await.len(), EVERYTHING);
    let paid = settled(&payment(1, 1), handover_domain::PaymentStatus::Success, "t");
    changes_one(unit.advance_payment(&paid).await);
    assert_eq!(unit.payment_by_id(payment_id(1)).await.unwrap(), Some(paid));
}

/// Dropping a unit undoes all it wrote.
pub async fn a_dropped_unit_undoes_everything(rig: &dyn StoreRig) {
    let mut unit = begin(rig).await;
    write_everything(unit.as_mut()).await;
    drop(unit);
    assert_eq!(seen(view(rig).await.as_mut()).await, [""; 0]);
    assert_eq!(seen(begin(rig).await.as_mut()).await, [""; 0]);
}

/// Dropping a unit undoes its changes of rows that were there.
pub async fn a_dropped_unit_undoes_its_changes_of_old_rows(rig: &dyn StoreRig) {
    let old = product(1);
    in_unit!(rig, |unit| {
        unit.insert_product(&old).await.unwrap();
        unit.outbox().append(&[event("e", 1, 1)]).await.unwrap();
    });
    let mut unit = begin(rig).await;
    let sold = old.apply(handover_domain::ProductAction::Occupy, later(1)).unwrap();
    changes_one(unit.advance_product(&sold).await);
    unit.outbox().mark_sent(&[&crate::samples::confirmed("e")], later(1)).await.unwrap();
    drop(unit);
    let mut view = view(rig).await;
    assert_eq!(view.product_by_id(old.tenant, old.id).await.unwrap(), Some(old));
    assert_eq!(view.outbox_view().outbox_by_event(&[event_id("e")]).await.unwrap()[0].sent_time, None);
}

/// A unit that is dropped leaves the way free for the next, again and again.
pub async fn dropped_units_leave_later_units_working(rig: &dyn StoreRig) {
    for n in 1..=30 {
        let mut unit = begin(rig).await;
        unit.insert_product(&product(1)).await.unwrap();
        drop(unit);
        in_unit!(rig, |unit| unit.insert_product(&product(100 + n)).await.unwrap());
    }
    let page = view(rig).await.products_page(TenantId::DEFAULT, None, None, 100).await.unwrap();
    assert_eq!(page.len(), 30);
}

/// A view sees every unit committed before it was opened.
pub async fn a_view_sees_every_commit_before_it(rig: &dyn StoreRig) {
    let mut last = product(1);
    in_unit!(rig, |unit| unit.insert_product(&last).await.unwrap());
    for n in 0..20 {
        let action = match last.status {
            ProductStatus::OnSale => handover_domain::ProductAction::Occupy,
            ProductStatus::Sold | ProductStatus::OffShelf => handover_domain::ProductAction::Release,
        };
        last = last.apply(action, later(n)).unwrap();
        in_unit!(rig, |unit| changes_one(unit.advance_product(&last).await));
        let seen = view(rig).await.product_by_id(last.tenant, last.id).await.unwrap();
        assert_eq!(seen.as_ref(), Some(&last));
    }
}

/// A unit that begins sees every unit committed before.
pub async fn a_unit_sees_every_commit_before_it(rig: &dyn StoreRig) {
    for n in 1..=10 {
        in_unit!(rig, |unit| {
            let page = unit.products_page(TenantId::DEFAULT, None, None, 100).await.unwrap();
            assert_eq!(page.len() as i64, n - 1);
            unit.insert_product(&product(n)).await.unwrap();
        });
    }
}

/// Views that are open hold up no writer, not even in the middle of their reading.
pub async fn a_view_holds_up_no_writer(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| unit.insert_product(&product(1)).await.unwrap());
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut view = view(rig).await;
        assert!(view.product_by_id(TenantId::DEFAULT, product_id(1)).await.unwrap().is_some());
        open.push(view);
    }
    in_unit!(rig, |unit| {
        changes_one(
            unit.advance_product(
                &product(1).apply(handover_domain::ProductAction::Occupy, later(1)).unwrap(),
            )
            .await,
        );
    });
    for mut view in open {
        view.product_by_id(TenantId::DEFAULT, product_id(1)).await.expect("an open view can still be read");
    }
}

/// More views than any pool has connections can be opened one after another.
pub async fn views_that_are_dropped_use_nothing_up(rig: &dyn StoreRig) {
    for _ in 0..100 {
        let mut view = view(rig).await;
        view.outbox_view().partition_leases().await.unwrap();
    }
}

/// Whoever sees one row of a commit sees them all.
pub async fn a_commit_is_seen_whole(rig: &dyn StoreRig) {
    const COMMITS: i64 = 25;
    let store = rig.store();
    let writer = tokio::spawn(async move {
        for n in 1..=COMMITS {
            let mut unit = store.begin().await.unwrap();
            unit.outbox().append(&[event(&format!("e{n}"), n, 1)]).await.unwrap();
            unit.insert_product(&product(n)).await.unwrap();
            unit.insert_order(&order(n)).await.unwrap();
            unit.commit().await.unwrap();
        }
    });
    for n in 1..=COMMITS {
        eventually("the next commit is seen", || async {
            let mut view = view(rig).await;
            view.product_by_id(TenantId::DEFAULT, product_id(n)).await.unwrap()?;
            let order = view.order_by_id(TenantId::DEFAULT, order(n).id).await.unwrap();
            assert!(order.is_some(), "product {n} is seen without its order");
            let events = view.outbox_view().outbox_by_event(&[event_id(&format!("e{n}"))]).await.unwrap();
            assert_eq!(events.len(), 1, "product {n} is seen without its event");
            Some(())
        })
        .await;
    }
    writer.await.unwrap();
}

/// What was committed is there after a restart, and what was not is not.
pub async fn what_was_committed_survives_a_restart(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| write_everything(unit.as_mut()).await);
    let mut unit = begin(rig).await;
    unit.insert_product(&product(2)).await.unwrap();
    drop(unit);
    let Some(reopened) = rig.reopened().await else { return };
    let mut view = reopened.view().await.unwrap();
    let mut there = seen(view.as_mut()).await;
    there.retain(|what| !matches!(*what, "relay" | "lease"));
    assert_eq!(there.len(), EVERYTHING - 2, "leases may be ended by a restart, nothing else");
    assert_eq!(view.product_by_id(TenantId::DEFAULT, product_id(2)).await.unwrap(), None);
}

/// Units that are open side by side do not see each other's writes.
pub async fn units_side_by_side_do_not_see_each_other(rig: &dyn StoreRig) {
    if !rig.capabilities().side_by_side {
        return;
    }
    let mut one = begin(rig).await;
    let mut two = begin(rig).await;
    one.insert_product(&product(1)).await.unwrap();
    two.insert_product(&product(2)).await.unwrap();
    assert_eq!(one.product_by_id(TenantId::DEFAULT, product_id(2)).await.unwrap(), None);
    assert_eq!(two.product_by_id(TenantId::DEFAULT, product_id(1)).await.unwrap(), None);
    commit(one).await;
    drop(two);
    let page = view(rig).await.products_page(TenantId::DEFAULT, None, None, 10).await.unwrap();
    assert_eq!(page.iter().map(|product| product.id.get()).collect::<Vec<_>>(), [1]);
}

/// A moment comes back to the microsecond.
pub async fn times_survive_to_the_microsecond(rig: &dyn StoreRig) {
    for (n, micros) in [0, 1, 999, 1_000, 123_456, 499_999, 500_000, 999_999].into_iter().enumerate() {
        let at = later(0) - Duration::from_micros(123_456) + TimeDelta::microseconds(micros);
        let id = 1 + n as i64;
        in_unit!(rig, |unit| {
            let product = handover_domain::Product { create_time: at, update_time: at, ..product(id) };
            unit.insert_product(&product).await.unwrap();
            assert_eq!(unit.product_by_id(TenantId::DEFAULT, product.id).await.unwrap(), Some(product));
            unit.outbox()
                .append(&[NewEvent { occurred_at: at, ..event(&format!("e{n}"), id, 1) }])
                .await
                .unwrap();
            unit.take_id_block(IdKind::Order, 1).await.unwrap();
        });
        let rows =
            view(rig).await.outbox_view().outbox_by_event(&[event_id(&format!("e{n}"))]).await.unwrap();
        assert_eq!(rows[0].create_time, at);
    }
}
