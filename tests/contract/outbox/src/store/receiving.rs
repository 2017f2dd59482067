//! Events of another outbox that a consumer received.

use handover_events::OutboxStatus;
use handover_outbox::ports::{EventMetadata, NewEvent, OutboxRow, ReceivedEvent};

use super::super::within;
use super::archive::{archive, settled, stored};
use super::outbox::{append, as_new, row};
use super::{StoreRig, begin, in_unit, view};
use crate::samples::{aggregate, due_at, event, event_id, later, of_type, start};

/// The event as another outbox sent it.
fn received(event: &NewEvent) -> ReceivedEvent {
    let event = event.clone();
    ReceivedEvent {
        event_id: event.event_id,
        event_type: event.event_type,
        aggregate: event.aggregate,
        aggregate_seq: event.aggregate_seq.unwrap_or_default(),
        payload: event.payload,
        metadata: event.metadata,
        occurred_at: event.occurred_at,
        received_at: later(5),
        max_retry_count: event.max_retry_count,
        routing_key: event.routing_key,
    }
}

async fn receive(rig: &dyn StoreRig, events: &[NewEvent]) {
    let events: Vec<ReceivedEvent> = events.iter().map(received).collect();
    in_unit!(rig, |unit| unit.outbox().receive(&events).await.expect("events are received"));
}

async fn rows_of_book(rig: &dyn StoreRig) -> Vec<OutboxRow> {
    let mut view = view(rig).await;
    view.outbox_view().outbox_about(&[aggregate(7)]).await.expect("cannot read rows")
}

/// A received event is a row with all data of the event, `SENT` since its reception. No relay finds it.
pub async fn a_received_event_is_a_sent_row_with_all_its_data(rig: &dyn StoreRig) {
    let full = NewEvent {
        metadata: EventMetadata {
            trace_id: Some("trace-1".into()),
            request_id: Some("request-1".into()),
            user_id: None,
            traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
        },
        max_retry_count: 10,
        routing_key: Some("book.lent".into()),
        ..event("full", 7, 17)
    };
    let bare = NewEvent { metadata: EventMetadata::default(), routing_key: None, ..event("bare", 7, 18) };
    receive(rig, &[full.clone(), bare.clone()]).await;
    receive(rig, &[]).await;
    for (written, seen) in [full, bare].iter().zip(rows_of_book(rig).await) {
        let sent = OutboxRow {
            status: OutboxStatus::Sent,
            sent_time: Some(later(5)),
            update_time: later(5),
            ..as_new(written, &seen)
        };
        assert_eq!(seen, sent);
    }
    assert_eq!(rows_of_book(rig).await.len(), 2);
    let due =
        view(rig).await.outbox_view().outbox_due(&due_at(later(9))).await.expect("cannot read due rows");
    assert_eq!((due.rows, due.next), (vec![], None));
}

/// An event that exists is left as it is: one that was received before, one of this outbox with the same id, and the second
/// of two in one call. The other events are added, in the order given.
pub async fn an_event_is_received_once(rig: &dyn StoreRig) {
    append(rig, &[event("own", 8, 1)]).await;
    receive(rig, &[event("first", 7, 1)]).await;
    let other = |id: &str| of_type("OTHER", event(id, 7, 9));
    receive(
        rig,
        &[event("second", 7, 2), other("own"), other("first"), other("second"), event("third", 7, 3)],
    )
    .await;
    let rows = rows_of_book(rig).await;
    let read: Vec<_> = rows.iter().map(|row| (row.event_id.as_str(), row.aggregate_seq)).collect();
    assert_eq!(read, [("first", 1), ("second", 2), ("third", 3)]);
    assert!(rows.is_sorted_by_key(|row| row.id), "{rows:?}");
    assert!(rows.iter().all(|row| row.event_type == event("first", 7, 1).event_type), "{rows:?}");
    assert_eq!(row(rig, "own").await.status, OutboxStatus::New);
}

/// An event that units of work receive at the same time is one row, and none of them fails.
pub async fn an_event_that_is_received_concurrently_is_one_row(rig: &dyn StoreRig) {
    let events: Vec<ReceivedEvent> = (1..=20).map(|n| received(&event(&format!("e{n}"), 7, n))).collect();
    let receive = async || {
        for _ in 0..10 {
            let mut unit = begin(rig).await;
            let mut result = unit.outbox().receive(&events).await;
            if result.is_ok() {
                result = unit.commit().await;
            }
            match result {
                Ok(()) => return,
                Err(error) => assert!(error.is_retryable(), "{error}"),
            }
        }
        panic!("each attempt to receive the events failed");
    };
    within("both units of work", async { tokio::join!(receive(), receive()) }).await;
    let rows = rows_of_book(rig).await;
    let ids: Vec<_> = rows.iter().map(|row| row.event_id.clone()).collect();
    assert_eq!(ids, (1..=20).map(|n| event_id(&format!("e{n}"))).collect::<Vec<_>>());
}

/// An event of the archive was settled by every consumer that it concerns, so it is not received again.
pub async fn an_archived_event_is_not_received_again(rig: &dyn StoreRig) {
    settled(rig, &[event("archived", 7, 1)]).await;
    let events = stored(rig, &["archived"]).await;
    archive(rig, &events).await;
    receive(rig, &[event("archived", 7, 1), event("new", 7, 2)]).await;
    let ids: Vec<_> = rows_of_book(rig).await.into_iter().map(|row| row.event_id).collect();
    assert_eq!(ids, [event_id("new")]);
    in_unit!(rig, |unit| assert_eq!(
        unit.outbox().restore(&events, later(3)).await.unwrap(),
        [event_id("archived")]
    ));
    receive(rig, &[event("archived", 7, 1)]).await;
    assert_eq!(rows_of_book(rig).await.len(), 2);
    assert_eq!(row(rig, "archived").await.create_time, start());
}
