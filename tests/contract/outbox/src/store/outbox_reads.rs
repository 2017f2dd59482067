//! Queries of operators on the outbox: rows of an aggregate, and counts.

use std::ops::Range;

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, TenantId};
use handover_outbox::ports::{Backlog, NewEvent, OutboxCounts};

use super::outbox::append;
use super::{StoreRig, in_unit, view};
use crate::samples::{
    BOOK_OVERDUE, aggregate, confirmed, due_at, event, later, of_type, redrive, start, tenant, to_failed,
    to_retry, unordered,
};

async fn about(rig: &dyn StoreRig, aggregates: &[AggregateRef]) -> Vec<String> {
    let rows = view(rig).await.outbox_view().outbox_about(aggregates).await.expect("cannot read rows");
    rows.into_iter().map(|row| row.event_id.into()).collect()
}

/// All rows of the aggregates are returned, whatever their status and type, ordered by aggregate, sequence and id.
pub async fn rows_of_aggregates_are_ordered_by_aggregate_sequence_and_id(rig: &dyn StoreRig) {
    let foreign = AggregateRef { tenant: tenant(2), ..aggregate(7) };
    let other_kind = AggregateRef { kind: "book".into(), ..aggregate(7) };
    append(
        rig,
        &[
            event("third", 7, 3),
            event("first", 7, 1),
            of_type(BOOK_OVERDUE, event("first-too", 7, 1)),
            event("second", 7, 2),
            event("elsewhere", 8, 1),
            NewEvent { aggregate: foreign.clone(), ..event("foreign", 7, 1) },
            NewEvent { aggregate: other_kind, ..event("other-kind", 7, 1) },
        ],
    )
    .await;
    in_unit!(rig, |unit| {
        unit.outbox().mark_sent(&[&confirmed("first")], start()).await.unwrap();
        unit.outbox().mark_failed(&[to_failed("second")], start()).await.unwrap();
    });
    let of_seven = ["first", "first-too", "second", "third"];
    assert_eq!(about(rig, &[aggregate(7)]).await, of_seven);
    let all = [aggregate(8), foreign, aggregate(9), aggregate(7), aggregate(8)];
    assert_eq!(about(rig, &all).await, [&of_seven[..], &["elsewhere", "foreign"]].concat());
    assert_eq!(about(rig, &[]).await, [""; 0]);
}

/// Rows of many aggregates are returned completely.
pub async fn rows_of_many_aggregates_are_returned_completely(rig: &dyn StoreRig) {
    let events: Vec<_> = (1..=300).map(|n| event(&format!("e{n:03}"), n, 1)).collect();
    append(rig, &events).await;
    let aggregates: Vec<_> = (1..=300).rev().chain([5, 7]).map(aggregate).collect();
    let expected: Vec<_> = events.iter().map(|event| event.event_id.to_string()).collect();
    assert_eq!(about(rig, &aggregates).await, expected);
}

async fn counted(rig: &dyn StoreRig, of: Option<i64>) -> OutboxCounts {
    counted_among(rig, of, 100_000).await
}

async fn counted_among(rig: &dyn StoreRig, of: Option<i64>, max_ids: i64) -> OutboxCounts {
    view(rig).await.outbox_view().outbox_counts(of.map(tenant), max_ids).await.expect("cannot count rows")
}

/// Rows are counted by status, with the creation time of the oldest pending one.
pub async fn rows_are_counted_by_status(rig: &dyn StoreRig) {
    assert_eq!(counted(rig, None).await, OutboxCounts::default());
    let at = |id: &str, book: i64, at: i64| NewEvent { occurred_at: later(at), ..event(id, book, 1) };
    let events = [
        at("sent", 1, 1),
        at("failed", 2, 2),
        at("new", 3, 9),
        at("retry", 4, 5),
        at("new-too", 5, 7),
        at("sent-too", 6, 3),
        at("third-sent", 7, 8),
    ];
    append(rig, &events).await;
    in_unit!(rig, |unit| {
        let proofs = ["sent", "sent-too", "third-sent"].map(confirmed);
        unit.outbox().mark_sent(&proofs.iter().collect::<Vec<_>>(), later(10)).await.unwrap();
        unit.outbox().mark_failed(&[to_failed("failed"), to_retry("retry", None)], later(10)).await.unwrap();
    });
    let expected = OutboxCounts {
        new: 2,
        retry: 1,
        sent: 3,
        more_sent: false,
        failed: 1,
        oldest_pending: Some(later(5)),
    };
    assert_eq!(counted(rig, None).await, expected);
    in_unit!(rig, |unit| {
        let proofs = ["new", "retry", "new-too"].map(confirmed);
        unit.outbox().mark_sent(&proofs.iter().collect::<Vec<_>>(), later(11)).await.unwrap();
    });
    let expected = OutboxCounts { sent: 6, failed: 1, ..OutboxCounts::default() };
    assert_eq!(counted(rig, None).await, expected);
}

/// Rows are counted for one tenant, or for all.
pub async fn rows_are_counted_for_one_tenant_or_all(rig: &dyn StoreRig) {
    let foreign = AggregateRef { tenant: tenant(2), ..aggregate(7) };
    let old = NewEvent { aggregate: foreign, occurred_at: later(-9), ..event("foreign", 7, 1) };
    append(rig, &[event("own", 7, 1), event("own-too", 7, 2), old]).await;
    let new = |new: u64, oldest: i64| OutboxCounts {
        new,
        oldest_pending: Some(later(oldest)),
        ..OutboxCounts::default()
    };
    assert_eq!(counted(rig, Some(TenantId::DEFAULT.get())).await, new(2, 0));
    assert_eq!(counted(rig, Some(2)).await, new(1, -9));
    assert_eq!(counted(rig, Some(3)).await, OutboxCounts::default());
    assert_eq!(counted(rig, None).await, new(3, -9));
}

/// `SENT` rows are counted among the newest ids of the outbox, rows in other states among all ids.
pub async fn sent_rows_are_counted_among_the_newest_ids(rig: &dyn StoreRig) {
    append(rig, &[event("new", 1, 1)]).await;
    assert!(!counted_among(rig, None, 1).await.more_sent, "the only row has one of the newest ids");
    append(rig, &[event("retry", 2, 1), event("failed", 3, 1), event("released", 4, 1)]).await;
    append(rig, &[event("sent", 5, 1)]).await;
    let foreign = AggregateRef { tenant: tenant(2), ..aggregate(7) };
    append(rig, &[NewEvent { aggregate: foreign, ..event("foreign", 7, 1) }]).await;
    in_unit!(rig, |unit| {
        unit.outbox().mark_sent(&[&confirmed("sent"), &confirmed("foreign")], later(1)).await.unwrap();
        let failed = [to_retry("retry", None), to_failed("failed"), to_failed("released")];
        unit.outbox().mark_failed(&failed, later(1)).await.unwrap();
        unit.outbox().release(&aggregate(4), &unordered(), later(2)).await.unwrap();
    });
    let among = |sent: u64, more_sent: bool| OutboxCounts {
        new: 1,
        retry: 1,
        sent,
        more_sent,
        failed: 2,
        oldest_pending: Some(start()),
    };
    assert_eq!(counted_among(rig, None, 1).await, among(1, true));
    assert_eq!(counted_among(rig, Some(1), 1).await, among(0, true));
    assert_eq!(counted_among(rig, None, i64::MAX).await, among(2, false));
    assert_eq!(counted_among(rig, Some(1), i64::MAX).await, among(1, false));
    let of_foreign = OutboxCounts { sent: 1, more_sent: true, ..OutboxCounts::default() };
    assert_eq!(counted_among(rig, Some(2), 1).await, of_foreign);
}

/// The backlog is the number of pending rows, and the time since which the oldest due one of them is due. Failed ones that nobody
/// released are counted separately.
pub async fn the_backlog_counts_pending_rows_and_ages_due_ones(rig: &dyn StoreRig) {
    let backlog = async |now| backlog_of(rig, 0..i64::MAX, now).await;
    let failed = async || view(rig).await.outbox_view().unreleased_failed_rows().await.expect("failed rows");
    assert_eq!(backlog(start()).await, Backlog::default());
    let at = |id: &str, book: i64, at: i64| NewEvent { occurred_at: later(at), ..event(id, book, 1) };
    let foreign = AggregateRef { tenant: tenant(2), ..aggregate(5) };
    append(rig, &[at("sent", 1, 1), at("failed", 2, 2), at("retry", 3, 3), at("new", 4, 9)]).await;
    append(rig, &[NewEvent { aggregate: foreign, ..at("foreign", 5, 10) }]).await;
    in_unit!(rig, |unit| {
        unit.outbox().mark_sent(&[&confirmed("sent")], later(10)).await.unwrap();
        let failed = [to_failed("failed"), to_retry("retry", Some(later(20)))];
        unit.outbox().mark_failed(&failed, later(10)).await.unwrap();
    });
    let of = |new, oldest: Option<i64>| Backlog { new, retry: 1, oldest_due: oldest.map(later) };
    assert_eq!(backlog(later(10)).await, of(2, Some(9)));
    in_unit!(rig, |unit| {
        let proofs = ["new", "foreign"].map(confirmed);
        unit.outbox().mark_sent(&proofs.iter().collect::<Vec<_>>(), later(11)).await.unwrap();
    });
    assert_eq!(backlog(later(19)).await, of(0, None));
    assert_eq!(backlog(later(20)).await, of(0, Some(20)));
    assert_eq!(backlog(later(90)).await, of(0, Some(20)));
    assert_eq!(failed().await, 1);
    in_unit!(rig, |unit| unit
        .outbox()
        .release(&aggregate(2), &unordered(), later(91))
        .await
        .map(drop)
        .unwrap());
    assert_eq!(failed().await, 0, "an operator has decided about the failed event");
}

/// The backlog of a range of ids is that of the rows with these ids, without its end.
pub async fn the_backlog_of_a_range_has_the_rows_with_its_ids(rig: &dyn StoreRig) {
    append(rig, &[event("a", 1, 1), event("b", 2, 1), event("c", 3, 1)]).await;
    let due = view(rig).await.outbox_view().outbox_due(&due_at(start())).await.unwrap().rows;
    let (first, end) = (due[0].id, due[2].id + 1);
    for (from, until) in (first..=end).flat_map(|from| (from..=end).map(move |until| (from, until))) {
        let expected = due.iter().filter(|row| (from..until).contains(&row.id)).count() as u64;
        assert_eq!(
            backlog_of(rig, from..until, start()).await.new,
            expected,
            "{from}..{until} of {first}..{end}"
        );
    }
}

async fn backlog_of(rig: &dyn StoreRig, ids: Range<i64>, now: DateTime<Utc>) -> Backlog {
    view(rig).await.outbox_view().outbox_backlog(ids, now).await.expect("cannot read the backlog")
}

/// A row that another query returns is not unreadable, whatever its status.
pub async fn a_readable_row_is_not_listed_as_unreadable(rig: &dyn StoreRig) {
    let ids = ["new", "retry", "sent", "failed", "released", "redriven"];
    append(rig, &(1..).zip(ids).map(|(book, id)| event(id, book, 1)).collect::<Vec<_>>()).await;
    // More rows than the search reads per page, so that it reads several pages.
    append(rig, &(1..=1_100).map(|n| event(&format!("e{n}"), 100 + n, 1)).collect::<Vec<_>>()).await;
    in_unit!(rig, |unit| {
        let failed = [to_retry("retry", Some(later(5))), to_failed("failed"), to_failed("released")];
        unit.outbox().mark_failed(&failed, start()).await.unwrap();
        unit.outbox().mark_sent(&[&confirmed("sent"), &confirmed("redriven")], start()).await.unwrap();
        unit.outbox().release(&aggregate(5), &unordered(), start()).await.unwrap();
        unit.outbox().redrive(&[redrive("redriven", later(5))], start()).await.unwrap();
    });
    for (of, limit) in [(None, 1), (None, 10), (Some(tenant(1)), 10)] {
        let unreadable = view(rig).await.outbox_view().unreadable_rows(of, None, limit).await;
        assert_eq!(unreadable.expect("cannot search the outbox"), []);
    }
}
