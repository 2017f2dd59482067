//! Aggregates that are blocked by failed events, and their release.

use handover_events::{AggregateRef, OutboxStatus};
use handover_outbox::ports::{Blocked, DueQuery, NewEvent, Numbered, OnFailed};

use super::outbox::{append, row};
use super::{StoreRig, in_unit, view};
use crate::samples::{
    BOOK_OVERDUE, aggregate, confirmed, due_at, event, later, of_type, redrive, tenant, to_failed, to_retry,
    unordered,
};

fn about(aggregate: &AggregateRef, event: NewEvent) -> NewEvent {
    NewEvent { aggregate: aggregate.clone(), ..event }
}

async fn fail(rig: &dyn StoreRig, ids: &[&str], at: i64) {
    let failed: Vec<_> = ids.iter().map(|id| to_failed(id)).collect();
    let moved = in_unit!(rig, |unit| unit.outbox().mark_failed(&failed, later(at)).await.unwrap());
    assert_eq!(moved, ids.len() as u64, "{ids:?} become FAILED");
}

async fn release(rig: &dyn StoreRig, of: &AggregateRef, at: i64) -> u64 {
    in_unit!(rig, |unit| unit
        .outbox()
        .release(of, &unordered(), later(at))
        .await
        .expect("the release succeeds"))
}

/// Event ids of a page, and the cursor of the next page.
async fn page(
    rig: &dyn StoreRig,
    of: Option<i64>,
    before: Option<i64>,
    limit: u32,
) -> (Vec<String>, Option<i64>) {
    let page = view(rig)
        .await
        .outbox_view()
        .blocked_page(&unordered(), of.map(tenant), before, limit)
        .await
        .expect("cannot read blocked aggregates");
    assert!(page.is_sorted_by(|a, b| a.id > b.id), "{page:?}");
    let next = page.last().map(|row| row.id);
    (page.into_iter().map(|row| row.effect.event_id.into()).collect(), next)
}

async fn blocked(rig: &dyn StoreRig) -> Vec<String> {
    page(rig, None, None, 100).await.0
}

async fn due_under_hold(rig: &dyn StoreRig) -> Vec<String> {
    let rows = view(rig)
        .await
        .outbox_view()
        .outbox_due(&DueQuery { on_failed: OnFailed::Hold, ..due_at(later(99)) })
        .await;
    rows.expect("cannot read due rows").rows.into_iter().map(|row| row.event_id.into()).collect()
}

/// An aggregate is blocked by the failed event with the smallest `aggregate_seq`, and is returned with the details of
/// that event.
pub async fn an_aggregate_is_blocked_by_its_first_failed_event(rig: &dyn StoreRig) {
    let unknown = NewEvent { event_type: "BOOK_TELEPORTED".into(), ..event("first", 7, 2) };
    append(rig, &[event("third", 7, 4), event("second", 7, 3), unknown, event("before", 7, 1)]).await;
    fail(rig, &["third"], 1).await;
    fail(rig, &["second", "first"], 2).await;
    let page = view(rig).await.outbox_view().blocked_page(&unordered(), None, None, 10).await.unwrap();
    let first = row(rig, "first").await;
    let expected = Blocked {
        aggregate: aggregate(7),
        event_id: first.event_id.clone(),
        event_type: "BOOK_TELEPORTED".into(),
        last_error: to_failed("first").error.into(),
        since: later(2),
        until: None,
        held: 0,
    };
    assert_eq!(page.into_iter().map(|row| (row.id, row.effect)).collect::<Vec<_>>(), [(first.id, expected)]);
}

/// An aggregate whose next event is not due yet is listed with the due time, until that time. It is not listed if the
/// next event is due, was confirmed before it was redriven, or is unordered.
pub async fn an_aggregate_whose_next_event_is_not_due_is_listed(rig: &dyn StoreRig) {
    let foreign = AggregateRef { tenant: tenant(2), ..aggregate(7) };
    append(
        rig,
        &[
            about(&foreign, event("foreign", 7, 1)),
            event("waits", 7, 1),
            event("held", 7, 2),
            event("due", 8, 1),
            event("waits-too", 8, 2),
            event("at-once", 9, 1),
            event("redriven", 10, 1),
            of_type(BOOK_OVERDUE, event("overdue", 11, 1)),
        ],
    )
    .await;
    in_unit!(rig, |unit| {
        let waiting = ["foreign", "waits", "waits-too", "overdue"].map(|id| to_retry(id, Some(later(50))));
        unit.outbox().mark_failed(&waiting, later(1)).await.unwrap();
        unit.outbox().mark_failed(&[to_retry("at-once", None)], later(1)).await.unwrap();
        unit.outbox().mark_sent(&[&confirmed("redriven")], later(1)).await.unwrap();
        unit.outbox().redrive(&[redrive("redriven", later(50))], later(1)).await.unwrap();
    });
    let waiting = async |of: Option<i64>, now: i64, before: Option<i64>| {
        let page = view(rig)
            .await
            .outbox_view()
            .waiting_page(&unordered(), OnFailed::Continue, of.map(tenant), later(now), before, 10)
            .await;
        page.expect("cannot read waiting aggregates")
    };
    let found = waiting(Some(1), 49, None).await;
    let first = row(rig, "waits").await;
    let expected = Blocked {
        aggregate: aggregate(7),
        event_id: first.event_id.clone(),
        event_type: first.event_type.clone(),
        last_error: to_retry("waits", None).error.into(),
        since: later(1),
        until: Some(later(50)),
        held: 1,
    };
    assert_eq!(found.into_iter().map(|row| (row.id, row.effect)).collect::<Vec<_>>(), [(first.id, expected)]);
    let ids = |page: Vec<Numbered<Blocked>>| {
        page.into_iter().map(|row| row.effect.event_id.into()).collect::<Vec<String>>()
    };
    assert_eq!(ids(waiting(None, 49, None).await), ["waits", "foreign"]);
    assert_eq!(ids(waiting(None, 49, Some(first.id)).await), ["foreign"]);
    assert_eq!(ids(waiting(None, 50, None).await), [""; 0]);
}

/// With [`OnFailed::Hold`], an aggregate with an ordered FAILED event that was not released is not listed as waiting,
/// whether its waiting event comes before or after the FAILED one. Any other aggregate with a waiting event is listed.
/// With [`OnFailed::Continue`], every aggregate with a waiting event is listed.
pub async fn an_aggregate_with_a_failed_event_is_waiting_only_if_on_failed_is_continue(rig: &dyn StoreRig) {
    let foreign = AggregateRef { tenant: tenant(2), ..aggregate(9) };
    append(
        rig,
        &[
            event("failed-1", 7, 1),
            event("waits-behind", 7, 2),
            event("waits-before", 8, 1),
            event("failed-2", 8, 2),
            event("released", 9, 1),
            event("waits-after-release", 9, 2),
            of_type(BOOK_OVERDUE, event("overdue", 10, 1)),
            event("waits-after-unordered", 10, 2),
            about(&foreign, event("failed-foreign", 9, 1)),
        ],
    )
    .await;
    let waiting = ["waits-behind", "waits-before", "waits-after-release", "waits-after-unordered"];
    in_unit!(rig, |unit| {
        let waiting = waiting.map(|id| to_retry(id, Some(later(50))));
        unit.outbox().mark_failed(&waiting, later(1)).await.unwrap();
    });
    fail(rig, &["released"], 1).await;
    release(rig, &aggregate(9), 1).await;
    fail(rig, &["failed-1", "failed-2", "overdue", "failed-foreign"], 1).await;
    let listed = async |on_failed: OnFailed, before: Option<i64>, limit: u32| {
        let mut view = view(rig).await;
        let page =
            view.outbox_view().waiting_page(&unordered(), on_failed, None, later(2), before, limit).await;
        page.expect("cannot read waiting aggregates")
    };
    let ids = |page: &[Numbered<Blocked>]| {
        page.iter().map(|row| row.effect.event_id.to_string()).collect::<Vec<String>>()
    };
    let not_blocked = ["waits-after-unordered", "waits-after-release"];
    let first = listed(OnFailed::Hold, None, 1).await;
    assert_eq!(ids(&first), not_blocked[..1]);
    assert_eq!(ids(&listed(OnFailed::Hold, Some(first[0].id), 10).await), not_blocked[1..]);
    assert_eq!(
        ids(&listed(OnFailed::Continue, None, 10).await),
        [&not_blocked[..], &["waits-before", "waits-behind"]].concat()
    );
    assert_eq!(blocked(rig).await, ["failed-foreign", "failed-2", "failed-1"]);
}

/// Only FAILED ordered events block their aggregate.
pub async fn only_an_ordered_failed_event_blocks_its_aggregate(rig: &dyn StoreRig) {
    let overdue = of_type(BOOK_OVERDUE, event("overdue", 10, 1));
    append(rig, &[event("new", 7, 1), event("retry", 8, 1), event("sent", 9, 1), overdue]).await;
    in_unit!(rig, |unit| {
        unit.outbox().mark_failed(&[to_retry("retry", Some(later(1)))], later(1)).await.unwrap();
        unit.outbox().mark_sent(&[&confirmed("sent")], later(1)).await.unwrap();
    });
    fail(rig, &["overdue"], 1).await;
    assert_eq!(blocked(rig).await, [""; 0]);
    fail(rig, &["new"], 1).await;
    assert_eq!(blocked(rig).await, ["new"]);
    in_unit!(rig, |unit| unit.outbox().redrive(&[redrive("new", later(1))], later(1)).await.unwrap());
    assert_eq!(blocked(rig).await, [""; 0], "a redriven event must not block");
}

/// Held events are the pending, ordered events of the same aggregate after the failed event, whatever their ids.
pub async fn events_held_by_a_failed_event_are_counted(rig: &dyn StoreRig) {
    let others = [
        AggregateRef { tenant: tenant(2), ..aggregate(7) },
        AggregateRef { kind: "Shelf".into(), ..aggregate(7) },
        aggregate(8),
    ];
    for (n, other) in others.iter().enumerate() {
        append(rig, &[about(other, event(&format!("other-{n}"), 7, 9))]).await;
    }
    append(
        rig,
        &[
            event("held-with-a-smaller-id", 7, 9),
            event("earlier", 7, 1),
            event("failed", 7, 2),
            event("held-at-the-same-place", 7, 2),
            event("held-and-waiting", 7, 3),
            event("sent", 7, 4),
            event("failed-too", 7, 5),
            of_type(BOOK_OVERDUE, event("overdue", 7, 6)),
        ],
    )
    .await;
    fail(rig, &["failed", "failed-too"], 1).await;
    in_unit!(rig, |unit| {
        unit.outbox().mark_failed(&[to_retry("held-and-waiting", Some(later(50)))], later(1)).await.unwrap();
        unit.outbox().mark_sent(&[&confirmed("sent")], later(1)).await.unwrap();
    });
    let page = view(rig).await.outbox_view().blocked_page(&unordered(), None, None, 10).await.unwrap();
    assert_eq!(page.len(), 1, "{page:?}");
    assert_eq!((page[0].effect.event_id.as_str(), page[0].effect.held), ("failed", 3));
}

/// Pages are ordered by outbox id, greatest first; each page starts below the cursor of the previous page.
pub async fn pages_of_blocked_aggregates_are_ordered_by_descending_outbox_id(rig: &dyn StoreRig) {
    let ids = ["a", "b", "c", "d", "e"];
    for (book, id) in (1..).zip(ids) {
        append(rig, &[event(id, book, 1), event(&format!("{id}-later"), book, 2)]).await;
    }
    fail(rig, &["c", "a", "e", "b", "d"], 1).await;
    fail(rig, &["b-later"], 1).await;
    let (first, next) = page(rig, None, None, 2).await;
    assert_eq!(first, ["e", "d"]);
    let (second, next) = page(rig, Some(1), next, 2).await;
    assert_eq!(second, ["c", "b"]);
    let (last, next) = page(rig, None, next, 2).await;
    assert_eq!(last, ["a"]);
    assert_eq!(page(rig, None, next, 2).await, (Vec::new(), None));
}

/// Blocked aggregates belong to one tenant; a query without a tenant returns all.
pub async fn blocked_aggregates_belong_to_one_tenant(rig: &dyn StoreRig) {
    let foreign = AggregateRef { tenant: tenant(2), ..aggregate(7) };
    append(rig, &[event("own", 7, 1), about(&foreign, event("foreign", 7, 1))]).await;
    fail(rig, &["own", "foreign"], 1).await;
    assert_eq!(page(rig, Some(1), None, 10).await.0, ["own"]);
    assert_eq!(page(rig, Some(2), None, 10).await.0, ["foreign"]);
    assert_eq!(page(rig, Some(3), None, 10).await.0, [""; 0]);
    assert_eq!(blocked(rig).await, ["foreign", "own"]);
}

/// A release unblocks later events, returns the number of failed events that blocked them, and leaves these
/// `FAILED`.
pub async fn a_release_unblocks_later_events_permanently(rig: &dyn StoreRig) {
    append(rig, &[event("one", 7, 1), event("two", 7, 2), event("behind", 7, 3)]).await;
    fail(rig, &["one", "two"], 1).await;
    assert_eq!(due_under_hold(rig).await, [""; 0]);
    assert_eq!(release(rig, &aggregate(7), 5).await, 2);
    assert_eq!(due_under_hold(rig).await, ["behind"]);
    assert_eq!(blocked(rig).await, [""; 0]);
    for id in ["one", "two"] {
        let seen = row(rig, id).await;
        assert_eq!((seen.status, seen.released_time), (OutboxStatus::Failed, Some(later(5))), "{id}");
    }
    assert_eq!(release(rig, &aggregate(7), 6).await, 0, "no event may be released twice");
    assert_eq!(row(rig, "one").await.released_time, Some(later(5)));
}

/// A release applies to events that have already failed: a later failure blocks again and needs another release.
pub async fn a_failure_after_a_release_blocks_again(rig: &dyn StoreRig) {
    append(rig, &[event("one", 7, 1), event("two", 7, 2), event("behind", 7, 3)]).await;
    fail(rig, &["one"], 1).await;
    assert_eq!(release(rig, &aggregate(7), 2).await, 1);
    fail(rig, &["two"], 3).await;
    assert_eq!(blocked(rig).await, ["two"]);
    assert_eq!(due_under_hold(rig).await, [""; 0]);
    assert_eq!(release(rig, &aggregate(7), 4).await, 1);
    assert_eq!(due_under_hold(rig).await, ["behind"]);
}

/// A release changes only blocking events, not pending, sent or unordered ones.
pub async fn a_release_does_not_change_events_that_block_nothing(rig: &dyn StoreRig) {
    let overdue = of_type(BOOK_OVERDUE, event("overdue", 7, 1));
    append(rig, &[overdue, event("new", 7, 2), event("sent", 7, 3)]).await;
    fail(rig, &["overdue"], 1).await;
    in_unit!(rig, |unit| unit.outbox().mark_sent(&[&confirmed("sent")], later(1)).await.unwrap());
    assert_eq!(release(rig, &aggregate(7), 2).await, 0);
    for id in ["overdue", "new", "sent"] {
        assert_eq!(row(rig, id).await.released_time, None, "{id}");
    }
    assert_eq!(release(rig, &aggregate(8), 2).await, 0, "a missing aggregate has no events to release");
}

/// A release applies to one aggregate, which is identified by tenant, kind and id.
pub async fn a_release_applies_to_one_aggregate(rig: &dyn StoreRig) {
    let all = [
        ("own", aggregate(7)),
        ("foreign", AggregateRef { tenant: tenant(2), ..aggregate(7) }),
        ("other-kind", AggregateRef { kind: "book".into(), ..aggregate(7) }),
        ("other-id", aggregate(8)),
    ];
    append(rig, &all.clone().map(|(id, of)| about(&of, event(id, 7, 1)))).await;
    fail(rig, &all.clone().map(|(id, _)| id), 1).await;
    let mut left: Vec<_> = all.iter().rev().map(|(id, _)| *id).collect();
    for (id, of) in [&all[1], &all[0], &all[3], &all[2]] {
        assert_eq!(release(rig, of, 2).await, 1, "{id}");
        left.retain(|other| other != id);
        assert_eq!(blocked(rig).await, left, "after {id}");
    }
}
