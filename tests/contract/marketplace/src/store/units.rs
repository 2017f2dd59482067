//! Rules for atomicity: the rows and events of one unit of work are committed together or not at all.

use handover_contract::samples::{confirmed, event, event_id, later};
use handover_contract::work::{changes_one, commit};
use handover_contract::{MAX_POLLS, cancel_after_polls, eventually, within};
use handover_events::TenantId;
use marketplace::ports::{ListingChangeKind, MarketView, Work};
use marketplace_domain::{PaymentStatus, ProductAction};

use super::{MarketRig, begin, in_unit, view};
use crate::samples::{
    capture, finding, gateway_report, listing_change, order, payment, payment_id, product, product_id,
    settled, shipment_task, user,
};

/// Inserts rows of several kinds and an event.
pub(super) async fn write_rows(unit: &mut Work) {
    unit.insert_product(&product(1)).await.unwrap();
    unit.insert_order(&order(1)).await.unwrap();
    unit.insert_payment(&payment(1, 1)).await.unwrap();
    unit.insert_capture(&capture(1, 1)).await.unwrap();
    unit.insert_gateway_report(&gateway_report("k", 1)).await.unwrap();
    unit.insert_finding(&finding("k")).await.unwrap();
    unit.outbox().append(&[event("e", 1, 1)]).await.unwrap();
    unit.change_listings(&[listing_change(1, 1, ListingChangeKind::Occupied, "e")]).await.unwrap();
    unit.open_shipments(&[shipment_task(1, "e")]).await.unwrap();
}

/// Returns the kinds of those rows of [`write_rows`] that `view` can read.
async fn seen<V: MarketView + ?Sized>(view: &mut V) -> Vec<&'static str> {
    let one = TenantId::DEFAULT;
    let checks = [
        ("product", view.product_by_id(one, product_id(1)).await.unwrap().is_some()),
        ("order", view.order_by_id(one, order(1).id).await.unwrap().is_some()),
        ("payment", view.payment_by_id(payment_id(1)).await.unwrap().is_some()),
        ("capture", !view.captures_of(one, &[order(1).id]).await.unwrap().is_empty()),
        ("report", view.gateway_report_by_key("k").await.unwrap().is_some()),
        ("finding", !view.open_findings().await.unwrap().is_empty()),
        ("event", has_event(view, "e").await),
        ("listing change", !view.listing_changes(one, &[order(1).id]).await.unwrap().is_empty()),
        ("listing", !view.listing_of(one, user(20)).await.unwrap().is_empty()),
        ("shipment", !view.shipment_tasks(one, &[order(1).id]).await.unwrap().is_empty()),
    ];
    checks.into_iter().filter_map(|(kind, is_visible)| is_visible.then_some(kind)).collect()
}

const EVERYTHING: usize = 10;

async fn has_event<V: MarketView + ?Sized>(view: &mut V, id: &str) -> bool {
    !view.outbox_view().outbox_by_event(&[event_id(id)]).await.unwrap().is_empty()
}

/// The writes of a unit of work are invisible to others before its commit and visible afterwards.
pub async fn uncommitted_rows_and_events_are_invisible(rig: &dyn MarketRig) {
    let mut before = view(rig).await;
    let mut unit = begin(rig).await;
    write_rows(unit.as_mut()).await;
    assert_eq!(within("a read concurrent with a unit of work", seen(before.as_mut())).await, [""; 0]);
    assert_eq!(
        within("a read concurrent with a unit of work", seen(view(rig).await.as_mut())).await,
        [""; 0]
    );
    drop(before);
    commit(unit).await;
    assert_eq!(seen(view(rig).await.as_mut()).await.len(), EVERYTHING);
    assert_eq!(
        seen(begin(rig).await.as_mut()).await.len(),
        EVERYTHING,
        "the rows must also be visible to later units of work"
    );
}

/// A unit of work reads its own inserted and changed rows.
pub async fn unit_of_work_reads_its_own_rows(rig: &dyn MarketRig) {
    let mut unit = begin(rig).await;
    write_rows(unit.as_mut()).await;
    assert_eq!(seen(unit.as_mut()).await.len(), EVERYTHING);
    let paid = settled(&payment(1, 1), PaymentStatus::Success, "t");
    changes_one(unit.advance_payment(&paid).await);
    assert_eq!(unit.payment_by_id(payment_id(1)).await.unwrap(), Some(paid));
}

pub async fn dropped_unit_of_work_rolls_back_inserts(rig: &dyn MarketRig) {
    let mut unit = begin(rig).await;
    write_rows(unit.as_mut()).await;
    drop(unit);
    assert_eq!(seen(view(rig).await.as_mut()).await, [""; 0]);
    assert_eq!(seen(begin(rig).await.as_mut()).await, [""; 0]);
}

pub async fn dropped_unit_of_work_rolls_back_updates(rig: &dyn MarketRig) {
    let old = product(1);
    in_unit!(rig, |unit| {
        unit.insert_product(&old).await.unwrap();
        unit.outbox().append(&[event("e", 1, 1)]).await.unwrap();
    });
    let mut unit = begin(rig).await;
    changes_one(unit.advance_product(&old.apply(ProductAction::Occupy, later(1)).unwrap()).await);
    unit.outbox().mark_sent(&[&confirmed("e")], later(1)).await.unwrap();
    drop(unit);
    let mut view = view(rig).await;
    assert_eq!(view.product_by_id(old.tenant, old.id).await.unwrap(), Some(old));
    assert_eq!(view.outbox_view().outbox_by_event(&[event_id("e")]).await.unwrap()[0].sent_time, None);
}

/// A view that sees one row of a commit sees all rows and events of this commit.
pub async fn rows_and_events_of_commit_become_visible_together(rig: &dyn MarketRig) {
    const COMMITS: i64 = 25;
    let store = rig.market();
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
        eventually("visibility of the next commit", || async {
            let mut view = view(rig).await;
            view.product_by_id(TenantId::DEFAULT, product_id(n)).await.unwrap()?;
            let order = view.order_by_id(TenantId::DEFAULT, order(n).id).await.unwrap();
            assert!(order.is_some(), "product {n} is visible without its order");
            assert!(
                has_event(view.as_mut(), &format!("e{n}")).await,
                "product {n} is visible without its event"
            );
            Some(())
        })
        .await;
    }
    writer.await.unwrap();
}

/// A commit whose future is dropped is applied completely or not at all, and does not affect later units of work.
pub async fn dropped_commit_is_atomic_for_rows_and_events(rig: &dyn MarketRig) {
    for polls in 0..MAX_POLLS {
        let id = 1 + polls as i64;
        let mut unit = begin(rig).await;
        unit.insert_product(&product(id)).await.unwrap();
        unit.outbox().append(&[event(&format!("e{id}"), id, 1)]).await.unwrap();
        let outcome = within("a dropped commit", cancel_after_polls(polls, unit.commit())).await;
        in_unit!(rig, |unit| unit.insert_order(&order(id)).await.unwrap());
        let mut view = view(rig).await;
        let first = view.product_by_id(TenantId::DEFAULT, product_id(id)).await.unwrap().is_some();
        let second = has_event(view.as_mut(), &format!("e{id}")).await;
        assert_eq!(first, second, "after {polls} polls");
        if let Some(outcome) = outcome {
            outcome.expect("a commit that was not cancelled must succeed");
            assert!(first, "committed rows exist");
            return;
        }
    }
    panic!("commit is not complete after {MAX_POLLS} polls");
}

/// After a restart committed rows exist and uncommitted ones do not.
pub async fn committed_rows_survive_restart(rig: &dyn MarketRig) {
    in_unit!(rig, |unit| write_rows(unit.as_mut()).await);
    let mut unit = begin(rig).await;
    unit.insert_product(&product(2)).await.unwrap();
    drop(unit);
    let Some(reopened) = rig.reopened_market().await else { return };
    let mut view = reopened.view().await.unwrap();
    assert_eq!(seen(view.as_mut()).await.len(), EVERYTHING);
    assert_eq!(view.product_by_id(TenantId::DEFAULT, product_id(2)).await.unwrap(), None);
}
