//! Event types that processes register for a consumer, and their effect on what the consumer has to settle.

use chrono::TimeDelta;
use handover_events::ConsumeStatus;
use handover_outbox::ports::{Consumption, RegisteredType};

use super::consume::{append, in_status, record};
use super::leases::{ends_in_time, now};
use super::{StoreRig, begin, in_unit, view};
use crate::samples::{
    BOOK_ADDED, BOOK_LENT, BOOK_RETURNED, aggregate, confirmed, consumption, event, later, of_type, start,
};

const MINUTE: u32 = 60_000;

async fn register(rig: &dyn StoreRig, consumer: &str, types: &[&str]) {
    in_unit!(rig, |unit| unit.outbox().register_types(consumer, types, MINUTE).await.unwrap());
}

async fn registered(rig: &dyn StoreRig) -> Vec<RegisteredType> {
    view(rig).await.outbox_view().registered_types().await.expect("cannot read registered types")
}

async fn names(rig: &dyn StoreRig) -> Vec<(String, String)> {
    registered(rig).await.into_iter().map(|it| (it.consumer, it.event_type)).collect()
}

fn name(consumer: &str, event_type: &str) -> (String, String) {
    (consumer.to_owned(), event_type.to_owned())
}

/// Types are listed once, by consumer and type, which are compared byte by byte. A process that registers other types
/// removes none, because processes of several versions run at the same time.
pub async fn registered_types_are_ordered_by_consumer_and_type(rig: &dyn StoreRig) {
    assert_eq!(registered(rig).await, []);
    register(rig, "loans", &[BOOK_RETURNED, BOOK_LENT, BOOK_LENT]).await;
    register(rig, "Loans", &["book_lent"]).await;
    register(rig, "inventory", &[]).await;
    register(rig, "loans", &[BOOK_ADDED, "book_lent"]).await;
    let expected = [
        name("Loans", "book_lent"),
        name("loans", BOOK_ADDED),
        name("loans", BOOK_LENT),
        name("loans", BOOK_RETURNED),
        name("loans", "book_lent"),
    ];
    assert_eq!(names(rig).await, expected);
}

/// Each registration starts at the current time of the database clock, also if that clock was set back or forward, and
/// changes the leases of no other types.
pub async fn a_registration_is_renewed_from_the_database_time(rig: &dyn StoreRig) {
    register(rig, "loans", &[BOOK_ADDED, BOOK_LENT]).await;
    register(rig, "inventory", &[BOOK_LENT]).await;
    let others = registered(rig).await[..2].to_vec();
    for step in [TimeDelta::seconds(50), TimeDelta::minutes(-5), TimeDelta::minutes(10)] {
        rig.move_database_clock(step);
        let before = now(rig).await;
        register(rig, "loans", &[BOOK_LENT]).await;
        let seen = registered(rig).await;
        ends_in_time(seen[2].alive_until, before, now(rig).await, MINUTE);
        assert_eq!(seen[..2], others, "the other registrations must be unchanged");
    }
}

/// A registration is removed only if it is as it was read; others stay.
pub async fn a_registration_renewed_since_it_was_read_is_not_removed(rig: &dyn StoreRig) {
    register(rig, "loans", &[BOOK_ADDED, BOOK_LENT]).await;
    let seen = registered(rig).await;
    rig.move_database_clock(TimeDelta::seconds(10));
    register(rig, "loans", &[BOOK_LENT]).await;
    in_unit!(rig, |unit| unit.outbox().unregister_types(&seen).await.unwrap());
    assert_eq!(names(rig).await, [name("loans", BOOK_LENT)]);
    let seen = registered(rig).await;
    in_unit!(rig, |unit| unit.outbox().unregister_types(&seen).await.unwrap());
    assert_eq!(names(rig).await, []);
}

/// Ending all leases removes every registration.
pub async fn ending_all_leases_removes_every_registered_type(rig: &dyn StoreRig) {
    register(rig, "loans", &[BOOK_LENT]).await;
    in_unit!(rig, |unit| unit.outbox().release_all_leases().await.unwrap());
    assert_eq!(names(rig).await, []);
}

/// Registrations are part of their unit of work.
pub async fn a_dropped_unit_of_work_changes_no_registered_type(rig: &dyn StoreRig) {
    register(rig, "loans", &[BOOK_LENT]).await;
    let seen = registered(rig).await;
    let mut unit = begin(rig).await;
    unit.outbox().register_types("loans", &[BOOK_ADDED], MINUTE).await.unwrap();
    unit.outbox().unregister_types(&seen).await.unwrap();
    drop(unit);
    assert_eq!(registered(rig).await, seen);
}

/// Unsettled events of a type that is registered for the consumer are unapplied as well, in the order of the aggregate.
/// Types that are registered for another consumer have no effect.
pub async fn an_event_of_a_registered_type_is_unapplied(rig: &dyn StoreRig) {
    let settled = of_type(BOOK_ADDED, event("settled", 7, 4));
    append(
        rig,
        &[
            of_type(BOOK_ADDED, event("added", 7, 1)),
            event("lent", 7, 2),
            of_type(BOOK_RETURNED, event("returned", 7, 3)),
            settled.clone(),
        ],
    )
    .await;
    record(rig, &[in_status(ConsumeStatus::Dead, consumption("inventory", &settled))]).await;
    register(rig, "inventory", &[BOOK_ADDED]).await;
    register(rig, "another", &[BOOK_RETURNED]).await;
    let mut view = view(rig).await;
    let of = [aggregate(7)];
    let found = view.outbox_view().unapplied("inventory", &[BOOK_LENT], 0, &of).await.unwrap();
    let found: Vec<&str> = found.iter().map(|it| it.event.event_id.as_str()).collect();
    assert_eq!(found, ["added", "lent"]);
    assert_eq!(view.outbox_view().unapplied("inventory", &[], 0, &of).await.unwrap(), []);
}

/// Sent events of a type that is registered for the consumer are unconsumed as well, so that a consumer that does not
/// know the type does not pass them.
pub async fn an_event_of_a_registered_type_is_unconsumed(rig: &dyn StoreRig) {
    append(
        rig,
        &[
            of_type(BOOK_ADDED, event("added", 7, 1)),
            event("lent", 7, 2),
            of_type(BOOK_RETURNED, event("returned", 7, 3)),
        ],
    )
    .await;
    in_unit!(rig, |unit| {
        let sent = ["added", "lent", "returned"].map(confirmed);
        unit.outbox().mark_sent(&sent.iter().collect::<Vec<_>>(), later(5)).await.unwrap();
    });
    register(rig, "inventory", &[BOOK_ADDED]).await;
    register(rig, "another", &[BOOK_RETURNED]).await;
    let mut view = view(rig).await;
    let view = view.outbox_view();
    let found = view.unconsumed_events("inventory", &[BOOK_LENT], 0, later(0), later(9), 10).await.unwrap();
    assert_eq!(found.iter().map(|row| row.event_id.as_str()).collect::<Vec<_>>(), ["added", "lent"]);
    assert_eq!(view.unconsumed_events("inventory", &[], 0, later(0), later(9), 10).await.unwrap(), []);
}

/// Stale records of excepted types are omitted, also if there are more than `limit`.
pub async fn stale_records_of_excepted_types_are_omitted(rig: &dyn StoreRig) {
    let waiting = |id: &str, event_type: &str, at: i64| Consumption {
        consume_time: later(at),
        ..in_status(ConsumeStatus::Waiting, consumption("inventory", &of_type(event_type, event(id, 7, 1))))
    };
    record(
        rig,
        &[
            waiting("a", BOOK_ADDED, -90),
            waiting("b", BOOK_RETURNED, -80),
            waiting("c", BOOK_LENT, -70),
            waiting("d", "book_added", -60),
        ],
    )
    .await;
    let mut view = view(rig).await;
    for (except, limit, expected) in [
        (&[][..], 10, &["a", "b", "c", "d"][..]),
        (&[BOOK_ADDED], 10, &["b", "c", "d"]),
        (&[BOOK_ADDED, BOOK_RETURNED, "UNKNOWN"], 1, &["c"]),
        (&[BOOK_ADDED, BOOK_RETURNED, BOOK_LENT, "book_added"], 10, &[]),
    ] {
        let idle_since = later(-30);
        let found =
            view.outbox_view().stale_consumptions("inventory", except, idle_since, start(), limit).await;
        let found: Vec<String> = found.unwrap().into_iter().map(String::from).collect();
        assert_eq!(found, expected, "except {except:?}");
    }
}
