//! Sequence numbers that the store assigns, and events with a due time.

use std::collections::BTreeMap;

use handover_events::{AggregateId, AggregateRef, OutboxStatus};
use handover_outbox::ports::{NewEvent, OutboxStore, StoreError};

use super::outbox::{append, row};
use super::{StoreRig, begin, in_unit, view};
use crate::samples::{aggregate, due_at, event, later};

fn unnumbered(id: &str, book: i64) -> NewEvent {
    NewEvent { aggregate_seq: None, ..event(id, book, 0) }
}

/// Event ids of an aggregate, each with its number, sorted by row id.
async fn numbers(rig: &dyn StoreRig, of: &AggregateRef) -> Vec<(String, i64)> {
    let mut rows = view(rig).await.outbox_view().outbox_about(std::slice::from_ref(of)).await.expect("rows");
    rows.sort_by_key(|row| row.id);
    rows.into_iter().map(|row| (row.event_id.into(), row.aggregate_seq)).collect()
}

async fn append_alone(store: &OutboxStore, event: &NewEvent) -> Result<(), StoreError> {
    let mut unit = store.begin().await?;
    unit.outbox().append(std::slice::from_ref(event)).await?;
    unit.commit().await
}

/// Without a lock of the callers, the events of an aggregate are numbered from 1 in the order of the commits.
pub async fn concurrent_events_of_an_aggregate_are_numbered_in_the_order_of_their_commits(
    rig: &dyn StoreRig,
) {
    let tasks = (0..8).map(|task| {
        let store = rig.store();
        tokio::spawn(async move {
            for nth in 0..10 {
                let event = unnumbered(&format!("e-{task}-{nth}"), 7);
                loop {
                    match append_alone(&*store, &event).await {
                        Ok(()) => break,
                        Err(StoreError::Transient(_)) => {}
                        Err(error) => panic!("cannot append: {error}"),
                    }
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("the task ends");
    }
    let numbers = numbers(rig, &aggregate(7)).await;
    assert_eq!(numbers.iter().map(|(_, seq)| *seq).collect::<Vec<_>>(), (1..=80).collect::<Vec<_>>());
    let mut of_task: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (id, _) in numbers {
        let (task, nth) = id.rsplit_once('-').expect("two parts");
        of_task.entry(task.to_owned()).or_default().push(nth.to_owned());
    }
    for (task, order) in of_task {
        assert_eq!(order, (0..10).map(|nth| nth.to_string()).collect::<Vec<_>>(), "{task}");
    }
}

/// Several events of one aggregate get ascending numbers in their order; other aggregates, tenants and text keys have
/// sequences of their own. More events than one statement inserts.
pub async fn events_of_one_call_are_numbered_in_their_order(rig: &dyn StoreRig) {
    let keyed = |id: &str, key: &str| NewEvent {
        aggregate: AggregateRef { id: AggregateId::text(key).expect("a text key"), ..aggregate(1) },
        ..unnumbered(id, 1)
    };
    append(
        rig,
        &[unnumbered("b1", 8), keyed("k1", "k"), unnumbered("a1", 7), unnumbered("b2", 8), keyed("k2", "k")],
    )
    .await;
    append(rig, &[unnumbered("a2", 7), keyed("k3", "k")]).await;
    let seqs = |numbers: Vec<(String, i64)>| {
        numbers.into_iter().map(|(id, seq)| format!("{id}={seq}")).collect::<Vec<_>>()
    };
    assert_eq!(seqs(numbers(rig, &aggregate(7)).await), ["a1=1", "a2=2"]);
    assert_eq!(seqs(numbers(rig, &aggregate(8)).await), ["b1=1", "b2=2"]);
    assert_eq!(seqs(numbers(rig, &keyed("k", "k").aggregate).await), ["k1=1", "k2=2", "k3=3"]);
    let many: Vec<NewEvent> = (0..300).map(|nth| unnumbered(&format!("m-{nth}"), 20 + nth % 3)).collect();
    append(rig, &many).await;
    for book in 20..23 {
        let numbers = numbers(rig, &aggregate(book)).await;
        let expected = (0..100).map(|nth| (format!("m-{}", nth * 3 + book - 20), nth + 1));
        assert_eq!(numbers, expected.collect::<Vec<_>>());
    }
}

/// A number of the caller is kept, and the numbers of the store are higher than those of the caller.
pub async fn numbers_continue_after_the_highest_one_of_the_aggregate(rig: &dyn StoreRig) {
    append(rig, &[event("given-41", 7, 41), event("given-5", 7, 5)]).await;
    append(rig, &[unnumbered("next", 7), event("other", 8, 3)]).await;
    append(rig, &[unnumbered("last", 7)]).await;
    let numbers = numbers(rig, &aggregate(7)).await;
    let numbers: Vec<(&str, i64)> = numbers.iter().map(|(id, seq)| (id.as_str(), *seq)).collect();
    assert_eq!(numbers, [("given-41", 41), ("given-5", 5), ("next", 42), ("last", 43)]);
    assert_eq!(row(rig, "other").await.aggregate_seq, 3);
}

/// After a rollback, later numbers still ascend.
pub async fn numbers_of_a_dropped_unit_of_work_do_not_disturb_the_order(rig: &dyn StoreRig) {
    append(rig, &[unnumbered("first", 7)]).await;
    let mut unit = begin(rig).await;
    unit.outbox().append(&[unnumbered("dropped", 7)]).await.expect("an event is appended");
    drop(unit);
    append(rig, &[unnumbered("second", 7), unnumbered("third", 7)]).await;
    let numbers = numbers(rig, &aggregate(7)).await;
    assert_eq!(numbers.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["first", "second", "third"]);
    assert!(numbers.is_sorted_by(|one, other| one.1 < other.1), "{numbers:?}");
}

/// An event with a due time is not published before it, and neither are the later events of its aggregate. It has no
/// counted attempts, and is not brought forward.
pub async fn an_event_with_a_due_time_holds_back_later_events_of_its_aggregate(rig: &dyn StoreRig) {
    let deferred = NewEvent { due: Some(later(60)), ..unnumbered("deferred", 7) };
    append(rig, &[unnumbered("before", 7), deferred, unnumbered("after", 7), unnumbered("other", 8)]).await;
    let stored = row(rig, "deferred").await;
    assert_eq!(
        (stored.status, stored.retry_count, stored.next_retry_time),
        (OutboxStatus::Retry, 0, Some(later(60)))
    );
    let brought = in_unit!(rig, |unit| {
        unit.outbox().bring_retries_forward(due_at(later(0)).partitions, later(30), later(0)).await.unwrap()
    });
    assert_eq!(brought, 0);
    for (at, expected) in [(59, vec!["before", "other"]), (60, vec!["before", "deferred", "after", "other"])]
    {
        let due = view(rig).await.outbox_view().outbox_due(&due_at(later(at))).await.expect("due rows").rows;
        let ids: Vec<String> = due.into_iter().map(|row| row.event_id.into()).collect();
        assert_eq!(ids, expected, "after {at} s");
    }
}
