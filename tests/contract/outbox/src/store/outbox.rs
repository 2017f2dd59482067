//! Appending events and reading rows.

use chrono::TimeDelta;
use handover_events::{AggregateRef, OutboxStatus};
use handover_outbox::ports::{Confirmed, EventMetadata, NewEvent, OutboxFilter, OutboxRow};

use super::{StoreRig, begin, in_unit, view};
use crate::samples::{
    BOOK, BOOK_LENT, BOOK_RETURNED, SPECIAL_CHARACTERS, confirmed, event, event_id, later, of_type, relay,
    start, tenant, to_failed,
};
use crate::work::is_conflict;

pub(super) async fn append(rig: &dyn StoreRig, events: &[NewEvent]) {
    in_unit!(rig, |unit| unit.outbox().append(events).await.expect("events are appended"));
}

pub(super) async fn row(rig: &dyn StoreRig, id: &str) -> OutboxRow {
    let mut rows =
        view(rig).await.outbox_view().outbox_by_event(&[event_id(id)]).await.expect("cannot read rows");
    assert_eq!(rows.len(), 1, "{id} must have one row");
    rows.remove(0)
}

async fn page(rig: &dyn StoreRig, filter: &OutboxFilter) -> Vec<String> {
    let rows =
        view(rig).await.outbox_view().outbox_page(filter, None, 100).await.expect("cannot read a page");
    rows.into_iter().map(|row| row.event_id.into()).collect()
}

pub(super) fn refs(proofs: &[Confirmed]) -> Vec<&Confirmed> {
    proofs.iter().collect()
}

/// Expected row of an appended event; `id` and `update_time` are taken from `seen`, because the store sets them.
pub(super) fn as_new(event: &NewEvent, seen: &OutboxRow) -> OutboxRow {
    let event = event.clone();
    let status = event.status();
    OutboxRow {
        id: seen.id,
        event_id: event.event_id,
        event_type: event.event_type,
        aggregate: event.aggregate,
        aggregate_seq: event.aggregate_seq.unwrap_or(seen.aggregate_seq),
        payload: event.payload,
        metadata: event.metadata,
        status,
        retry_count: 0,
        max_retry_count: event.max_retry_count,
        idle_consumers: event.idle_consumers,
        routing_key: event.routing_key.clone(),
        next_retry_time: event.due,
        last_error: None,
        create_time: event.occurred_at,
        update_time: seen.update_time,
        sent_time: None,
        released_time: None,
        erased_time: None,
        erased_reason: None,
        restored_time: None,
    }
}

/// An appended row is `NEW` and contains all data of the event.
pub async fn an_appended_event_is_a_new_row_with_all_its_data(rig: &dyn StoreRig) {
    let full = NewEvent {
        metadata: EventMetadata {
            trace_id: Some("trace-1".into()),
            request_id: Some("request-1".into()),
            user_id: Some(9_007_199_254_740_991),
            traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        },
        aggregate_seq: Some(17),
        max_retry_count: 10,
        routing_key: Some("book.lent.from-the-branch".into()),
        idle_consumers: ["inventory", "say \"hi\""].into_iter().collect(),
        occurred_at: later(3) + TimeDelta::microseconds(1),
        ..event("full", 7, 1)
    };
    let minimal = NewEvent { metadata: EventMetadata::default(), ..event("bare", 8, 0) };
    append(rig, &[full.clone(), minimal.clone()]).await;
    for written in [full, minimal] {
        let seen = row(rig, written.event_id.as_str()).await;
        assert_eq!(seen, as_new(&written, &seen));
    }
}

/// Event types and aggregate types are stored without validation.
pub async fn unknown_types_and_aggregates_are_stored_unchanged(rig: &dyn StoreRig) {
    let unknown = AggregateRef { kind: "Shipment".into(), ..event("x", 7, 1).aggregate };
    let written = NewEvent { event_type: "Shipment.Lost".into(), aggregate: unknown, ..event("e", 7, 1) };
    append(rig, std::slice::from_ref(&written)).await;
    let seen = row(rig, "e").await;
    assert_eq!((seen.event_type, seen.aggregate), (written.event_type, written.aggregate));
}

/// The payload is returned byte for byte: spaces, order of fields, decimals, escapes.
pub async fn a_payload_is_read_back_byte_for_byte(rig: &dyn StoreRig) {
    let text = SPECIAL_CHARACTERS.replace('\\', "\\\\").replace('"', "\\\"");
    let payloads = [
        r#"{ "z": 88.50,  "a": 1E+2, "big": 9007199254740993, "z2":0.10 }"#.to_owned(),
        format!("{{\"title\":\"{text}\",\"escaped\":\"\\u4e8c\\n\"}}"),
        format!("{{\"long\":\"{}\"}}", "长".repeat(20_000)),
        "{}".to_owned(),
    ];
    for (n, payload) in payloads.into_iter().enumerate() {
        let id = format!("e{n}");
        append(rig, &[NewEvent { payload: payload.clone(), ..event(&id, 7, 1) }]).await;
        assert_eq!(row(rig, &id).await.payload, payload);
    }
}

/// Ids increase in the order of the appended events, and from commit to commit.
pub async fn rows_get_increasing_ids_in_the_order_given(rig: &dyn StoreRig) {
    append(rig, &[event("c", 3, 1), event("a", 1, 1), event("b", 2, 1)]).await;
    in_unit!(rig, |unit| {
        unit.outbox().append(&[event("z", 1, 2)]).await.unwrap();
        unit.outbox().append(&[event("y", 1, 3)]).await.unwrap();
    });
    assert_eq!(page(rig, &OutboxFilter::default()).await, ["y", "z", "b", "a", "c"]);
}

/// Appending, settling, querying or fencing an empty list is not an error.
pub async fn empty_arguments_are_not_an_error(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| {
        unit.outbox().append(&[]).await.unwrap();
        assert_eq!(unit.outbox().mark_sent(&[], start()).await.unwrap(), 0);
        assert_eq!(unit.outbox().mark_failed(&[], start()).await.unwrap(), 0);
        assert_eq!(unit.outbox().outbox_by_event(&[]).await.unwrap(), []);
        assert!(unit.outbox().fence(&relay("r"), &[]).await.unwrap().is_empty());
    });
}

/// A batch much larger than a batch of the relay is appended, read and settled completely.
pub async fn a_large_batch_is_handled_completely(rig: &dyn StoreRig) {
    let ids: Vec<_> = (0..1000).map(|n| format!("e{n:04}")).collect();
    let events: Vec<_> = ids.iter().enumerate().map(|(n, id)| event(id, 1, n as i64 + 1)).collect();
    append(rig, &events).await;
    let requested: Vec<_> = ids.iter().map(|id| event_id(id)).collect();
    assert_eq!(view(rig).await.outbox_view().outbox_by_event(&requested).await.unwrap().len(), 1000);
    let proofs: Vec<_> = ids.iter().map(|id| confirmed(id)).collect();
    assert_eq!(in_unit!(rig, |unit| unit.outbox().mark_sent(&refs(&proofs), start()).await.unwrap()), 1000);
}

/// An event id that is already in use is a conflict: in an earlier commit, for another tenant, or in the same batch.
pub async fn an_existing_event_id_is_a_conflict(rig: &dyn StoreRig) {
    append(rig, &[event("e", 7, 1)]).await;
    let other_tenant = AggregateRef { tenant: tenant(2), ..event("x", 8, 1).aggregate };
    let again =
        [event("e", 7, 1), event("e", 9, 4), NewEvent { aggregate: other_tenant, ..event("e", 8, 1) }];
    for taken in again {
        is_conflict(begin(rig).await.outbox().append(&[event("fresh", 9, 1), taken]).await);
    }
    is_conflict(begin(rig).await.outbox().append(&[event("twin", 7, 2), event("twin", 7, 3)]).await);
    assert_eq!(
        page(rig, &OutboxFilter::default()).await,
        ["e"],
        "the other rows of the batch must be rolled back"
    );
}

/// `Key-A` and `key-a` are two events.
pub async fn event_ids_are_compared_byte_by_byte(rig: &dyn StoreRig) {
    append(rig, &[event("Key-A", 7, 1), event("key-a", 7, 2), event("KEY-A", 7, 3)]).await;
    assert_eq!(row(rig, "key-a").await.aggregate_seq, 2);
    in_unit!(rig, |unit| assert_eq!(
        unit.outbox().mark_sent(&[&confirmed("Key-A")], start()).await.unwrap(),
        1
    ));
    assert_eq!(row(rig, "Key-A").await.status, OutboxStatus::Sent);
    assert_eq!(row(rig, "key-a").await.status, OutboxStatus::New);
    in_unit!(rig, |unit| assert_eq!(
        unit.outbox().mark_failed(&[to_failed("key-a")], start()).await.unwrap(),
        1
    ));
    assert_eq!(row(rig, "KEY-A").await.status, OutboxStatus::New);
}

/// Event ids of 1 to 64 characters are stored unchanged, even with characters that have a meaning in SQL.
pub async fn an_event_id_of_64_special_characters_is_stored(rig: &dyn StoreRig) {
    let ids = ["'\"%_\\;--/*?$1:a{}".to_owned(), "x".repeat(64), "~".into()];
    for (n, id) in ids.iter().enumerate() {
        append(rig, &[event(id, 7, n as i64 + 1)]).await;
        assert_eq!(row(rig, id).await.event_id.as_str(), id);
    }
}

/// Queries by event id return the existing rows and omit missing ones.
pub async fn rows_are_found_by_event_id_and_missing_ones_omitted(rig: &dyn StoreRig) {
    append(rig, &[event("a", 1, 1), event("b", 2, 1), event("c", 3, 1)]).await;
    let requested = [event_id("c"), event_id("missing"), event_id("a")];
    let mut found: Vec<String> = view(rig)
        .await
        .outbox_view()
        .outbox_by_event(&requested)
        .await
        .unwrap()
        .into_iter()
        .map(|r| r.event_id.into())
        .collect();
    found.sort();
    assert_eq!(found, ["a", "c"]);
}

/// Pages are ordered by id, greatest first; each page starts below the last id of the previous page.
pub async fn pages_are_ordered_by_descending_id(rig: &dyn StoreRig) {
    append(rig, &["a", "b", "c", "d", "e"].map(|id| event(id, 1, 1))).await;
    let mut seen: Vec<String> = Vec::new();
    let mut before = None;
    for expected in [2, 2, 1, 0] {
        let rows =
            view(rig).await.outbox_view().outbox_page(&OutboxFilter::default(), before, 2).await.unwrap();
        assert_eq!(rows.len(), expected);
        before = rows.last().map(|row| row.id).or(before);
        seen.extend(rows.into_iter().map(|row| String::from(row.event_id)));
    }
    assert_eq!(seen, ["e", "d", "c", "b", "a"]);
    let above_id = Some(row(rig, "b").await.id);
    assert_eq!(page(rig, &OutboxFilter { above_id, ..OutboxFilter::default() }).await, ["e", "d", "c"]);
}

/// With `after`, pages are ordered by id, smallest first; each page starts above the last id of the previous page, with
/// the same filter.
pub async fn rows_after_a_cursor_are_ordered_by_ascending_id(rig: &dyn StoreRig) {
    append(rig, &["a", "b", "c", "d", "e"].map(|id| event(id, 1, 1))).await;
    in_unit!(rig, |unit| {
        let sent = ["b", "d", "e"].map(confirmed);
        unit.outbox().mark_sent(&sent.iter().collect::<Vec<_>>(), start()).await.unwrap();
    });
    let sent = OutboxFilter { status: Some(OutboxStatus::Sent), ..OutboxFilter::default() };
    let below_id = Some(row(rig, "d").await.id);
    let bounded = OutboxFilter { below_id, ..OutboxFilter::default() };
    for (filter, expected) in [(OutboxFilter::default(), "abcde"), (sent, "bde"), (bounded, "abc")] {
        let mut seen = String::new();
        let mut after = None;
        loop {
            let rows = view(rig).await.outbox_view().outbox_after(&filter, after, 2).await.unwrap();
            assert!(rows.len() <= 2, "{rows:?}");
            let Some(last) = rows.last() else { break };
            after = Some(last.id);
            rows.iter().for_each(|row| seen.push_str(row.event_id.as_str()));
        }
        assert_eq!(seen, expected, "{filter:?}");
    }
}

/// Each field of a filter narrows the page; several fields are combined with AND.
pub async fn every_part_of_a_filter_narrows_the_page(rig: &dyn StoreRig) {
    let foreign = AggregateRef { tenant: tenant(2), ..event("x", 7, 1).aggregate };
    let shelf = AggregateRef { kind: "Shelf".into(), ..event("x", 8, 1).aggregate };
    append(
        rig,
        &[
            event("plain", 7, 1),
            of_type(BOOK_RETURNED, event("returned", 7, 2)),
            event("other", 8, 1),
            NewEvent { aggregate: foreign, ..event("foreign", 7, 1) },
            NewEvent { aggregate: shelf, ..event("shelf", 8, 1) },
            NewEvent { occurred_at: later(10), ..event("late", 9, 1) },
        ],
    )
    .await;
    in_unit!(rig, |unit| unit.outbox().mark_sent(&[&confirmed("other")], start()).await.unwrap());
    let any = OutboxFilter::default();
    let by = |change: &dyn Fn(&mut OutboxFilter)| {
        let mut filter = any.clone();
        change(&mut filter);
        filter
    };
    let cases: [(OutboxFilter, &[&str]); 12] = [
        (by(&|f| f.tenant = Some(tenant(2))), &["foreign"]),
        (by(&|f| f.tenant = Some(tenant(3))), &[]),
        (by(&|f| f.status = Some(OutboxStatus::Sent)), &["other"]),
        (by(&|f| f.event_type = Some(BOOK_RETURNED.into())), &["returned"]),
        (by(&|f| f.event_type = Some("book_returned".into())), &[]),
        (by(&|f| f.aggregate_type = Some("Shelf".into())), &["shelf"]),
        (by(&|f| f.aggregate_type = Some("shelf".into())), &[]),
        (by(&|f| f.aggregate_id = Some(7.into())), &["foreign", "returned", "plain"]),
        (by(&|f| f.aggregate_id = Some(8.into())), &["shelf", "other"]),
        (by(&|f| f.from = Some(later(1))), &["late"]),
        (by(&|f| f.to = Some(later(10))), &["shelf", "foreign", "other", "returned", "plain"]),
        (
            by(&|f| {
                *f = OutboxFilter {
                    tenant: Some(tenant(1)),
                    status: Some(OutboxStatus::New),
                    event_type: Some(BOOK_LENT.into()),
                    aggregate_type: Some(BOOK.into()),
                    aggregate_id: Some(7.into()),
                    from: Some(start()),
                    to: Some(later(1)),
                    above_id: Some(0),
                    below_id: Some(i64::MAX),
                }
            }),
            &["plain"],
        ),
    ];
    for (filter, expected) in cases {
        assert_eq!(page(rig, &filter).await, expected, "{filter:?}");
    }
}

/// The start of a time range is inclusive, its end exclusive.
pub async fn a_time_filter_includes_its_start_and_excludes_its_end(rig: &dyn StoreRig) {
    append(rig, &[event("e", 7, 1)]).await;
    let micro = TimeDelta::microseconds(1);
    let filter = |from, to| OutboxFilter { from: Some(from), to: Some(to), ..OutboxFilter::default() };
    assert_eq!(page(rig, &filter(start(), start() + micro)).await, ["e"]);
    assert_eq!(page(rig, &filter(start() + micro, later(9))).await, [""; 0]);
    assert_eq!(page(rig, &filter(later(-9), start())).await, [""; 0]);
}
