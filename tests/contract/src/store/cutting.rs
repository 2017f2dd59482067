//! Callers that go away in the middle: of a `begin`, a statement or a commit.

use handover_events::TenantId;

use super::super::{MOST_POLLS, cut_after, within};
use super::{StoreRig, begin, in_unit, view};
use crate::samples::{event, event_id, order, product, product_id};

/// A `begin` that is dropped at any point leaves no later unit inside its transaction.
pub async fn a_begin_cut_at_any_point_leaves_later_units_working(rig: &dyn StoreRig) {
    for polls in 0..MOST_POLLS {
        let store = rig.store();
        let done = within("a begin that is cut", cut_after(polls, store.begin())).await.is_some();
        let id = 1 + polls as i64;
        in_unit!(rig, |unit| unit.insert_product(&product(id)).await.unwrap());
        let seen = view(rig).await.product_by_id(TenantId::DEFAULT, product_id(id)).await.unwrap();
        assert!(seen.is_some(), "a commit after a begin cut after {polls} polls is visible");
        let mut unit = begin(rig).await;
        unit.insert_order(&order(id)).await.unwrap();
        drop(unit);
        let seen = view(rig).await.order_by_id(TenantId::DEFAULT, order(id).id).await.unwrap();
        assert!(seen.is_none(), "a dropped unit after a begin cut after {polls} polls is undone");
        if done {
            return;
        }
    }
    panic!("begin is not done after {MOST_POLLS} polls");
}

/// Begins that are cut use nothing up, however many there are.
pub async fn begins_that_are_cut_use_nothing_up(rig: &dyn StoreRig) {
    for round in 0..40 {
        for polls in 1..4 {
            let store = rig.store();
            drop(within("a begin that is cut", cut_after(polls, store.begin())).await);
        }
        if round % 10 == 9 {
            in_unit!(rig, |unit| unit.insert_product(&product(1 + round)).await.unwrap());
        }
    }
    let page = view(rig).await.products_page(TenantId::DEFAULT, None, None, 100).await.unwrap();
    assert_eq!(page.len(), 4);
}

/// A unit that is dropped in the middle of a statement is undone like any other.
pub async fn a_unit_cut_in_the_middle_of_a_statement_is_undone(rig: &dyn StoreRig) {
    for polls in 0..MOST_POLLS {
        let mut unit = begin(rig).await;
        unit.insert_product(&product(1)).await.unwrap();
        let twenty: Vec<_> = (0..20).map(|n| event(&format!("e{n}"), n, 1)).collect();
        let cut = within("a statement that is cut", cut_after(polls, unit.outbox().append(&twenty))).await;
        drop(unit);
        in_unit!(rig, |unit| unit.insert_order(&order(1 + polls as i64)).await.unwrap());
        let mut view = view(rig).await;
        assert_eq!(
            view.product_by_id(TenantId::DEFAULT, product_id(1)).await.unwrap(),
            None,
            "after {polls} polls"
        );
        assert_eq!(
            view.outbox_view().outbox_page(&Default::default(), None, 10).await.unwrap(),
            [],
            "after {polls} polls"
        );
        if cut.is_some() {
            return;
        }
    }
    panic!("append is not done after {MOST_POLLS} polls");
}

/// A commit whose caller goes away happened whole or not at all, and later units work.
pub async fn a_commit_cut_at_any_point_happened_whole_or_not_at_all(rig: &dyn StoreRig) {
    for polls in 0..MOST_POLLS {
        let id = 1 + polls as i64;
        let mut unit = begin(rig).await;
        unit.insert_product(&product(id)).await.unwrap();
        unit.outbox().append(&[event(&format!("e{id}"), id, 1)]).await.unwrap();
        let cut = within("a commit that is cut", cut_after(polls, unit.commit())).await;
        in_unit!(rig, |unit| unit.insert_order(&order(id)).await.unwrap());
        let mut view = view(rig).await;
        let events = [event_id(&format!("e{id}"))];
        let first = view.product_by_id(TenantId::DEFAULT, product_id(id)).await.unwrap().is_some();
        let second = !view.outbox_view().outbox_by_event(&events).await.unwrap().is_empty();
        assert_eq!(first, second, "after {polls} polls");
        if let Some(outcome) = cut {
            outcome.expect("a commit that ran to its end succeeds");
            assert!(first, "what was committed is there");
            return;
        }
    }
    panic!("commit is not done after {MOST_POLLS} polls");
}
