//! Events that a consumer still has to process (unapplied, with a stale record, or without a record), and its
//! subscription.

use chrono::{DateTime, Utc};
use handover_events::{AggregateRef, ConsumeStatus};
use handover_outbox::ports::{Consumption, NewEvent};

use super::consume::{append, in_status, record};
use super::{StoreRig, begin, in_unit, view};
use crate::samples::{
    BOOK_ADDED, BOOK_LENT, BOOK_RETURNED, aggregate, as_recorded, confirmed, consumption, event, event_id,
    later, of_type, start, tenant, to_failed,
};

async fn unapplied(
    rig: &dyn StoreRig,
    types: &[&str],
    after_id: i64,
    aggregates: &[AggregateRef],
) -> Vec<String> {
    let found = view(rig).await.outbox_view().unapplied("inventory", types, after_id, aggregates).await;
    found
        .expect("cannot read unapplied events")
        .into_iter()
        .map(|found| found.event.event_id.into())
        .collect()
}

/// An event is unapplied if it has no record, or one that is neither `SUCCESS` nor `DEAD`; that record is returned.
pub async fn an_event_without_settled_record_is_unapplied(rig: &dyn StoreRig) {
    let all = ["none", "PROCESSING", "WAITING", "SUCCESS", "FAILED", "DEAD"];
    let events: Vec<_> = all.iter().enumerate().map(|(n, id)| event(id, 7, n as i64 + 1)).collect();
    append(rig, &events).await;
    for status in ConsumeStatus::ALL {
        let event = events.iter().find(|event| event.event_id.as_str() == status.as_str()).unwrap();
        record(rig, &[in_status(*status, consumption("inventory", event))]).await;
        record(rig, &[in_status(ConsumeStatus::Success, consumption("another", event))]).await;
    }
    let found =
        view(rig).await.outbox_view().unapplied("inventory", &[BOOK_LENT], 0, &[aggregate(7)]).await.unwrap();
    let seen: Vec<_> =
        found.iter().map(|u| (u.event.event_id.as_str(), u.record.as_ref().map(|r| r.status))).collect();
    let expected = [
        ("none", None),
        ("PROCESSING", Some(ConsumeStatus::Processing)),
        ("WAITING", Some(ConsumeStatus::Waiting)),
        ("FAILED", Some(ConsumeStatus::Failed)),
    ];
    assert_eq!(seen, expected);
}

/// An unapplied event is returned with its outbox row and its consume-log record.
pub async fn an_unapplied_event_is_returned_with_its_rows(rig: &dyn StoreRig) {
    let written = event("e", 7, 3);
    append(rig, std::slice::from_ref(&written)).await;
    let row = Consumption {
        next_retry_time: Some(later(5)),
        error_message: Some("once".into()),
        ..in_status(ConsumeStatus::Failed, consumption("inventory", &written))
    };
    record(rig, std::slice::from_ref(&row)).await;
    let mut view = view(rig).await;
    let found = view.outbox_view().unapplied("inventory", &[BOOK_LENT], 0, &[aggregate(7)]).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].record, Some(as_recorded(&row)));
    assert_eq!(
        vec![found[0].event.clone()],
        view.outbox_view().outbox_by_event(&[event_id("e")]).await.unwrap()
    );
}

/// Only events of the requested aggregates are returned; an aggregate is identified by tenant, kind and id.
pub async fn only_events_of_the_requested_aggregates_are_returned_as_unapplied(rig: &dyn StoreRig) {
    let shelf = AggregateRef { kind: "Shelf".into(), ..aggregate(7) };
    let other_tenant = AggregateRef { tenant: tenant(2), ..aggregate(7) };
    append(
        rig,
        &[
            event("book-7", 7, 1),
            event("book-8", 8, 1),
            NewEvent { aggregate: shelf.clone(), ..event("shelf-7", 7, 1) },
            NewEvent { aggregate: other_tenant.clone(), ..event("foreign-7", 7, 1) },
        ],
    )
    .await;
    let types = [BOOK_LENT];
    assert_eq!(unapplied(rig, &types, 0, &[aggregate(7)]).await, ["book-7"]);
    assert_eq!(unapplied(rig, &types, 0, &[shelf]).await, ["shelf-7"]);
    assert_eq!(unapplied(rig, &types, 0, &[other_tenant]).await, ["foreign-7"]);
    assert_eq!(unapplied(rig, &types, 0, &[]).await, [""; 0]);
    assert_eq!(unapplied(rig, &types, 0, &[aggregate(9)]).await, [""; 0]);
}

/// Only events of the requested types are returned.
pub async fn only_events_of_the_requested_types_are_returned_as_unapplied(rig: &dyn StoreRig) {
    append(
        rig,
        &[
            event("lent", 7, 2),
            of_type(BOOK_ADDED, event("added", 7, 1)),
            of_type(BOOK_RETURNED, event("returned", 7, 3)),
            NewEvent { event_type: "book_lent".into(), ..event("unknown", 7, 4) },
        ],
    )
    .await;
    let of = [aggregate(7)];
    assert_eq!(unapplied(rig, &[BOOK_LENT], 0, &of).await, ["lent"]);
    let two = [BOOK_RETURNED, BOOK_ADDED];
    assert_eq!(unapplied(rig, &two, 0, &of).await, ["added", "returned"]);
    assert_eq!(unapplied(rig, &[], 0, &of).await, [""; 0]);
}

/// An event means no work for its idle consumers: neither they nor the sweep have to apply it. A consumer whose name is only
/// similar has to, and so does an idle consumer that has recorded the event, because it was delivered.
pub async fn an_event_is_not_unapplied_at_its_idle_consumers(rig: &dyn StoreRig) {
    let idle = |id: &str, seq: i64, names: &[&str]| NewEvent {
        idle_consumers: names.iter().copied().collect(),
        ..event(id, 7, seq)
    };
    append(
        rig,
        &[
            event("all", 7, 1),
            idle("idle", 2, &["fulfillment", "inventory"]),
            idle("similar", 3, &["Inventory", "inventory2", "ventory"]),
            idle("recorded", 4, &["inventory"]),
        ],
    )
    .await;
    for (id, at) in [("all", 1), ("idle", 2), ("similar", 3), ("recorded", 4)] {
        send(rig, id, at).await;
    }
    let recorded = idle("recorded", 4, &["inventory"]);
    record(rig, &[in_status(ConsumeStatus::Waiting, consumption("inventory", &recorded))]).await;
    let types = [BOOK_LENT];
    assert_eq!(unapplied(rig, &types, 0, &[aggregate(7)]).await, ["all", "similar", "recorded"]);
    assert_eq!(unconsumed_events(rig, &types, 0, 9, 9).await, ["all", "similar"]);
}

/// Rows up to the position of the subscription are ignored, whatever their times: the first row after the subscription
/// has an earlier time than the subscription.
pub async fn only_events_after_the_subscription_are_unapplied(rig: &dyn StoreRig) {
    append(rig, &[event("history", 7, 1)]).await;
    let subscribed =
        in_unit!(rig, |unit| unit.outbox().subscribe_consumer("inventory", start()).await.unwrap());
    append(
        rig,
        &[
            NewEvent { occurred_at: later(-300), ..event("first", 7, 2) },
            NewEvent { occurred_at: later(9), ..event("second", 7, 3) },
        ],
    )
    .await;
    let types = [BOOK_LENT];
    assert_eq!(unapplied(rig, &types, subscribed.after_id, &[aggregate(7)]).await, ["first", "second"]);
}

/// An event from before the subscription that was delivered nevertheless, and whose attempt failed, holds back later ones.
pub async fn an_older_event_with_an_unsettled_record_is_unapplied(rig: &dyn StoreRig) {
    let (failed, settled) = (event("failed", 7, 1), event("settled", 7, 2));
    append(rig, &[failed.clone(), settled.clone(), event("history", 7, 3)]).await;
    let subscribed =
        in_unit!(rig, |unit| unit.outbox().subscribe_consumer("inventory", start()).await.unwrap());
    append(rig, &[event("new", 7, 4)]).await;
    record(rig, &[in_status(ConsumeStatus::Failed, consumption("inventory", &failed))]).await;
    record(rig, &[in_status(ConsumeStatus::Success, consumption("inventory", &settled))]).await;
    record(rig, &[in_status(ConsumeStatus::Waiting, consumption("another", &settled))]).await;
    let types = [BOOK_LENT];
    assert_eq!(unapplied(rig, &types, subscribed.after_id, &[aggregate(7)]).await, ["failed", "new"]);
}

/// Unapplied events are ordered by aggregate, then by `aggregate_seq`, then by id.
pub async fn unapplied_events_are_ordered_by_aggregate_sequence_and_id(rig: &dyn StoreRig) {
    let shelf = AggregateRef { kind: "Shelf".into(), ..aggregate(6) };
    let other_tenant = AggregateRef { tenant: tenant(2), ..aggregate(1) };
    append(
        rig,
        &[
            NewEvent { aggregate: other_tenant.clone(), ..event("foreign", 1, 1) },
            NewEvent { aggregate: shelf.clone(), ..event("shelf", 6, 1) },
            event("b10", 10, 1),
            event("b9-3", 9, 3),
            event("b9-1a", 9, 1),
            event("b9-1b", 9, 1),
            event("b9-0", 9, 0),
        ],
    )
    .await;
    let aggregates = [shelf, other_tenant, aggregate(10), aggregate(9)];
    let seen = unapplied(rig, &[BOOK_LENT], 0, &aggregates).await;
    assert_eq!(seen, ["b9-0", "b9-1a", "b9-1b", "b9-3", "b10", "shelf", "foreign"]);
}

/// From a position on, the first unapplied events of each aggregate are returned, up to the limit. Positions below and above the
/// number of events of most aggregates are found alike.
pub async fn unapplied_events_from_a_position_are_limited_per_aggregate(rig: &dyn StoreRig) {
    let other_tenant = AggregateRef { tenant: tenant(2), ..aggregate(7) };
    let mut events: Vec<_> = (1..=3).chain(98..=103).map(|seq| event(&format!("b7-{seq}"), 7, seq)).collect();
    events.extend([event("b7-99b", 7, 99), event("b8-1", 8, 1), event("b8-200", 8, 200)]);
    events.push(NewEvent { aggregate: other_tenant.clone(), ..event("foreign-100", 7, 100) });
    append(rig, &events).await;
    let settled = events.iter().find(|event| event.event_id.as_str() == "b7-100").unwrap();
    record(rig, &[in_status(ConsumeStatus::Success, consumption("inventory", settled))]).await;
    let first = async |aggregates: &[(AggregateRef, i64)], limit| {
        let mut view = view(rig).await;
        let found = view.outbox_view().unapplied_from("inventory", &[BOOK_LENT], 0, aggregates, limit).await;
        found.unwrap().into_iter().map(|found| found.event.event_id.into()).collect::<Vec<String>>()
    };
    assert_eq!(first(&[(aggregate(7), 99)], 3).await, ["b7-99", "b7-99b", "b7-101"]);
    assert_eq!(first(&[(aggregate(7), i64::MIN)], 4).await, ["b7-1", "b7-2", "b7-3", "b7-98"]);
    assert_eq!(first(&[(aggregate(7), 2)], 2).await, ["b7-2", "b7-3"]);
    let several = [(other_tenant, 64), (aggregate(9), 0), (aggregate(8), 1), (aggregate(7), 102)];
    assert_eq!(first(&several, 2).await, ["b7-102", "b7-103", "b8-1", "b8-200", "foreign-100"]);
    let of_type =
        view(rig).await.outbox_view().unapplied_from("inventory", &[BOOK_ADDED], 0, &several, 2).await;
    assert_eq!(of_type.unwrap(), []);
}

/// An event can be unapplied whatever its status in the outbox.
pub async fn an_event_is_unapplied_whatever_its_status_in_the_outbox(rig: &dyn StoreRig) {
    append(rig, &[event("new", 7, 1), event("sent", 7, 2), event("failed", 7, 3)]).await;
    in_unit!(rig, |unit| {
        unit.outbox().mark_sent(&[&confirmed("sent")], start()).await.unwrap();
        unit.outbox().mark_failed(&[to_failed("failed")], start()).await.unwrap();
    });
    let seen = unapplied(rig, &[BOOK_LENT], 0, &[aggregate(7)]).await;
    assert_eq!(seen, ["new", "sent", "failed"]);
}

async fn stale_consumptions(
    rig: &dyn StoreRig,
    idle_since: DateTime<Utc>,
    now: DateTime<Utc>,
    limit: u32,
) -> Vec<String> {
    let found =
        view(rig).await.outbox_view().stale_consumptions("inventory", &[], idle_since, now, limit).await;
    found.expect("cannot read stale records").into_iter().map(String::from).collect()
}

fn left(id: &str, status: ConsumeStatus, touched: i64) -> Consumption {
    Consumption {
        consume_time: later(touched),
        ..in_status(status, consumption("inventory", &event(id, 7, 1)))
    }
}

/// `WAITING` and `FAILED` records that were written before `idle_since` are stale; settled ones are not.
pub async fn unchanged_waiting_and_failed_records_are_stale(rig: &dyn StoreRig) {
    let mut rows = Vec::new();
    for status in ConsumeStatus::ALL {
        rows.push(left(&format!("old-{status}"), *status, -60));
        rows.push(left(&format!("fresh-{status}"), *status, -5));
    }
    rows.retain(|row| row.status != ConsumeStatus::Processing);
    record(rig, &rows).await;
    assert_eq!(stale_consumptions(rig, later(-30), start(), 10).await.len(), 2);
    let mut seen = stale_consumptions(rig, later(-30), start(), 10).await;
    seen.sort();
    assert_eq!(seen, ["old-FAILED", "old-WAITING"]);
}

/// A record with a next attempt is stale only if that attempt is due.
pub async fn a_record_is_not_stale_before_its_next_attempt_is_due(rig: &dyn StoreRig) {
    let due = |id: &str, at: i64| Consumption {
        next_retry_time: Some(later(at)),
        ..left(id, ConsumeStatus::Failed, -60)
    };
    record(rig, &[due("long-due", -45), due("just-due", 0), due("future", 60)]).await;
    assert_eq!(stale_consumptions(rig, later(-30), start(), 10).await, ["long-due", "just-due"]);
}

/// A `PROCESSING` record is stale once its lease has ended, however recently it changed.
pub async fn a_processing_record_is_stale_after_its_lease_ended(rig: &dyn StoreRig) {
    let leased = |id: &str, touched: i64, until: i64| Consumption {
        lease_until: Some(later(until)),
        ..left(id, ConsumeStatus::Processing, touched)
    };
    record(rig, &[leased("ended", -2, -1), leased("running", -600, 1)]).await;
    assert_eq!(stale_consumptions(rig, later(-30), start(), 10).await, ["ended"]);
}

/// An unsettled record with a `consume_time` after `now` is stale: the clock was set back, and the times of the record
/// would delay the event for a long time.
pub async fn a_record_with_a_future_consume_time_is_stale(rig: &dyn StoreRig) {
    let rows = ConsumeStatus::ALL.iter().map(|status| Consumption {
        lease_until: (*status == ConsumeStatus::Processing).then(|| later(315)),
        next_retry_time: (*status == ConsumeStatus::Failed).then(|| later(310)),
        ..left(status.as_str(), *status, 300)
    });
    record(rig, &rows.collect::<Vec<_>>()).await;
    let mut seen = stale_consumptions(rig, later(-30), start(), 10).await;
    seen.sort();
    assert_eq!(seen, ["FAILED", "PROCESSING", "WAITING"]);
}

/// Stale records are returned oldest first, at most `limit` of them.
pub async fn stale_records_are_ordered_oldest_first(rig: &dyn StoreRig) {
    let lease = |row: Consumption| Consumption { lease_until: Some(later(-40)), ..row };
    record(
        rig,
        &[
            left("third", ConsumeStatus::Waiting, -50),
            left("first", ConsumeStatus::Failed, -90),
            lease(left("second", ConsumeStatus::Processing, -70)),
        ],
    )
    .await;
    assert_eq!(stale_consumptions(rig, later(-30), start(), 10).await, ["first", "second", "third"]);
    assert_eq!(stale_consumptions(rig, later(-30), start(), 2).await, ["first", "second"]);
}

/// Stale records of other consumers are not returned.
pub async fn stale_records_belong_to_one_consumer(rig: &dyn StoreRig) {
    let row = left("e", ConsumeStatus::Waiting, -60);
    record(rig, &[Consumption { consumer: "another".into(), ..row }]).await;
    assert_eq!(stale_consumptions(rig, later(-30), start(), 10).await, [""; 0]);
}

/// Position of the subscription; 0 if there is none.
async fn after_id(rig: &dyn StoreRig) -> i64 {
    let subscription = view(rig).await.outbox_view().consumer_subscription("inventory").await.unwrap();
    subscription.map_or(0, |subscription| subscription.after_id)
}

async fn unconsumed_events(
    rig: &dyn StoreRig,
    types: &[&str],
    after: i64,
    until: i64,
    limit: u32,
) -> Vec<String> {
    let rows = view(rig)
        .await
        .outbox_view()
        .unconsumed_events("inventory", types, after_id(rig).await, later(after), later(until), limit)
        .await;
    rows.expect("cannot read unconsumed events").into_iter().map(|row| row.event_id.into()).collect()
}

async fn send(rig: &dyn StoreRig, id: &str, at: i64) {
    in_unit!(rig, |unit| assert_eq!(unit.outbox().mark_sent(&[&confirmed(id)], later(at)).await.unwrap(), 1));
}

/// Events sent within the interval without a record in the log are returned, earliest `sent_time` first, at most
/// `limit`.
pub async fn unconsumed_events_are_ordered_by_sent_time(rig: &dyn StoreRig) {
    append(rig, &["early", "second", "third", "late", "pending"].map(|id| event(id, 7, 1))).await;
    for (id, at) in [("late", 21), ("third", 20), ("second", 11), ("early", 10)] {
        send(rig, id, at).await;
    }
    let types = [BOOK_LENT];
    assert_eq!(
        unconsumed_events(rig, &types, 10, 20, 10).await,
        ["second", "third"],
        "the start must be excluded and the end included"
    );
    assert_eq!(unconsumed_events(rig, &types, 0, 100, 3).await, ["early", "second", "third"]);
    assert_eq!(unconsumed_events(rig, &types, 21, 100, 10).await, [""; 0]);
}

/// An event that has a record of this consumer, in any status, is not returned. Records of other consumers do not
/// count.
pub async fn an_event_with_any_record_in_the_log_is_not_returned_as_unconsumed(rig: &dyn StoreRig) {
    for status in ConsumeStatus::ALL {
        append(rig, &[event(status.as_str(), 7, 1)]).await;
        send(rig, status.as_str(), 5).await;
        record(rig, &[in_status(*status, consumption("inventory", &event(status.as_str(), 7, 1)))]).await;
    }
    append(rig, &[event("elsewhere", 7, 1)]).await;
    send(rig, "elsewhere", 5).await;
    record(rig, &[consumption("another", &event("elsewhere", 7, 1))]).await;
    assert_eq!(unconsumed_events(rig, &[BOOK_LENT], 0, 9, 10).await, ["elsewhere"]);
}

/// Only events of the consumer's types after the position of its subscription are returned.
pub async fn only_own_types_and_events_after_the_subscription_are_unconsumed(rig: &dyn StoreRig) {
    append(rig, &[event("history", 7, 1)]).await;
    in_unit!(rig, |unit| unit.outbox().subscribe_consumer("inventory", start()).await.unwrap());
    append(rig, &[event("own", 7, 2), of_type(BOOK_ADDED, event("other-type", 7, 3))]).await;
    for id in ["history", "own", "other-type"] {
        send(rig, id, 5).await;
    }
    assert_eq!(unconsumed_events(rig, &[BOOK_LENT], 0, 9, 10).await, ["own"]);
    assert_eq!(unconsumed_events(rig, &[], 0, 9, 10).await, [""; 0]);
}

/// A consumer subscribes once; its position is the greatest outbox id at that time.
pub async fn a_consumer_keeps_its_first_subscription(rig: &dyn StoreRig) {
    assert_eq!(view(rig).await.outbox_view().consumer_subscription("inventory").await.unwrap(), None);
    let first = in_unit!(rig, |unit| unit.outbox().subscribe_consumer("inventory", later(1)).await.unwrap());
    assert_eq!((first.after_id, first.checked_until), (0, later(1)));
    append(rig, &[event("a", 7, 1), event("b", 8, 1)]).await;
    let again = in_unit!(rig, |unit| unit.outbox().subscribe_consumer("inventory", later(2)).await.unwrap());
    assert_eq!(again, first);
    assert_eq!(view(rig).await.outbox_view().consumer_subscription("inventory").await.unwrap(), Some(first));
    let other = in_unit!(rig, |unit| unit.outbox().subscribe_consumer("Inventory", later(3)).await.unwrap());
    let newest = view(rig).await.outbox_view().outbox_by_event(&[event_id("b")]).await.unwrap().remove(0);
    assert_eq!(other.after_id, newest.id, "consumers must be compared byte by byte");
}

/// `checked_until` of a consumer can be set forward and backward; its position and other consumers do not change.
pub async fn checked_until_can_be_set_forward_and_backward(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| {
        unit.outbox().subscribe_consumer("inventory", start()).await.unwrap();
        unit.outbox().subscribe_consumer("another", start()).await.unwrap();
    });
    append(rig, &[event("a", 7, 1)]).await;
    for to in [10, 5, 11, -1] {
        in_unit!(rig, |unit| unit.outbox().set_checked_until("inventory", later(to)).await.unwrap());
        let seen = view(rig).await.outbox_view().consumer_subscription("inventory").await.unwrap().unwrap();
        assert_eq!((seen.after_id, seen.checked_until), (0, later(to)), "after {to}");
    }
    let other = view(rig).await.outbox_view().consumer_subscription("another").await.unwrap().unwrap();
    assert_eq!(other.checked_until, start());
}

/// A subscription is part of its unit of work: if the unit of work is dropped, the consumer is not subscribed.
pub async fn a_dropped_unit_of_work_subscribes_no_consumer(rig: &dyn StoreRig) {
    let mut unit = begin(rig).await;
    unit.outbox().subscribe_consumer("inventory", start()).await.unwrap();
    drop(unit);
    assert_eq!(view(rig).await.outbox_view().consumer_subscription("inventory").await.unwrap(), None);
}
