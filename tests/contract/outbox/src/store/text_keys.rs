//! Aggregates whose ids are text keys.

use std::collections::BTreeSet;

use chrono::TimeDelta;
use handover_events::{AggregateId, AggregateRef, OutboxStatus, Partition};
use handover_outbox::ports::{
    ConsumedFilter, DueQuery, NewEvent, OlderRelay, OnFailed, OutboxFilter, RelayId, StoreError,
};

use handover_outbox::topology::Topology;

use super::super::within;
use super::consume::record;
use super::outbox::{append, as_new, row};
use super::{StoreRig, in_unit, view};
use crate::samples::{
    aggregate, as_consumed, confirmed, consumption, due_at, event, later, redrive, to_failed, to_retry,
    unordered,
};

fn about(id: impl Into<AggregateId>, event: NewEvent) -> NewEvent {
    NewEvent { aggregate: AggregateRef { id: id.into(), ..aggregate(1) }, ..event }
}

fn text(key: &str) -> AggregateId {
    AggregateId::text(key).expect("a valid text key")
}

/// Ids of which no two may be taken for one another: integers, text keys that look alike, and the number of a text key.
fn ids() -> Vec<AggregateId> {
    let longest = "书".repeat(85);
    let keys = [
        "5",
        "a",
        "A",
        "ä",
        "a\u{308}",
        "ss",
        "ß",
        "a b",
        "7f0c3a52-6b1e-4d0a-9c57-2f9d0f6f3f10",
        "it's \"50%\" \\ ; -- ?",
        &longest,
    ];
    let mut ids: Vec<AggregateId> = keys.into_iter().map(text).collect();
    ids.extend([5, -5, i64::MIN, i64::MAX, text("a").number()].map(AggregateId::from));
    ids
}

fn events() -> Vec<NewEvent> {
    let nth = |(nth, id): (usize, AggregateId)| about(id, event(&format!("e{nth}"), 1, 1));
    ids().into_iter().enumerate().map(nth).collect()
}

async fn ids_of_due_rows(rig: &dyn StoreRig, on_failed: OnFailed) -> Vec<String> {
    let query = DueQuery { on_failed, ..due_at(later(9)) };
    let rows = view(rig).await.outbox_view().outbox_due(&query).await.expect("cannot read due rows").rows;
    rows.into_iter().map(|row| row.event_id.into()).collect()
}

/// Outbox row and consume-log record contain the id as it was written, and every id selects its own rows only: also the
/// integer that is the hash of another aggregate's text key.
pub async fn every_id_selects_the_rows_of_its_own_aggregate(rig: &dyn StoreRig) {
    let events = events();
    append(rig, &events).await;
    let records: Vec<_> = events.iter().map(|event| consumption("shelf", event)).collect();
    record(rig, &records).await;
    for (event, written) in events.iter().zip(&records) {
        let id = &event.aggregate.id;
        let stored = row(rig, event.event_id.as_str()).await;
        assert_eq!(stored, as_new(event, &stored));
        let mut view = view(rig).await;
        let rows = view.outbox_view();
        let of = std::slice::from_ref(&event.aggregate);
        assert_eq!(rows.outbox_about(of).await.unwrap(), std::slice::from_ref(&stored), "{id:?}");
        assert_eq!(rows.consumed_about(of).await.unwrap(), [as_consumed(written)], "{id:?}");
        assert_eq!(
            rows.consumed_of(std::slice::from_ref(&event.event_id)).await.unwrap(),
            [as_consumed(written)]
        );
        let page = ConsumedFilter { event_id: Some(event.event_id.clone()), ..ConsumedFilter::default() };
        let page = rows.consumed_page(&page, None, 10).await.unwrap();
        assert_eq!(page.into_iter().map(|row| row.effect).collect::<Vec<_>>(), [as_consumed(written)]);
        let types = [event.event_type.as_str()];
        let from = (event.aggregate.clone(), event.aggregate_seq.unwrap());
        for unapplied in [
            rows.unapplied("other", &types, 0, of).await.unwrap(),
            rows.unapplied_from("other", &types, 0, &[from], 1).await.unwrap(),
        ] {
            let found: Vec<_> = unapplied.into_iter().map(|one| one.event).collect();
            assert_eq!(found, std::slice::from_ref(&stored), "{id:?}");
        }
        let filter = OutboxFilter { aggregate_id: Some(id.clone()), ..OutboxFilter::default() };
        assert_eq!(
            rows.outbox_page(&filter, None, 10).await.unwrap(),
            std::slice::from_ref(&stored),
            "{id:?}"
        );
        assert_eq!(rows.outbox_after(&filter, None, 10).await.unwrap(), [stored], "{id:?}");
    }
    let all: Vec<AggregateRef> = events.iter().map(|event| event.aggregate.clone()).collect();
    let about = view(rig).await.outbox_view().outbox_about(&all).await.unwrap();
    let found: BTreeSet<_> = about.into_iter().map(|row| row.aggregate).collect();
    assert_eq!(found, all.into_iter().collect());
}

/// The events of a text key are in the partition of its number, in their order, and wait only for each other.
pub async fn events_of_a_text_key_are_published_in_their_order(rig: &dyn StoreRig) {
    let key = text("order-1");
    append(
        rig,
        &[
            about(key.clone(), event("third", 1, 3)),
            about(key.clone(), event("first", 1, 1)),
            about(key.clone(), event("second", 1, 2)),
            about(text("order-2"), event("other", 1, 1)),
        ],
    )
    .await;
    assert_eq!(ids_of_due_rows(rig, OnFailed::Hold).await, ["first", "second", "third", "other"]);
    let own = [Partition::of(aggregate(1).tenant, key.number())].into_iter().collect();
    let query = DueQuery { partitions: own, ..due_at(later(9)) };
    let due = view(rig).await.outbox_view().outbox_due(&query).await.unwrap().rows;
    assert!(due.iter().filter(|row| row.aggregate.id == key).count() == 3, "{due:?}");
    in_unit!(rig, |unit| {
        unit.outbox().mark_failed(&[to_retry("first", Some(later(60)))], later(1)).await.unwrap()
    });
    assert_eq!(ids_of_due_rows(rig, OnFailed::Hold).await, ["other"]);
}

/// A release and a redrive change the rows of the named text key only, and wake the relay of its partition.
pub async fn a_release_and_a_redrive_apply_to_one_text_key(rig: &dyn StoreRig) {
    let key = text("order-1");
    let number = AggregateId::from(key.number());
    append(rig, &[about(key.clone(), event("key", 1, 1)), about(number.clone(), event("number", 1, 1))])
        .await;
    let failed = [to_failed("key"), to_failed("number")];
    in_unit!(rig, |unit| unit.outbox().mark_failed(&failed, later(1)).await.unwrap());
    let wake = rig.wake();
    let of = AggregateRef { id: key.clone(), ..aggregate(1) };
    let released = in_unit!(rig, |unit| unit.outbox().release(&of, &unordered(), later(2)).await.unwrap());
    assert_eq!(released, 1);
    let notified = within("the notification", wake.notified()).await;
    assert!(notified.contains(Partition::of(of.tenant, key.number())));
    assert_eq!(row(rig, "key").await.released_time, Some(later(2)));
    assert_eq!(row(rig, "number").await.released_time, None);
    in_unit!(rig, |unit| unit.outbox().redrive(&[redrive("key", later(3))], later(3)).await.unwrap());
    let notified = within("the notification", wake.notified()).await;
    assert!(notified.contains(Partition::of(of.tenant, key.number())));
    let redriven = row(rig, "key").await;
    assert_eq!((redriven.status, redriven.aggregate.id), (OutboxStatus::Retry, key));
    in_unit!(rig, |unit| unit.outbox().mark_sent(&[&confirmed("key")], later(4)).await.unwrap());
    assert_eq!(row(rig, "key").await.status, OutboxStatus::Sent);
    assert_eq!(row(rig, "number").await.status, OutboxStatus::Failed);
}

/// An event of a text key is refused while a relay of an older version is live, which would publish it with another id. Events
/// of integer ids are accepted meanwhile, and a relay of this version prevents nothing.
pub async fn a_text_key_is_refused_while_a_relay_of_an_older_version_is_live(rig: &dyn StoreRig) {
    const MINUTE: u32 = 60_000;
    let older = ["relay-0123456789abcdef", "relay-v3-0123456789abcdef"].map(|id| RelayId(id.to_owned()));
    in_unit!(rig, |unit| {
        unit.outbox().heartbeat(&RelayId::new(1, &Topology::new("e", "q", "k")), 9 * MINUTE).await.unwrap();
        unit.outbox().heartbeat(&older[0], 9 * MINUTE).await.unwrap();
        unit.outbox().heartbeat(&older[1], MINUTE).await.unwrap();
    });
    append(rig, &[about(5, event("number", 1, 1))]).await;
    let with_key = [about(text("order-1"), event("key", 1, 1))];
    for nth in 0..older.len() {
        let mut unit = rig.store().begin().await.expect("cannot begin a unit of work");
        let refused = unit.outbox().append(&with_key).await;
        let Err(StoreError::Unavailable(cause)) = refused else { panic!("not refused: {refused:?}") };
        assert!(older.contains(&cause.downcast_ref::<OlderRelay>().expect("the relay is named").0));
        drop(unit);
        if nth == 0 {
            in_unit!(rig, |unit| unit.outbox().delete_heartbeat(&older[0]).await.unwrap());
        }
    }
    rig.move_database_clock(TimeDelta::minutes(2));
    append(rig, &with_key).await;
    assert_eq!(ids_of_due_rows(rig, OnFailed::Hold).await, ["number", "key"]);
}
