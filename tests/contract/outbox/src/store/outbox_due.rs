//! Rows that may be published now, and the time when the next one is due.

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{AggregateRef, Partition, PartitionSet};
use handover_outbox::ports::{DueQuery, NewEvent, OnFailed, OutboxRow};

use super::{StoreRig, in_unit, view};
use crate::samples::{
    BOOK, BOOK_OVERDUE, confirmed, due_at, event, event_id, later, of_type, partition, start, tenant,
    to_failed, to_retry,
};

use OnFailed::{Continue, Hold};

async fn append(rig: &dyn StoreRig, events: &[NewEvent]) {
    in_unit!(rig, |unit| unit.outbox().append(events).await.expect("events are appended"));
}

async fn retry(rig: &dyn StoreRig, id: &str, due: Option<DateTime<Utc>>) {
    let moved = in_unit!(rig, |unit| unit.outbox().mark_failed(&[to_retry(id, due)], start()).await.unwrap());
    assert_eq!(moved, 1, "{id} becomes RETRY");
}

async fn fail(rig: &dyn StoreRig, id: &str) {
    let moved = in_unit!(rig, |unit| unit.outbox().mark_failed(&[to_failed(id)], start()).await.unwrap());
    assert_eq!(moved, 1, "{id} becomes FAILED");
}

async fn due_of(
    rig: &dyn StoreRig,
    set: PartitionSet,
    now: DateTime<Utc>,
    mode: OnFailed,
    limit: u32,
) -> Vec<String> {
    let rows = view(rig)
        .await
        .outbox_view()
        .outbox_due(&DueQuery { partitions: set, on_failed: mode, limit, ..due_at(now) })
        .await
        .expect("cannot read due rows")
        .rows;
    rows.into_iter().map(|row| row.event_id.into()).collect()
}

async fn due(rig: &dyn StoreRig, now: DateTime<Utc>) -> Vec<String> {
    due_of(rig, PartitionSet::ALL, now, Continue, 100).await
}

async fn due_under_hold(rig: &dyn StoreRig) -> Vec<String> {
    due_of(rig, PartitionSet::ALL, start(), Hold, 100).await
}

async fn next_due(rig: &dyn StoreRig, set: PartitionSet, now: DateTime<Utc>) -> Option<DateTime<Utc>> {
    let query = DueQuery { partitions: set, ..due_at(now) };
    view(rig).await.outbox_view().outbox_due(&query).await.expect("cannot read the next due time").next
}

/// New rows are due immediately, smallest id first.
pub async fn new_rows_are_due_in_the_order_of_their_ids(rig: &dyn StoreRig) {
    append(rig, &[event("c", 3, 1), event("a", 1, 1), event("b", 2, 1)]).await;
    append(rig, &[event("d", 1, 2)]).await;
    assert_eq!(due(rig, start()).await, ["c", "a", "b", "d"]);
}

/// `limit` limits the result; the remaining rows follow once the first are settled.
pub async fn no_more_rows_than_the_limit_are_returned(rig: &dyn StoreRig) {
    append(rig, &[event("a", 1, 1), event("b", 2, 1), event("c", 3, 1)]).await;
    assert_eq!(due_of(rig, PartitionSet::ALL, start(), Continue, 2).await, ["a", "b"]);
    in_unit!(rig, |unit| unit
        .outbox()
        .mark_sent(&[&confirmed("a"), &confirmed("b")], start())
        .await
        .unwrap());
    assert_eq!(due_of(rig, PartitionSet::ALL, start(), Continue, 2).await, ["c"]);
}

/// Only rows of the requested partitions are returned.
pub async fn only_rows_of_the_requested_partitions_are_due(rig: &dyn StoreRig) {
    let all: Vec<_> =
        Partition::all().map(|p| event(&format!("p{}", p.number()), i64::from(p.number()) + 1, 1)).collect();
    append(rig, &all).await;
    let own: PartitionSet = [partition(5), partition(64)].into_iter().collect();
    assert_eq!(due_of(rig, own, start(), Continue, 100).await, ["p4", "p63"]);
    assert_eq!(due_of(rig, PartitionSet::EMPTY, start(), Continue, 100).await, [""; 0]);
    assert_eq!(due(rig, start()).await.len(), 64);
}

/// A row is in the partition that `Partition::of` computes from tenant and aggregate id, even if the ids are large or
/// negative.
pub async fn every_aggregate_is_in_the_partition_that_the_domain_computes(rig: &dyn StoreRig) {
    let ids = [0, 1, 63, 64, -1, -65, i64::MAX, i64::MIN, 9_007_199_254_740_991];
    let of = |tenant_id: i64, id: i64| AggregateRef {
        tenant: tenant(tenant_id),
        kind: BOOK.into(),
        id: id.into(),
    };
    let aggregates: Vec<_> =
        [1, 2, 9_007_199_254_740_991].iter().flat_map(|t| ids.map(|id| of(*t, id))).collect();
    let about = |(n, aggregate): (usize, &AggregateRef)| NewEvent {
        aggregate: aggregate.clone(),
        ..event(&format!("e{n}"), 1, 1)
    };
    append(rig, &aggregates.iter().enumerate().map(about).collect::<Vec<_>>()).await;
    for (n, aggregate) in aggregates.iter().enumerate() {
        let own: PartitionSet =
            [Partition::of(aggregate.tenant, aggregate.id.number())].into_iter().collect();
        let seen = due_of(rig, own, start(), Continue, 100).await;
        assert!(seen.contains(&format!("e{n}")), "the row of {aggregate:?} is not due in {own:?}");
    }
}

/// A row is due at `next_retry_time`, not a microsecond earlier.
pub async fn a_retry_is_due_at_its_next_retry_time_and_not_before(rig: &dyn StoreRig) {
    append(rig, &[event("a", 1, 1)]).await;
    let due_at = later(5);
    retry(rig, "a", Some(due_at)).await;
    assert_eq!(due(rig, due_at - TimeDelta::microseconds(1)).await, [""; 0]);
    assert_eq!(due(rig, due_at).await, ["a"]);
    assert_eq!(due(rig, due_at + TimeDelta::microseconds(1)).await, ["a"]);
}

/// A row whose `next_retry_time` is NULL is due at once, in `RETRY` as in `NEW`.
pub async fn a_retry_without_a_time_is_due_at_once(rig: &dyn StoreRig) {
    append(rig, &[event("a", 1, 1), event("b", 1, 2)]).await;
    retry(rig, "a", None).await;
    assert_eq!(due(rig, later(-1_000_000)).await, ["a", "b"]);
}

/// Settled rows are never returned.
pub async fn sent_and_failed_rows_are_never_due(rig: &dyn StoreRig) {
    append(rig, &[event("sent", 1, 1), event("failed", 2, 1), event("new", 3, 1)]).await;
    in_unit!(rig, |unit| unit.outbox().mark_sent(&[&confirmed("sent")], start()).await.unwrap());
    fail(rig, "failed").await;
    assert_eq!(due(rig, later(1_000_000)).await, ["new"]);
    assert_eq!(due_of(rig, PartitionSet::ALL, later(1_000_000), Hold, 100).await, ["new"]);
}

/// A row that is not due blocks later rows of its aggregate, due or not, and no other aggregate.
pub async fn a_retry_row_that_is_not_due_blocks_only_its_own_aggregate(rig: &dyn StoreRig) {
    append(
        rig,
        &[event("a1", 1, 1), event("a2", 1, 2), event("a3", 1, 3), event("b1", 2, 1), event("b2", 2, 2)],
    )
    .await;
    retry(rig, "a1", Some(later(5))).await;
    retry(rig, "a2", Some(later(1))).await;
    assert_eq!(due(rig, later(2)).await, ["b1", "b2"], "a1 is not due, so it must block a2");
    assert_eq!(due_of(rig, PartitionSet::ALL, later(2), Hold, 100).await, ["b1", "b2"]);
    assert_eq!(due(rig, later(5)).await, ["a1", "a2", "a3", "b1", "b2"]);
}

/// A row that is not due does not block earlier rows.
pub async fn a_row_that_is_not_due_does_not_block_earlier_rows(rig: &dyn StoreRig) {
    append(rig, &[event("a1", 1, 1), event("a2", 1, 2), event("a3", 1, 3)]).await;
    retry(rig, "a2", Some(later(5))).await;
    assert_eq!(due(rig, start()).await, ["a1"]);
}

/// A different kind, id or tenant is a different aggregate, even in the same partition.
pub async fn an_aggregate_is_identified_by_tenant_kind_and_id(rig: &dyn StoreRig) {
    let shelf = AggregateRef { kind: "Shelf".into(), ..event("x", 7, 1).aggregate };
    let neighbour = AggregateRef { id: (7 + 64).into(), ..event("x", 7, 1).aggregate };
    let other_tenant = AggregateRef { tenant: tenant(65), ..event("x", 7, 1).aggregate };
    for other in [&shelf, &neighbour, &other_tenant] {
        assert_eq!(Partition::of(other.tenant, other.id.number()), partition(7), "the partitions differ");
    }
    append(
        rig,
        &[
            event("book", 7, 1),
            NewEvent { aggregate: shelf, ..event("shelf", 7, 2) },
            NewEvent { aggregate: neighbour, ..event("neighbour", 7, 2) },
            NewEvent { aggregate: other_tenant, ..event("other-tenant", 7, 2) },
        ],
    )
    .await;
    retry(rig, "book", Some(later(5))).await;
    assert_eq!(due(rig, start()).await, ["shelf", "neighbour", "other-tenant"]);
    fail(rig, "book").await;
    assert_eq!(due_under_hold(rig).await, ["shelf", "neighbour", "other-tenant"]);
}

/// A failed row blocks later rows only with `OnFailed::Hold`.
pub async fn a_failed_row_blocks_later_rows_only_if_on_failed_is_hold(rig: &dyn StoreRig) {
    append(rig, &[event("a1", 1, 1), event("a2", 1, 2), event("a3", 1, 3), event("b1", 2, 1)]).await;
    fail(rig, "a1").await;
    assert_eq!(due(rig, start()).await, ["a2", "a3", "b1"]);
    assert_eq!(due_under_hold(rig).await, ["b1"]);
}

/// With `OnFailed::Hold` a failed row blocks later rows, not earlier ones.
pub async fn a_failed_row_does_not_block_earlier_rows(rig: &dyn StoreRig) {
    append(rig, &[event("a1", 1, 1), event("a2", 1, 2), event("a3", 1, 3)]).await;
    fail(rig, "a2").await;
    assert_eq!(due_under_hold(rig).await, ["a1"]);
    assert_eq!(due(rig, start()).await, ["a1", "a3"]);
}

/// An event of an unordered type waits for no other event.
pub async fn an_event_of_an_unordered_type_is_never_blocked(rig: &dyn StoreRig) {
    append(rig, &[event("a1", 1, 1), of_type(BOOK_OVERDUE, event("overdue", 1, 2)), event("a3", 1, 3)]).await;
    retry(rig, "a1", Some(later(5))).await;
    assert_eq!(due(rig, start()).await, ["overdue"]);
    fail(rig, "a1").await;
    assert_eq!(due_under_hold(rig).await, ["overdue"]);
}

/// An event of an unordered type blocks no other event, whether it waits for its next attempt or has failed.
pub async fn an_event_of_an_unordered_type_blocks_nothing(rig: &dyn StoreRig) {
    append(rig, &[of_type(BOOK_OVERDUE, event("overdue", 1, 1)), event("a1", 1, 1), event("a2", 1, 2)]).await;
    retry(rig, "overdue", Some(later(5))).await;
    assert_eq!(due(rig, start()).await, ["a1", "a2"]);
    fail(rig, "overdue").await;
    assert_eq!(due_under_hold(rig).await, ["a1", "a2"]);
}

/// The caller defines the unordered types: none, or several.
pub async fn the_caller_defines_the_unordered_types(rig: &dyn StoreRig) {
    let of = |name: &str, id: &str, seq: i64| NewEvent { event_type: name.into(), ..event(id, 1, seq) };
    append(rig, &[of("HELLO", "hello", 1), of("REMINDER", "reminder", 2), of("DONE", "done", 3)]).await;
    retry(rig, "hello", Some(later(5))).await;
    let due = async |names: &[&str], on_failed: OnFailed| {
        let unordered = names.iter().copied().collect();
        let query = DueQuery { unordered, on_failed, ..due_at(start()) };
        let rows = view(rig).await.outbox_view().outbox_due(&query).await.expect("cannot read due rows").rows;
        rows.into_iter().map(|row| row.event_id.into()).collect::<Vec<String>>()
    };
    assert_eq!(due(&[], Continue).await, [""; 0], "HELLO is not due and must block the others");
    assert_eq!(due(&["REMINDER"], Continue).await, ["reminder"]);
    assert_eq!(due(&["REMINDER", "HELLO", "BYE"], Continue).await, ["reminder", "done"]);
    fail(rig, "hello").await;
    assert_eq!(due(&[], Hold).await, [""; 0]);
    assert_eq!(due(&["DONE", "REMINDER"], Hold).await, ["reminder", "done"]);
    assert_eq!(due(&["HELLO"], Hold).await, ["reminder", "done"]);
}

/// An unregistered type is ordered like any other.
pub async fn an_unknown_type_is_ordered_like_any_other(rig: &dyn StoreRig) {
    let unknown = |id: &str, seq: i64| NewEvent { event_type: "SOMETHING_ELSE".into(), ..event(id, 1, seq) };
    append(rig, &[unknown("a1", 1), event("a2", 1, 2), unknown("a3", 3)]).await;
    retry(rig, "a1", Some(later(5))).await;
    assert_eq!(due(rig, start()).await, [""; 0]);
}

/// Rows of an aggregate are returned by `aggregate_seq` and then by id, whatever the order of insertion.
pub async fn rows_of_an_aggregate_are_ordered_by_sequence_then_id(rig: &dyn StoreRig) {
    append(rig, &[event("a3", 1, 3), event("a1", 1, 1), event("a2-first", 1, 2), event("a2-second", 1, 2)])
        .await;
    assert_eq!(due(rig, start()).await, ["a1", "a2-first", "a2-second", "a3"]);
}

/// If two rows have the same sequence number, the one with the smaller id is earlier and blocks the other.
pub async fn rows_with_the_same_sequence_are_ordered_by_id(rig: &dyn StoreRig) {
    append(
        rig,
        &[event("a-first", 1, 1), event("a-second", 1, 1), event("b-first", 2, 1), event("b-second", 2, 1)],
    )
    .await;
    retry(rig, "a-first", Some(later(5))).await;
    retry(rig, "b-second", Some(later(5))).await;
    assert_eq!(due(rig, start()).await, ["b-first"]);
}

/// A row with a smaller sequence number (0 if inserted by SQL) blocks rows with a greater one, even if its id is
/// greater.
pub async fn a_row_blocks_greater_sequence_numbers_even_if_its_id_is_greater(rig: &dyn StoreRig) {
    append(rig, &[event("a2", 1, 2), event("by-sql", 1, 0), event("b", 2, 1)]).await;
    retry(rig, "by-sql", Some(later(5))).await;
    assert_eq!(due(rig, start()).await, ["b"]);
    fail(rig, "by-sql").await;
    assert_eq!(due_under_hold(rig).await, ["b"]);
    assert_eq!(due(rig, start()).await, ["a2", "b"]);
}

/// Whatever the limit is, at least one row is returned, and every row together with the earlier due rows of its
/// aggregate.
pub async fn a_limit_never_skips_an_earlier_due_row_of_an_aggregate(rig: &dyn StoreRig) {
    // Pairs of aggregate and sequence number in the order of insertion. In some aggregates, a greater sequence number
    // has a smaller id.
    let plan = [(1, 2), (2, 1), (1, 1), (3, 5), (2, 2), (1, 0), (3, 4), (3, 3), (2, 3), (4, 1)];
    let events: Vec<_> =
        plan.iter().map(|(book, seq)| event(&format!("{book}-{seq}"), *book, *seq)).collect();
    append(rig, &events).await;
    for limit in 1..=10 {
        let rows = view(rig)
            .await
            .outbox_view()
            .outbox_due(&DueQuery { limit, ..due_at(start()) })
            .await
            .unwrap()
            .rows;
        assert!(!rows.is_empty(), "all ten rows are due, but none is returned at a limit of {limit}");
        assert!(rows.len() <= limit as usize, "{} rows were returned at a limit of {limit}", rows.len());
        for aggregate in 1..=4 {
            let mut all: Vec<_> =
                plan.iter().filter(|(book, _)| *book == aggregate).map(|(_, seq)| *seq).collect();
            all.sort_unstable();
            let came: Vec<_> = rows
                .iter()
                .filter(|row| row.aggregate.id == aggregate)
                .map(|row| row.aggregate_seq)
                .collect();
            assert_eq!(
                came,
                all[..came.len()],
                "the rows of aggregate {aggregate} are not its earliest at a limit of {limit}"
            );
        }
    }
}

/// Blocked rows do not count against the limit, so they delay no other row.
pub async fn blocked_rows_do_not_count_against_the_limit(rig: &dyn StoreRig) {
    let blocked: Vec<_> = (1..=40)
        .flat_map(|n| {
            [
                event(&format!("head{n}"), n, 1),
                event(&format!("held{n}"), n, 2),
                event(&format!("also{n}"), n, 3),
            ]
        })
        .collect();
    append(rig, &blocked).await;
    let waiting: Vec<_> = (1..=40).map(|n| to_retry(&format!("head{n}"), Some(later(5)))).collect();
    in_unit!(rig, |unit| unit.outbox().mark_failed(&waiting, start()).await.unwrap());
    append(rig, &[event("free1", 50, 1), event("free2", 51, 1), event("free3", 51, 2)]).await;
    assert_eq!(due_of(rig, PartitionSet::ALL, start(), Continue, 2).await, ["free1", "free2"]);

    let failed: Vec<_> = (1..=40).map(|n| to_failed(&format!("head{n}"))).collect();
    in_unit!(rig, |unit| unit.outbox().mark_failed(&failed, start()).await.unwrap());
    assert_eq!(due_of(rig, PartitionSet::ALL, start(), Hold, 2).await, ["free1", "free2"]);
}

/// A unit of work sees its own changes when it reads due rows.
pub async fn a_unit_of_work_sees_its_own_changes_when_it_reads_due_rows(rig: &dyn StoreRig) {
    append(rig, &[event("a1", 1, 1), event("a2", 1, 2)]).await;
    in_unit!(rig, |unit| {
        unit.outbox().mark_sent(&[&confirmed("a1")], start()).await.unwrap();
        let rows = unit.outbox().outbox_due(&DueQuery { limit: 10, ..due_at(start()) }).await.unwrap().rows;
        assert_eq!(rows.iter().map(|row| &row.event_id).collect::<Vec<_>>(), [&event_id("a2")]);
    });
}

/// The next due time is the earliest one after `now`.
pub async fn the_next_due_time_is_the_earliest_after_now(rig: &dyn StoreRig) {
    append(rig, &[event("a", 1, 1), event("b", 2, 1), event("c", 3, 1), event("d", 4, 1)]).await;
    assert_eq!(next_due(rig, PartitionSet::ALL, start()).await, None, "new rows must have no due time");
    retry(rig, "a", Some(later(9))).await;
    retry(rig, "b", Some(later(5))).await;
    retry(rig, "c", None).await;
    retry(rig, "d", Some(later(-5))).await;
    assert_eq!(next_due(rig, PartitionSet::ALL, start()).await, Some(later(5)));
    assert_eq!(next_due(rig, PartitionSet::ALL, later(5)).await, Some(later(9)), "strictly after now");
    assert_eq!(next_due(rig, PartitionSet::ALL, later(9)).await, None);
}

/// The next due time is that of a pending row in one of the requested partitions.
pub async fn the_next_due_time_is_of_a_pending_row_in_a_requested_partition(rig: &dyn StoreRig) {
    append(rig, &[event("a", 1, 1), event("b", 2, 1), event("c", 3, 1)]).await;
    retry(rig, "a", Some(later(5))).await;
    retry(rig, "b", Some(later(6))).await;
    retry(rig, "c", Some(later(7))).await;
    let others: PartitionSet = [partition(2), partition(3)].into_iter().collect();
    assert_eq!(next_due(rig, others, start()).await, Some(later(6)));
    assert_eq!(next_due(rig, PartitionSet::EMPTY, start()).await, None);
    in_unit!(rig, |unit| unit.outbox().mark_sent(&[&confirmed("a")], start()).await.unwrap());
    fail(rig, "b").await;
    assert_eq!(next_due(rig, PartitionSet::ALL, start()).await, Some(later(7)));
}

async fn due_from(rig: &dyn StoreRig, from_id: i64) -> Vec<OutboxRow> {
    view(rig).await.outbox_view().outbox_due(&DueQuery { from_id, ..due_at(start()) }).await.unwrap().rows
}

/// A search that begins at an id returns the row of this id and all later ones.
pub async fn due_rows_from_an_id_include_its_row_and_all_later_ones(rig: &dyn StoreRig) {
    append(rig, &[event("a", 1, 1), event("b", 2, 1), event("c", 3, 1), event("d", 4, 1)]).await;
    let all = due_from(rig, 0).await;
    for (n, first) in all.iter().enumerate() {
        let rows = due_from(rig, first.id).await;
        assert!(rows.ends_with(&all[n..]), "from id {}: {rows:?}", first.id);
    }
    assert!(due_from(rig, all[3].id + 1).await.iter().all(|row| row.id <= all[3].id));
}

/// A search that begins at an id returns an event only after the earlier ones of its aggregate, also if their ids are
/// smaller.
pub async fn due_rows_from_an_id_follow_the_earlier_rows_of_their_aggregates(rig: &dyn StoreRig) {
    append(rig, &[event("a", 1, 1), event("b", 2, 1), event("c", 3, 1), event("d", 1, 2)]).await;
    let all = due_from(rig, 0).await;
    let of_first: Vec<&str> =
        all.iter().filter(|row| row.aggregate.id == 1).map(|row| row.event_id.as_str()).collect();
    let rows = due_from(rig, all[1].id).await;
    let found: Vec<&str> =
        rows.iter().filter(|row| row.aggregate.id == 1).map(|row| row.event_id.as_str()).collect();
    assert_eq!(found, of_first);
    assert!(rows.iter().any(|row| row.id == all[2].id), "{rows:?}");
}

/// The due ids of a range are those of all rows in it that may be published, smallest first.
pub async fn due_ids_are_those_of_due_rows_in_the_range(rig: &dyn StoreRig) {
    let of_book = |(n, book): (usize, i64)| event(&format!("e{n}"), book, n as i64);
    append(rig, &[1, 1, 2, 3, 4, 2].into_iter().enumerate().map(of_book).collect::<Vec<_>>()).await;
    let all: Vec<i64> = due_from(rig, 0).await.iter().map(|row| row.id).collect();
    // e0 holds e1 back, and e3 is in flight.
    retry(rig, "e0", Some(later(5))).await;
    let (first, end) = (all[0], all[5] + 1);
    let in_flight = vec![all[3]];
    let due = [all[2], all[4], all[5]];
    for (from_id, until_id) in (first..=end).flat_map(|from| (from..=end).map(move |until| (from, until))) {
        for limit in [1, 100] {
            let query = DueQuery { from_id, limit, in_flight: in_flight.clone(), ..due_at(start()) };
            let ids = view(rig).await.outbox_view().outbox_due_ids(&query, until_id).await.expect("due ids");
            let in_range = due.into_iter().filter(|id| (from_id..until_id).contains(id));
            let expected: Vec<i64> = in_range.take(limit as usize).collect();
            assert_eq!(ids, expected, "from {from_id} to {until_id}, at most {limit} of {all:?}");
        }
    }
}
