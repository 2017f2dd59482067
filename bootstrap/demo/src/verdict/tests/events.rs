//! Violations of promises about events.

use handover_events::{ConsumeStatus, OutboxStatus};

use super::after;
use super::small_day::{CANCELLED, COMPLETED, PAID, SHIPPED, SmallDay, TIMED_OUT};

#[test]
fn missing_event_breaks_promise() {
    for (order, kind) in [
        (PAID, "ORDER_PAID"),
        (TIMED_OUT, "ORDER_TIMEOUT"),
        (CANCELLED, "ORDER_CANCELLED"),
        (SHIPPED, "ORDER_STATUS_CHANGED"),
    ] {
        let broken = after(|day| {
            let at = day
                .database
                .events
                .iter()
                .position(|e| e.event_type == kind && e.aggregate.id == order)
                .unwrap();
            let event = day.database.events.remove(at);
            day.database.consumed.retain(|row| row.event_id != event.event_id);
            day.database.listing_changes.retain(|row| row.event_id != event.event_id);
            day.database.shipments.retain(|row| row.event_id != event.event_id);
            day.database.notifications.retain(|row| row.event_id != event.event_id);
            day.database.credit_changes.retain(|row| row.event_id != event.event_id);
            for operation in day.database.assets.operations.values_mut().flatten() {
                operation.event_id = operation.event_id.take().filter(|id| *id != event.event_id);
            }
            if kind == "ORDER_CANCELLED" {
                day.database.credit.remove(&order.try_into().unwrap());
            }
        });
        assert_eq!(broken, ["no change without its event"], "{kind}");
    }
}

#[test]
fn order_without_or_with_two_created_events_breaks_promise() {
    let created =
        |day: &SmallDay| day.database.events.iter().position(|e| e.event_type == "ORDER_CREATED").unwrap();
    let broken = after(|day| {
        let event = day.database.events.remove(created(day));
        day.database.consumed.retain(|row| row.event_id != event.event_id);
        day.database.listing_changes.retain(|row| row.event_id != event.event_id);
        day.database.webhooks.retain(|delivery| delivery.event_id != event.event_id);
    });
    assert_eq!(broken, ["every order has one ORDER_CREATED", "no change without its event"]);
    let broken = after(|day| {
        let again = day.database.events[created(day)].clone();
        day.database.events.push(again);
    });
    assert!(
        broken.starts_with(&["every order has one ORDER_CREATED", "no change without its event"]),
        "{broken:?}"
    );
}

#[test]
fn row_version_without_event_breaks_promise() {
    assert_eq!(after(|day| day.row(PAID).version += 1), ["no change without its event"]);
    let broken = after(|day| {
        let payments = day.database.payments.get_mut(&PAID.try_into().unwrap()).unwrap();
        payments[0].version += 1;
    });
    assert_eq!(broken, ["no change without its event"]);
}

#[test]
fn events_in_wrong_order_break_promise() {
    let broken = after(|day| {
        let changed = |e: &&mut handover_outbox::ports::OutboxRow| {
            e.event_type == "ORDER_STATUS_CHANGED" && e.aggregate.id == COMPLETED
        };
        let seqs = [4, 3];
        for (event, seq) in day.database.events.iter_mut().filter(changed).zip(seqs) {
            event.aggregate_seq = seq;
        }
    });
    assert_eq!(broken, ["no change without its event"]);
}

#[test]
fn unconfirmed_event_breaks_promise() {
    let pending = ["every event is confirmed", "nothing is pending"];
    assert_eq!(after(|day| day.database.events[5].status = OutboxStatus::New), pending);
    assert_eq!(after(|day| day.database.events[5].status = OutboxStatus::Retry), pending);
    let failed = after(|day| day.database.events[5].status = OutboxStatus::Failed);
    assert_eq!(failed, ["every event is confirmed"], "a FAILED event is not pending");
}

#[test]
fn unsettled_event_breaks_promise() {
    let settles = "every consumer settles every event";
    assert_eq!(after(|day| drop(day.database.consumed.remove(0))), [settles]);
    assert_eq!(after(|day| day.database.consumed[0].record.status = ConsumeStatus::Dead), [settles]);
    let counts = [settles, "nothing is pending"];
    assert_eq!(after(|day| day.database.consumed[0].record.status = ConsumeStatus::Waiting), counts);
    let twice = after(|day| {
        let again = day.database.consumed[0].clone();
        day.database.consumed.push(again);
    });
    assert_eq!(twice, [settles]);
    let stray = after(|day| day.database.consumed[0].consumer = "unknown".to_owned());
    assert_eq!(stray, [settles]);
}
