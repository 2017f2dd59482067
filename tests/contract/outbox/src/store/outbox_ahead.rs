//! The search for rows behind a backlog of other groups of events.

use std::collections::BTreeSet;

use handover_events::{AggregateRef, PartitionSet};
use handover_outbox::ports::{Ahead, AheadQuery, DueQuery, EventGroup, NewEvent, OnFailed};

use super::{StoreRig, in_unit, view};
use crate::samples::{
    BOOK_OVERDUE, confirmed, due_at, event, later, of_type, partition, start, tenant, to_failed, to_retry,
};

async fn append(rig: &dyn StoreRig, events: &[NewEvent]) {
    in_unit!(rig, |unit| unit.outbox().append(events).await.expect("events are appended"));
}

async fn mark_sent(rig: &dyn StoreRig, id: &str) {
    let moved = in_unit!(rig, |unit| unit.outbox().mark_sent(&[&confirmed(id)], start()).await.unwrap());
    assert_eq!(moved, 1, "{id} becomes SENT");
}

fn of_tenant(number: i64, event: NewEvent) -> NewEvent {
    NewEvent { aggregate: AggregateRef { tenant: tenant(number), ..event.aggregate.clone() }, ..event }
}

fn ahead_of(except: &[EventGroup]) -> AheadQuery {
    AheadQuery { due: due_at(start()), except: except.iter().cloned().collect(), max_read: 1_000 }
}

async fn search(rig: &dyn StoreRig, query: &AheadQuery) -> Ahead {
    view(rig).await.outbox_view().outbox_ahead(query).await.expect("cannot search behind the backlog")
}

async fn found(rig: &dyn StoreRig, query: &AheadQuery) -> Vec<String> {
    search(rig, query).await.rows.into_iter().map(|row| row.event_id.into()).collect()
}

/// Rows of the excluded tenants, types, and types of a tenant are left out; without any, all due rows are returned.
pub async fn a_search_ahead_leaves_out_rows_of_the_excluded_groups(rig: &dyn StoreRig) {
    append(
        rig,
        &[
            event("lent-1", 1, 1),
            of_tenant(2, event("lent-2", 2, 1)),
            of_type("RESERVED", event("reserved-1", 3, 1)),
            of_type("RESERVED", of_tenant(2, event("reserved-2", 4, 1))),
        ],
    )
    .await;
    let lent = event("x", 1, 1).event_type;
    let one = event("x", 1, 1).aggregate.tenant;
    assert_eq!(found(rig, &ahead_of(&[])).await, ["lent-1", "lent-2", "reserved-1", "reserved-2"]);
    let of_one = [EventGroup::Tenant(one)];
    assert_eq!(found(rig, &ahead_of(&of_one)).await, ["lent-2", "reserved-2"]);
    let of_type = [EventGroup::Type("RESERVED".to_owned())];
    assert_eq!(found(rig, &ahead_of(&of_type)).await, ["lent-1", "lent-2"]);
    let of_both = [EventGroup::TenantAndType(one, lent.clone())];
    assert_eq!(found(rig, &ahead_of(&of_both)).await, ["lent-2", "reserved-1", "reserved-2"]);
    let several = [EventGroup::TenantAndType(tenant(2), lent), EventGroup::Type("RESERVED".to_owned())];
    assert_eq!(found(rig, &ahead_of(&several)).await, ["lent-1"]);
}

/// An ordered row is not found while an earlier one of its aggregate is pending, whether that row is of an excluded group,
/// has a greater id, or is below the start of the search. An unordered row is.
pub async fn a_search_ahead_finds_only_the_first_pending_row_of_an_aggregate(rig: &dyn StoreRig) {
    append(
        rig,
        &[
            event("a1", 1, 1),
            of_type("RESERVED", event("a2", 1, 2)),
            of_type("RESERVED", event("a3", 1, 3)),
            of_type(BOOK_OVERDUE, event("overdue", 1, 4)),
            of_type("RESERVED", event("b2", 2, 2)),
            event("b1", 2, 1),
            of_type("RESERVED", event("c1", 3, 1)),
        ],
    )
    .await;
    let lent = [EventGroup::Type(event("x", 1, 1).event_type)];
    let query = ahead_of(&lent);
    assert_eq!(found(rig, &query).await, ["overdue", "c1"]);
    let from_id = search(rig, &ahead_of(&[])).await.rows[0].id + 1;
    let query = AheadQuery { due: DueQuery { from_id, ..query.due.clone() }, ..query };
    assert_eq!(found(rig, &query).await, ["overdue", "c1"]);
    mark_sent(rig, "a1").await;
    assert_eq!(found(rig, &query).await, ["a2", "overdue", "c1"]);
    mark_sent(rig, "a2").await;
    mark_sent(rig, "b1").await;
    assert_eq!(found(rig, &query).await, ["a3", "overdue", "b2", "c1"]);
}

/// Rows of other partitions, rows that are not due, and rows behind a FAILED one with `hold` are not found.
pub async fn a_search_ahead_finds_only_rows_that_may_be_published(rig: &dyn StoreRig) {
    append(
        rig,
        &[event("a1", 1, 1), event("a2", 1, 2), event("b1", 2, 1), event("b2", 2, 2), event("c1", 3, 1)],
    )
    .await;
    in_unit!(rig, |unit| unit
        .outbox()
        .mark_failed(&[to_failed("a1"), to_retry("b1", Some(later(5)))], start())
        .await
        .unwrap());
    let at = async |now, on_failed| {
        let query = ahead_of(&[]);
        found(rig, &AheadQuery { due: DueQuery { now, on_failed, ..query.due.clone() }, ..query }).await
    };
    assert_eq!(at(start(), OnFailed::Continue).await, ["a2", "c1"]);
    assert_eq!(at(start(), OnFailed::Hold).await, ["c1"]);
    assert_eq!(at(later(5), OnFailed::Hold).await, ["b1", "c1"]);
    let own: PartitionSet = [partition(3)].into_iter().collect();
    let query = ahead_of(&[]);
    let due = DueQuery { partitions: own, ..query.due.clone() };
    assert_eq!(found(rig, &AheadQuery { due, ..query }).await, ["c1"]);
}

/// Whatever it reads at once and however many rows it returns at once, a search that is continued finds every row.
pub async fn a_search_ahead_that_is_continued_finds_every_row(rig: &dyn StoreRig) {
    let of_two = |n: i64| if n % 3 == 0 { 2 } else { 1 };
    let events: Vec<_> = (1..=20).map(|n| of_tenant(of_two(n), event(&format!("e{n}"), n, 1))).collect();
    append(rig, &events).await;
    let one = [EventGroup::Tenant(event("x", 1, 1).aggregate.tenant)];
    for (max_read, limit) in [(1, 100), (4, 100), (7, 1), (100, 1), (100, 2), (20, 100), (100, 100)] {
        let mut all = Vec::new();
        let mut from_id = 0;
        let mut searches = 0;
        loop {
            let due = DueQuery { from_id, limit, ..due_at(start()) };
            let except: BTreeSet<_> = one.iter().cloned().collect();
            let ahead = search(rig, &AheadQuery { due, except, max_read }).await;
            assert!(ahead.rows.len() <= limit.min(max_read) as usize, "{ahead:?}");
            all.extend(ahead.rows.into_iter().map(|row| String::from(row.event_id)));
            if ahead.is_end {
                break;
            }
            assert!(ahead.next_id > from_id, "the search does not progress beyond {from_id}");
            from_id = ahead.next_id;
            searches += 1;
            assert!(searches <= 40, "the search does not end");
        }
        assert_eq!(all, ["e3", "e6", "e9", "e12", "e15", "e18"], "{max_read} read, {limit} returned");
        assert!(max_read > 20 || searches >= 20 / max_read, "{max_read} read, {searches} searches");
    }
}

/// The rows in flight are left out, and do not count against the limit. They still precede the later rows of their aggregates
/// in the search behind a backlog.
pub async fn rows_in_flight_are_left_out(rig: &dyn StoreRig) {
    let rows_of_others = (11..31).map(|book| event(&format!("r-{book}"), book, 1));
    let events = [event("a", 1, 1), event("b", 2, 1), event("c", 1, 2), event("d", 3, 1)];
    append(rig, &events.into_iter().chain(rows_of_others).collect::<Vec<_>>()).await;
    let all = view(rig).await.outbox_view().outbox_due(&due_at(start())).await.unwrap().rows;
    // Single ids, and consecutive ones.
    let is_in_flight = |n: usize| n < 2 || (4..24).contains(&n) && n != 20;
    let in_flight = all.iter().enumerate().filter(|(n, _)| is_in_flight(*n)).map(|(_, row)| row.id);
    let in_flight: Vec<i64> = in_flight.rev().collect();
    let expected: Vec<String> = [2, 3, 20].map(|n: usize| all[n].event_id.as_str().to_owned()).into();
    for limit in [3, 100] {
        let due = DueQuery { limit, in_flight: in_flight.clone(), ..due_at(start()) };
        let rows = view(rig).await.outbox_view().outbox_due(&due).await.unwrap().rows;
        let ids: Vec<String> = rows.into_iter().map(|row| row.event_id.into()).collect();
        assert_eq!(ids, expected, "limit {limit}");
        let query = AheadQuery { due, except: BTreeSet::new(), max_read: 100 };
        assert_eq!(found(rig, &query).await, expected[1..], "limit {limit}");
    }
}
