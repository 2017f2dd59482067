//! Callers that go away in the middle: of a `begin`, a statement or a commit.

use handover_outbox::ports::OutboxFilter;

use super::super::{MOST_POLLS, cut_after, within};
use super::units::{has_event, has_letter};
use super::{StoreRig, begin, in_unit, view};
use crate::samples::{dead_letter, event};

/// A `begin` that is dropped at any point leaves no later unit inside its transaction.
pub async fn a_begin_cut_at_any_point_leaves_later_units_working(rig: &dyn StoreRig) {
    for polls in 0..MOST_POLLS {
        let store = rig.store();
        let done = within("a begin that is cut", cut_after(polls, store.begin())).await.is_some();
        let id = format!("e{polls}");
        in_unit!(rig, |unit| unit.outbox().append(&[event(&id, 1, 1)]).await.unwrap());
        assert!(
            has_event(view(rig).await.outbox_view(), &id).await,
            "a commit after a begin cut after {polls} polls is visible"
        );
        let mut unit = begin(rig).await;
        unit.outbox().park(&[dead_letter("queue", &id)]).await.unwrap();
        drop(unit);
        assert!(
            !has_letter(view(rig).await.outbox_view(), &id).await,
            "a dropped unit after a begin cut after {polls} polls is undone"
        );
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
            in_unit!(rig, |unit| unit.outbox().append(&[event(&format!("e{round}"), 1, 1)]).await.unwrap());
        }
    }
    let page = view(rig).await.outbox_view().outbox_page(&OutboxFilter::default(), None, 100).await.unwrap();
    assert_eq!(page.len(), 4);
}

/// A unit that is dropped in the middle of a statement is undone like any other.
pub async fn a_unit_cut_in_the_middle_of_a_statement_is_undone(rig: &dyn StoreRig) {
    for polls in 0..MOST_POLLS {
        let mut unit = begin(rig).await;
        unit.outbox().park(&[dead_letter("queue", "first")]).await.unwrap();
        let twenty: Vec<_> = (0..20).map(|n| event(&format!("e{n}"), n, 1)).collect();
        let cut = within("a statement that is cut", cut_after(polls, unit.outbox().append(&twenty))).await;
        drop(unit);
        let next = format!("next-{polls}");
        in_unit!(rig, |unit| unit.outbox().park(&[dead_letter("queue", &next)]).await.unwrap());
        let mut view = view(rig).await;
        let view = view.outbox_view();
        assert!(!has_letter(view, "first").await, "after {polls} polls");
        assert_eq!(
            view.outbox_page(&OutboxFilter::default(), None, 10).await.unwrap(),
            [],
            "after {polls} polls"
        );
        assert!(has_letter(view, &next).await, "after {polls} polls");
        if cut.is_some() {
            return;
        }
    }
    panic!("append is not done after {MOST_POLLS} polls");
}

/// A commit whose caller goes away happened whole or not at all, and later units work.
pub async fn a_commit_cut_at_any_point_happened_whole_or_not_at_all(rig: &dyn StoreRig) {
    for polls in 0..MOST_POLLS {
        let id = format!("e{polls}");
        let mut unit = begin(rig).await;
        unit.outbox().park(&[dead_letter("queue", &id)]).await.unwrap();
        unit.outbox().append(&[event(&id, 1, 1)]).await.unwrap();
        let cut = within("a commit that is cut", cut_after(polls, unit.commit())).await;
        let next = format!("next-{polls}");
        in_unit!(rig, |unit| unit.outbox().append(&[event(&next, 1, 1)]).await.unwrap());
        let mut view = view(rig).await;
        let first = has_letter(view.outbox_view(), &id).await;
        let second = has_event(view.outbox_view(), &id).await;
        assert_eq!(first, second, "after {polls} polls");
        if let Some(outcome) = cut {
            outcome.expect("a commit that ran to its end succeeds");
            assert!(first, "what was committed is there");
            return;
        }
    }
    panic!("commit is not done after {MOST_POLLS} polls");
}
