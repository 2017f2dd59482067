//! Cancellation during `begin`, a statement or a commit.

use handover_outbox::ports::OutboxFilter;

use super::super::{MAX_POLLS, cancel_after_polls, within};
use super::units::{has_dead_letter, has_event};
use super::{StoreRig, begin, in_unit, view};
use crate::samples::{dead_letter, event};

/// After a `begin` was cancelled at any point, later units of work are committed and rolled back as usual.
pub async fn a_begin_cancelled_at_any_point_does_not_affect_later_units_of_work(rig: &dyn StoreRig) {
    for polls in 0..MAX_POLLS {
        let store = rig.store();
        let done = within("a cancelled begin", cancel_after_polls(polls, store.begin())).await.is_some();
        let id = format!("e{polls}");
        in_unit!(rig, |unit| unit.outbox().append(&[event(&id, 1, 1)]).await.unwrap());
        assert!(
            has_event(view(rig).await.outbox_view(), &id).await,
            "a commit after a begin cancelled after {polls} polls must be visible"
        );
        let mut unit = begin(rig).await;
        unit.outbox().park(&[dead_letter("queue", &id)]).await.unwrap();
        drop(unit);
        assert!(
            !has_dead_letter(view(rig).await.outbox_view(), &id).await,
            "a dropped unit of work after a begin cancelled after {polls} polls must be rolled back"
        );
        if done {
            return;
        }
    }
    panic!("begin is not done after {MAX_POLLS} polls");
}

/// Cancelled begins do not use up resources.
pub async fn cancelled_begins_free_their_resources(rig: &dyn StoreRig) {
    for round in 0..40 {
        for polls in 1..4 {
            let store = rig.store();
            drop(within("a cancelled begin", cancel_after_polls(polls, store.begin())).await);
        }
        if round % 10 == 9 {
            in_unit!(rig, |unit| unit.outbox().append(&[event(&format!("e{round}"), 1, 1)]).await.unwrap());
        }
    }
    let page = view(rig).await.outbox_view().outbox_page(&OutboxFilter::default(), None, 100).await.unwrap();
    assert_eq!(page.len(), 4);
}

/// A unit of work that is dropped during a statement is rolled back like any other.
pub async fn a_unit_of_work_dropped_during_a_statement_is_rolled_back(rig: &dyn StoreRig) {
    for polls in 0..MAX_POLLS {
        let mut unit = begin(rig).await;
        unit.outbox().park(&[dead_letter("queue", "first")]).await.unwrap();
        let twenty: Vec<_> = (0..20).map(|n| event(&format!("e{n}"), n, 1)).collect();
        let result =
            within("a cancelled statement", cancel_after_polls(polls, unit.outbox().append(&twenty))).await;
        drop(unit);
        let next = format!("next-{polls}");
        in_unit!(rig, |unit| unit.outbox().park(&[dead_letter("queue", &next)]).await.unwrap());
        let mut view = view(rig).await;
        let view = view.outbox_view();
        assert!(!has_dead_letter(view, "first").await, "after {polls} polls");
        assert_eq!(
            view.outbox_page(&OutboxFilter::default(), None, 10).await.unwrap(),
            [],
            "after {polls} polls"
        );
        assert!(has_dead_letter(view, &next).await, "after {polls} polls");
        if result.is_some() {
            return;
        }
    }
    panic!("append is not done after {MAX_POLLS} polls");
}

/// A cancelled commit is applied completely or not at all, and does not affect later units of work.
pub async fn a_commit_cancelled_at_any_point_is_atomic(rig: &dyn StoreRig) {
    for polls in 0..MAX_POLLS {
        let id = format!("e{polls}");
        let mut unit = begin(rig).await;
        unit.outbox().park(&[dead_letter("queue", &id)]).await.unwrap();
        unit.outbox().append(&[event(&id, 1, 1)]).await.unwrap();
        let result = within("a cancelled commit", cancel_after_polls(polls, unit.commit())).await;
        let next = format!("next-{polls}");
        in_unit!(rig, |unit| unit.outbox().append(&[event(&next, 1, 1)]).await.unwrap());
        let mut view = view(rig).await;
        let first = has_dead_letter(view.outbox_view(), &id).await;
        let second = has_event(view.outbox_view(), &id).await;
        assert_eq!(first, second, "after {polls} polls");
        if let Some(outcome) = result {
            outcome.expect("a commit that was not cancelled must succeed");
            assert!(first, "the committed row must exist");
            return;
        }
    }
    panic!("commit is not done after {MAX_POLLS} polls");
}
