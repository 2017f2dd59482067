//! Units of work in which a statement failed.

use handover_events::ConsumeStatus;
use handover_outbox::ports::{
    Consumption, DeadLetterStatus, Expected, OutboxUnit, OwnedPartition, StoreError,
};

use super::units::{has_dead_letter, has_event, write_everything};
use super::{StoreRig, begin, in_unit, view};
use crate::samples::{
    confirmed, consumption, dead_letter, decision, event, later, partition, redrive, relay, start, to_failed,
};
use crate::work::{changes_none, is_conflict};

/// Kinds of statements that fail with a conflict.
const FAILURES: [&str; 4] = ["event", "batch of events", "first consumption", "later consumption"];

async fn fail_by(what: &str, unit: &mut dyn OutboxUnit) -> Result<(), StoreError> {
    match what {
        "event" => unit.append(&[event("e", 5, 1)]).await,
        "batch of events" => unit.append(&[event("twin", 5, 1), event("twin", 5, 2)]).await,
        "first consumption" => unit.record(&[consumption("inventory", &event("e", 1, 1))]).await,
        _ => {
            let expected = Expected::At(ConsumeStatus::Failed, 1);
            unit.record(&[Consumption { expected, ..consumption("inventory", &event("e", 1, 1)) }]).await
        }
    }
}

async fn take_every_key(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| write_everything(unit.outbox()).await);
}

/// After a failed statement the commit fails, and nothing of the unit of work is stored.
pub async fn after_a_failed_statement_nothing_can_be_committed(rig: &dyn StoreRig) {
    take_every_key(rig).await;
    for what in FAILURES {
        let mut unit = begin(rig).await;
        unit.outbox().append(&[event("before", 50, 1)]).await.unwrap();
        unit.outbox().park(&[dead_letter("queue", "before")]).await.unwrap();
        is_conflict(fail_by(what, unit.outbox()).await);
        let committed = unit.commit().await;
        assert!(committed.is_err(), "commit reports success after a failed {what}");
        assert!(
            !matches!(committed, Err(StoreError::CommitUnknown(_))),
            "after a failed {what}, the outcome of the commit must be known"
        );
        let mut view = view(rig).await;
        assert!(!has_event(view.outbox_view(), "before").await, "row stored after a failed {what}");
        assert!(!has_dead_letter(view.outbox_view(), "before").await, "row stored after a failed {what}");
    }
}

/// Writes after a failed statement are not stored either.
pub async fn statements_after_a_failed_one_are_not_stored(rig: &dyn StoreRig) {
    take_every_key(rig).await;
    for what in FAILURES {
        let mut unit = begin(rig).await;
        is_conflict(fail_by(what, unit.outbox()).await);
        // These statements may fail, or be executed and rolled back; they must not be committed.
        drop(unit.outbox().append(&[event("after", 50, 1)]).await);
        drop(unit.outbox().park(&[dead_letter("queue", "after")]).await);
        assert!(unit.commit().await.is_err(), "commit reports success after a failed {what}");
        let mut view = view(rig).await;
        assert!(!has_event(view.outbox_view(), "after").await, "row stored after a failed {what}");
        assert!(!has_dead_letter(view.outbox_view(), "after").await, "row stored after a failed {what}");
    }
}

/// A failed unit of work does not affect later units of work.
pub async fn a_failed_unit_of_work_does_not_affect_later_ones(rig: &dyn StoreRig) {
    take_every_key(rig).await;
    for (n, what) in FAILURES.into_iter().enumerate() {
        let id = format!("next-{n}");
        let mut unit = begin(rig).await;
        is_conflict(fail_by(what, unit.outbox()).await);
        drop(unit);
        in_unit!(rig, |unit| unit.outbox().append(&[event(&id, 50, 1)]).await.unwrap());
        assert!(has_event(view(rig).await.outbox_view(), &id).await, "row missing after a failed {what}");
    }
}

/// A conditional write that changes no row is not a failure: the unit of work can be committed.
pub async fn a_write_that_changes_no_row_is_not_a_failure(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| {
        let unit = unit.outbox();
        let mut other = unit.partition_leases().await.unwrap().remove(0);
        other.epoch += 9;
        unit.append(&[event("e", 1, 1)]).await.unwrap();
        assert_eq!(unit.mark_sent(&[&confirmed("missing")], start()).await.unwrap(), 0);
        assert_eq!(unit.mark_failed(&[to_failed("missing")], start()).await.unwrap(), 0);
        assert_eq!(unit.redrive(&[redrive("missing", later(1))], start()).await.unwrap(), []);
        changes_none(unit.decide(&decision("queue", "missing", DeadLetterStatus::Discarded)).await);
        changes_none(unit.acquire_partition(&relay("r1"), &other, 60_000).await);
        let never = OwnedPartition { partition: partition(1), epoch: 9 };
        assert_eq!(unit.renew_partitions(&relay("r1"), &[never], 60_000).await.unwrap(), []);
    });
    assert!(has_event(view(rig).await.outbox_view(), "e").await);
}
