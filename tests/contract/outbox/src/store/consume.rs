//! The consume log.

use chrono::TimeDelta;
use handover_events::ConsumeStatus;
use handover_outbox::ports::{ConsumeRecord, Consumption, Expected, NewEvent, StoreError};

use super::{StoreRig, begin, in_unit, view};
use crate::samples::{SPECIAL_CHARACTERS, as_recorded, consumption, event, event_id, later};
use crate::work::{commit, is_conflict};

pub(super) async fn append(rig: &dyn StoreRig, events: &[NewEvent]) {
    in_unit!(rig, |unit| unit.outbox().append(events).await.expect("events are appended"));
}

pub(super) async fn record(rig: &dyn StoreRig, rows: &[Consumption]) {
    in_unit!(rig, |unit| unit.outbox().record(rows).await.expect("rows are recorded"));
}

async fn refused(rig: &dyn StoreRig, rows: &[Consumption]) {
    let mut unit = begin(rig).await;
    is_conflict(unit.outbox().record(rows).await);
    assert!(unit.commit().await.is_err(), "after a conflict the commit must fail");
}

async fn logged(rig: &dyn StoreRig, consumer: &str, event: &str) -> Option<ConsumeRecord> {
    view(rig).await.outbox_view().consumption(consumer, &event_id(event)).await.expect("cannot read the log")
}

pub(super) fn in_status(status: ConsumeStatus, row: Consumption) -> Consumption {
    Consumption { status, ..row }
}

/// A record is read back as it was written; missing records are not found.
pub async fn a_record_is_read_back_as_it_was_written(rig: &dyn StoreRig) {
    let full = Consumption {
        status: ConsumeStatus::Failed,
        attempts: 3,
        next_retry_time: Some(later(5) + TimeDelta::microseconds(1)),
        lease_until: Some(later(30)),
        error_message: Some(format!("consuming failed: {SPECIAL_CHARACTERS}")),
        idempotency_key: Some("book:7:loan".into()),
        consume_result: Some(SPECIAL_CHARACTERS.into()),
        ..consumption("inventory", &event("full", 7, 1))
    };
    let minimal = consumption("inventory", &event("bare", 8, 1));
    record(rig, &[full.clone(), minimal.clone()]).await;
    for written in [full, minimal] {
        let seen = logged(rig, "inventory", written.event_id.as_str()).await;
        assert_eq!(seen, Some(as_recorded(&written)));
    }
    assert_eq!(logged(rig, "inventory", "missing").await, None);
    assert_eq!(logged(rig, "lending", "full").await, None);
}

/// Every status is stored.
pub async fn every_status_of_the_log_is_stored(rig: &dyn StoreRig) {
    for (n, status) in ConsumeStatus::ALL.iter().enumerate() {
        let id = format!("e{n}");
        record(rig, &[in_status(*status, consumption("inventory", &event(&id, 7, 1)))]).await;
        assert_eq!(logged(rig, "inventory", &id).await.map(|row| row.status), Some(*status));
    }
}

/// If a record that is expected to be absent exists, that is a conflict, and nothing changes.
pub async fn a_record_expected_to_be_absent_conflicts_with_an_existing_one(rig: &dyn StoreRig) {
    let first = consumption("inventory", &event("e", 7, 1));
    record(rig, std::slice::from_ref(&first)).await;
    let again = Consumption { attempts: 9, ..in_status(ConsumeStatus::Failed, first.clone()) };
    refused(rig, &[again]).await;
    assert_eq!(logged(rig, "inventory", "e").await, Some(as_recorded(&first)), "nothing changed");
}

/// A record in the expected state is replaced completely.
pub async fn a_record_in_the_expected_state_is_updated(rig: &dyn StoreRig) {
    let first = Consumption {
        next_retry_time: Some(later(5)),
        error_message: Some("once".into()),
        ..in_status(ConsumeStatus::Failed, consumption("inventory", &event("e", 7, 1)))
    };
    let second = Consumption {
        expected: Expected::At(ConsumeStatus::Failed, 1),
        attempts: 2,
        next_retry_time: None,
        lease_until: Some(later(40)),
        error_message: None,
        consume_time: later(10),
        ..in_status(ConsumeStatus::Processing, first.clone())
    };
    let third = Consumption {
        expected: Expected::At(ConsumeStatus::Processing, 2),
        lease_until: None,
        consume_time: later(11),
        ..in_status(ConsumeStatus::Success, second.clone())
    };
    for row in [first, second, third] {
        record(rig, std::slice::from_ref(&row)).await;
        assert_eq!(logged(rig, "inventory", "e").await, Some(as_recorded(&row)));
    }
}

/// If the record has another status or number of attempts than expected, or does not exist, that is a conflict, and
/// nothing changes.
pub async fn a_record_in_an_unexpected_state_is_a_conflict(rig: &dyn StoreRig) {
    let failed = Consumption {
        attempts: 2,
        ..in_status(ConsumeStatus::Failed, consumption("inventory", &event("e", 7, 1)))
    };
    record(rig, std::slice::from_ref(&failed)).await;
    let wrong = [
        Expected::At(ConsumeStatus::Failed, 1),
        Expected::At(ConsumeStatus::Failed, 3),
        Expected::At(ConsumeStatus::Waiting, 2),
        Expected::At(ConsumeStatus::Processing, 2),
        Expected::At(ConsumeStatus::Success, 2),
    ];
    for expected in wrong {
        refused(rig, &[Consumption { expected, ..in_status(ConsumeStatus::Success, failed.clone()) }]).await;
    }
    assert_eq!(logged(rig, "inventory", "e").await, Some(as_recorded(&failed)));

    let absent = consumption("inventory", &event("missing", 7, 1));
    refused(rig, &[Consumption { expected: Expected::At(ConsumeStatus::Failed, 1), ..absent }]).await;
    assert_eq!(logged(rig, "inventory", "missing").await, None);
}

/// After one conflict among many records, none of them is written, nor any other change of the unit of work.
pub async fn one_conflict_undoes_the_whole_unit_of_work(rig: &dyn StoreRig) {
    record(rig, &[consumption("inventory", &event("taken", 7, 1))]).await;
    let mut unit = begin(rig).await;
    unit.outbox().append(&[event("follow-up", 9, 1)]).await.unwrap();
    let rows = ["a", "taken", "b"].map(|id| consumption("inventory", &event(id, 7, 1)));
    is_conflict(unit.outbox().record(&rows).await);
    assert!(unit.commit().await.is_err(), "after a conflict the commit must fail");
    assert_eq!(logged(rig, "inventory", "a").await, None);
    assert_eq!(logged(rig, "inventory", "b").await, None);
    assert_eq!(view(rig).await.outbox_view().outbox_by_event(&[event_id("follow-up")]).await.unwrap(), []);
}

/// A batch may insert some records and update others.
pub async fn a_batch_may_insert_some_rows_and_update_others(rig: &dyn StoreRig) {
    let waiting = in_status(ConsumeStatus::Waiting, consumption("inventory", &event("old", 7, 1)));
    record(rig, std::slice::from_ref(&waiting)).await;
    let moved = Consumption {
        expected: Expected::At(ConsumeStatus::Waiting, 1),
        ..in_status(ConsumeStatus::Success, waiting.clone())
    };
    record(rig, &[consumption("inventory", &event("new", 7, 2)), moved]).await;
    for id in ["old", "new"] {
        assert_eq!(logged(rig, "inventory", id).await.map(|row| row.status), Some(ConsumeStatus::Success));
    }
}

/// Two records of one event in one batch conflict, because both expect that the event has no record.
pub async fn a_batch_that_names_an_event_twice_is_a_conflict(rig: &dyn StoreRig) {
    let row = consumption("inventory", &event("e", 7, 1));
    refused(rig, &[row.clone(), row]).await;
    assert_eq!(logged(rig, "inventory", "e").await, None);
}

/// Each consumer has its own records.
pub async fn each_consumer_has_its_own_records(rig: &dyn StoreRig) {
    record(rig, &[consumption("inventory", &event("e", 7, 1))]).await;
    record(rig, &[in_status(ConsumeStatus::Dead, consumption("lending", &event("e", 7, 1)))]).await;
    assert_eq!(logged(rig, "inventory", "e").await.map(|row| row.status), Some(ConsumeStatus::Success));
    assert_eq!(logged(rig, "lending", "e").await.map(|row| row.status), Some(ConsumeStatus::Dead));
}

/// `Key-A` and `key-a` are two events, `Inventory` and `inventory` two consumers.
pub async fn consumers_and_events_are_compared_byte_by_byte(rig: &dyn StoreRig) {
    let mut rows = vec![consumption("inventory", &event("key-a", 7, 1))];
    rows.push(in_status(ConsumeStatus::Dead, consumption("inventory", &event("Key-A", 7, 1))));
    rows.push(in_status(ConsumeStatus::Waiting, consumption("Inventory", &event("key-a", 7, 1))));
    record(rig, &rows).await;
    assert_eq!(logged(rig, "inventory", "key-a").await.map(|row| row.status), Some(ConsumeStatus::Success));
    assert_eq!(logged(rig, "inventory", "Key-A").await.map(|row| row.status), Some(ConsumeStatus::Dead));
    assert_eq!(logged(rig, "Inventory", "key-a").await.map(|row| row.status), Some(ConsumeStatus::Waiting));
    assert_eq!(logged(rig, "INVENTORY", "key-a").await, None);
}

/// A large batch of records is written in one call.
pub async fn a_large_batch_is_recorded_completely(rig: &dyn StoreRig) {
    let rows: Vec<_> =
        (0..500).map(|n| consumption("inventory", &event(&format!("e{n}"), 7, n + 1))).collect();
    record(rig, &rows).await;
    assert!(
        logged(rig, "inventory", "e0").await.is_some() && logged(rig, "inventory", "e499").await.is_some()
    );
}

/// Recording an empty batch is not an error; a conflict names the key in `what`.
pub async fn a_conflict_names_its_key(rig: &dyn StoreRig) {
    let mut unit = begin(rig).await;
    unit.outbox().record(&[]).await.unwrap();
    unit.outbox().record(&[consumption("inventory", &event("e", 7, 1))]).await.unwrap();
    commit(unit).await;
    match begin(rig).await.outbox().record(&[consumption("inventory", &event("e", 7, 1))]).await {
        Err(StoreError::Conflict { what }) => assert!(!what.is_empty()),
        other => panic!("expected a conflict, got {other:?}"),
    }
}
