//! Settling outbox rows, and the fence.

use std::collections::BTreeMap;

use chrono::TimeDelta;
use handover_events::{OutboxStatus, PARTITIONS, Partition, PartitionSet};
use handover_outbox::ports::{Confirmed, FailedPublish, OutboxRow, OwnedPartition};

use super::outbox::{append, as_new, refs, row};
use super::{StoreRig, in_unit, view};
use crate::samples::{
    SPECIAL_CHARACTERS, confirmed, due_at, event, later, partition, redrive, relay, start, to_failed,
    to_retry,
};
use crate::work::changes_one;

/// A confirmed row becomes `SENT`, and the time of the confirm is stored.
pub async fn a_confirmed_row_is_sent_with_its_time(rig: &dyn StoreRig) {
    append(rig, &[event("new", 7, 1), event("retry", 8, 1), event("left", 9, 1)]).await;
    in_unit!(rig, |unit| unit
        .outbox()
        .mark_failed(&[to_retry("retry", Some(later(5)))], start())
        .await
        .unwrap());
    let moved = in_unit!(rig, |unit| unit
        .outbox()
        .mark_sent(&[&confirmed("new"), &confirmed("retry")], later(2))
        .await
        .unwrap());
    assert_eq!(moved, 2);
    for id in ["new", "retry"] {
        let row = row(rig, id).await;
        assert_eq!(
            (row.status, row.sent_time, row.update_time),
            (OutboxStatus::Sent, Some(later(2)), later(2))
        );
    }
    assert_eq!(row(rig, "left").await.status, OutboxStatus::New);
}

/// Only `NEW` and `RETRY` rows become `SENT`; settled rows are unchanged, missing rows are not counted.
pub async fn a_confirm_does_not_change_a_settled_row(rig: &dyn StoreRig) {
    append(rig, &[event("sent", 7, 1), event("failed", 8, 1), event("new", 9, 1)]).await;
    in_unit!(rig, |unit| {
        unit.outbox().mark_sent(&[&confirmed("sent")], later(1)).await.unwrap();
        unit.outbox().mark_failed(&[to_failed("failed")], later(1)).await.unwrap();
    });
    let before = [row(rig, "sent").await, row(rig, "failed").await];
    let proofs = ["sent", "failed", "missing", "new"].map(confirmed);
    assert_eq!(in_unit!(rig, |unit| unit.outbox().mark_sent(&refs(&proofs), later(2)).await.unwrap()), 1);
    assert_eq!([row(rig, "sent").await, row(rig, "failed").await], before);
}

/// A failed publish stores the new status, attempt count, due time and error in the row.
pub async fn a_failed_publish_is_stored(rig: &dyn StoreRig) {
    append(rig, &[event("a", 7, 1), event("b", 8, 1)]).await;
    let first = FailedPublish {
        error: format!("publishing failed: {SPECIAL_CHARACTERS}"),
        ..to_retry("a", Some(later(5)))
    };
    let last = to_failed("b");
    let both = [first.clone(), last.clone()];
    assert_eq!(in_unit!(rig, |unit| unit.outbox().mark_failed(&both, later(1)).await.unwrap()), 2);
    for written in both {
        let row = row(rig, written.event_id.as_str()).await;
        assert_eq!((row.status, row.retry_count), (written.status, written.retry_count));
        assert_eq!((row.next_retry_time, row.last_error), (written.next_retry_time, Some(written.error)));
        assert_eq!((row.update_time, row.sent_time), (later(1), None));
    }
    let third = FailedPublish { retry_count: 2, next_retry_time: None, ..first };
    assert_eq!(in_unit!(rig, |unit| unit.outbox().mark_failed(&[third], later(6)).await.unwrap()), 1);
    let row = row(rig, "a").await;
    assert_eq!((row.retry_count, row.next_retry_time, row.update_time), (2, None, later(6)));
}

/// Only `NEW` and `RETRY` rows become `RETRY` or `FAILED`.
pub async fn a_failed_publish_does_not_change_a_settled_row(rig: &dyn StoreRig) {
    append(rig, &[event("sent", 7, 1), event("failed", 8, 1), event("new", 9, 1)]).await;
    in_unit!(rig, |unit| {
        unit.outbox().mark_sent(&[&confirmed("sent")], later(1)).await.unwrap();
        unit.outbox().mark_failed(&[to_failed("failed")], later(1)).await.unwrap();
    });
    let before = [row(rig, "sent").await, row(rig, "failed").await];
    let failures = ["sent", "failed", "missing", "new"].map(|id| to_retry(id, Some(later(9))));
    assert_eq!(in_unit!(rig, |unit| unit.outbox().mark_failed(&failures, later(2)).await.unwrap()), 1);
    assert_eq!([row(rig, "sent").await, row(rig, "failed").await], before);
}

/// Settling never changes the event of a row.
pub async fn settling_does_not_change_the_event(rig: &dyn StoreRig) {
    let written = event("e", 7, 3);
    append(rig, std::slice::from_ref(&written)).await;
    in_unit!(rig, |unit| unit.outbox().mark_failed(&[to_retry("e", None)], later(1)).await.unwrap());
    in_unit!(rig, |unit| unit.outbox().mark_sent(&[&confirmed("e")], later(2)).await.unwrap());
    let seen = row(rig, "e").await;
    let expected = as_new(&written, &seen);
    assert_eq!(
        OutboxRow {
            status: OutboxStatus::New,
            retry_count: 0,
            next_retry_time: None,
            last_error: None,
            sent_time: None,
            ..seen
        },
        expected
    );
}

async fn take(rig: &dyn StoreRig, owner: &str, number: i64) -> OwnedPartition {
    let partition = partition(number);
    in_unit!(rig, |unit| {
        let seen = unit.outbox().partition_leases().await.unwrap().remove(usize::from(partition.number()));
        changes_one(unit.outbox().acquire_partition(&relay(owner), &seen, 60_000).await);
        OwnedPartition { partition, epoch: seen.epoch + 1 }
    })
}

async fn fenced(rig: &dyn StoreRig, owner: &str, owned_partitions: &[OwnedPartition]) -> PartitionSet {
    in_unit!(rig, |unit| unit
        .outbox()
        .fence(&relay(owner), owned_partitions)
        .await
        .expect("the fence succeeds"))
}

async fn bring_forward(rig: &dyn StoreRig, partitions: PartitionSet, beyond: i64, now: i64) -> u64 {
    in_unit!(rig, |unit| unit
        .outbox()
        .bring_retries_forward(partitions, later(beyond), later(now))
        .await
        .expect("cannot bring the due times of retries forward"))
}

/// A retry that is due after the bound becomes due now; of its other columns, only `update_time` changes. A retry that
/// is due at or before the bound is not changed.
pub async fn a_retry_due_after_the_bound_becomes_due_now(rig: &dyn StoreRig) {
    append(rig, &[event("far", 7, 1), event("at-bound", 8, 1), event("at-once", 9, 1)]).await;
    in_unit!(rig, |unit| {
        let failed = [
            to_retry("far", Some(later(101))),
            to_retry("at-bound", Some(later(100))),
            to_retry("at-once", None),
        ];
        unit.outbox().mark_failed(&failed, start()).await.unwrap();
    });
    let far = row(rig, "far").await;
    let others = [row(rig, "at-bound").await, row(rig, "at-once").await];
    assert_eq!(bring_forward(rig, PartitionSet::ALL, 100, 2).await, 1);
    let expected = OutboxRow { next_retry_time: Some(later(2)), update_time: later(2), ..far };
    assert_eq!(row(rig, "far").await, expected);
    assert_eq!([row(rig, "at-bound").await, row(rig, "at-once").await], others);
    let due = view(rig).await.outbox_view().outbox_due(&due_at(later(2))).await.unwrap();
    assert!(due.rows.contains(&expected), "{due:?}");
    assert_eq!(bring_forward(rig, PartitionSet::ALL, 100, 2).await, 0);
}

/// Only `RETRY` rows of the requested partitions change.
pub async fn only_retries_of_the_requested_partitions_become_due_now(rig: &dyn StoreRig) {
    let ids = ["new", "sent", "failed", "elsewhere", "own"];
    append(rig, &(1..).zip(ids).map(|(book, id)| event(id, book, 1)).collect::<Vec<_>>()).await;
    in_unit!(rig, |unit| {
        let failed = [
            to_failed("failed"),
            to_retry("sent", Some(later(500))),
            to_retry("elsewhere", Some(later(500))),
            to_retry("own", Some(later(500))),
        ];
        unit.outbox().mark_failed(&failed, start()).await.unwrap();
        unit.outbox().mark_sent(&[&confirmed("sent")], later(1)).await.unwrap();
    });
    let others = ["new", "sent", "failed", "elsewhere"];
    let mut before = Vec::new();
    for id in others {
        before.push(row(rig, id).await);
    }
    let all_but_elsewhere = PartitionSet::ALL.iter().filter(|it| *it != partition(4)).collect();
    assert_eq!(bring_forward(rig, all_but_elsewhere, 100, 2).await, 1);
    assert_eq!(row(rig, "own").await.next_retry_time, Some(later(2)));
    for (id, before) in others.into_iter().zip(before) {
        assert_eq!(row(rig, id).await, before, "{id}");
    }
    assert_eq!(bring_forward(rig, [].into_iter().collect(), 100, 2).await, 0);
    assert_eq!(bring_forward(rig, PartitionSet::ALL, 100, 2).await, 1);
}

/// A redriven row is not made due early, unless a publish of it has failed after the redrive.
pub async fn a_redriven_row_keeps_its_due_time_when_retries_are_brought_forward(rig: &dyn StoreRig) {
    append(rig, &[event("sent", 7, 1), event("failed", 8, 1)]).await;
    in_unit!(rig, |unit| {
        unit.outbox().mark_sent(&[&confirmed("sent")], start()).await.unwrap();
        unit.outbox().mark_failed(&[to_failed("failed")], start()).await.unwrap();
        let both = [redrive("sent", later(500)), redrive("failed", later(600))];
        unit.outbox().redrive(&both, later(1)).await.unwrap();
    });
    let before = [row(rig, "sent").await, row(rig, "failed").await];
    assert_eq!(bring_forward(rig, PartitionSet::ALL, 100, 2).await, 0);
    assert_eq!([row(rig, "sent").await, row(rig, "failed").await], before);
    let retries = [to_retry("sent", Some(later(700))), to_retry("failed", Some(later(700)))];
    in_unit!(rig, |unit| unit.outbox().mark_failed(&retries, later(3)).await.unwrap());
    assert_eq!(bring_forward(rig, PartitionSet::ALL, 100, 4).await, 2);
}

/// The fence accepts partitions owned at this epoch and returns only the requested ones.
pub async fn the_fence_accepts_owned_partitions(rig: &dyn StoreRig) {
    let one = take(rig, "r1", 1).await;
    let two = take(rig, "r1", 2).await;
    take(rig, "r1", 3).await;
    assert_eq!(fenced(rig, "r1", &[one, two]).await, [one.partition, two.partition].into_iter().collect());
    assert_eq!(fenced(rig, "r1", &[two]).await, [two.partition].into_iter().collect());
}

/// The fence rejects partitions of another relay or epoch, released ones, and partitions never taken.
pub async fn the_fence_rejects_partitions_that_are_not_owned(rig: &dyn StoreRig) {
    let own = take(rig, "r1", 1).await;
    let other = take(rig, "r2", 2).await;
    let returned = take(rig, "r1", 3).await;
    in_unit!(rig, |unit| unit.outbox().release_partitions(&relay("r1"), &[returned]).await.unwrap());
    let old = OwnedPartition { epoch: own.epoch - 1, ..own };
    let future = OwnedPartition { epoch: own.epoch + 1, ..own };
    let never = OwnedPartition { partition: partition(9), epoch: 0 };
    for refused in [old, future, other, returned, never] {
        assert!(fenced(rig, "r1", &[refused]).await.is_empty(), "{refused:?}");
    }
    assert_eq!(
        fenced(rig, "r1", &[own, other, returned, never]).await,
        [own.partition].into_iter().collect()
    );
    assert!(fenced(rig, "R1", &[own]).await.is_empty(), "owners must be compared byte by byte");
}

/// A relay that lost a partition settles nothing with the old epoch, even if it owns the partition again.
pub async fn the_fence_rejects_the_old_epoch_of_a_partition_that_was_lost(rig: &dyn StoreRig) {
    let first = take(rig, "r1", 1).await;
    let second = take(rig, "r2", 1).await;
    assert!(fenced(rig, "r1", &[first]).await.is_empty());
    assert!(!fenced(rig, "r2", &[second]).await.is_empty());
    let third = take(rig, "r1", 1).await;
    assert!(fenced(rig, "r1", &[first]).await.is_empty(), "the old epoch must be rejected");
    assert!(!fenced(rig, "r1", &[third]).await.is_empty());
}

/// Owner and epoch are sufficient: an expired lease that no other relay has taken is accepted.
pub async fn the_fence_accepts_an_expired_lease_if_no_other_relay_took_it(rig: &dyn StoreRig) {
    let owned = take(rig, "r1", 1).await;
    rig.move_database_clock(TimeDelta::minutes(2));
    assert!(!fenced(rig, "r1", &[owned]).await.is_empty());
}

/// All partitions can be fenced in one call.
pub async fn the_fence_accepts_every_partition_in_one_call(rig: &dyn StoreRig) {
    let mut owned_partitions = Vec::new();
    for number in 1..=i64::from(PARTITIONS) {
        owned_partitions.push(take(rig, "r1", number).await);
    }
    assert_eq!(fenced(rig, "r1", &owned_partitions).await, PartitionSet::ALL);
}

/// Of the confirmed rows, those of the partitions that the relay still owns become `SENT`; the others do not change.
pub async fn only_rows_of_owned_partitions_become_sent(rig: &dyn StoreRig) {
    let own = take(rig, "r1", 1).await;
    let lost = take(rig, "r1", 2).await;
    take(rig, "r2", 2).await;
    let released = take(rig, "r1", 3).await;
    in_unit!(rig, |unit| unit.outbox().release_partitions(&relay("r1"), &[released]).await.unwrap());
    let never = OwnedPartition { partition: partition(9), epoch: 0 };
    // A small window, and one of several statements.
    for (window, rows) in [("small", 1), ("large", 300)] {
        let id = |book: i64, seq: i64| format!("{window}-{book}-{seq}");
        let mut confirms: BTreeMap<Partition, Vec<Confirmed>> = BTreeMap::new();
        for book in [1, 2, 3, 9] {
            append(rig, &(1..=rows).map(|seq| event(&id(book, seq), book, seq)).collect::<Vec<_>>()).await;
            confirms.insert(partition(book), (1..=rows).map(|seq| confirmed(&id(book, seq))).collect());
        }
        let settle = async |owner: &str, confirms: &BTreeMap<Partition, Vec<Confirmed>>| {
            let all = [own, lost, released, never];
            in_unit!(rig, |unit| unit
                .outbox()
                .mark_sent_if_owned(&relay(owner), &all, confirms, later(2))
                .await
                .expect("the settlement succeeds"))
        };
        assert!(settle("R1", &confirms).await.is_empty(), "owners must be compared byte by byte");
        let own_partition: PartitionSet = [own.partition].into_iter().collect();
        assert_eq!(settle("r1", &confirms).await, own_partition);
        for (book, status) in
            [(1, OutboxStatus::Sent), (2, OutboxStatus::New), (3, OutboxStatus::New), (9, OutboxStatus::New)]
        {
            for seq in [1, rows] {
                assert_eq!(row(rig, &id(book, seq)).await.status, status, "{}", id(book, seq));
            }
        }
        let sent = row(rig, &id(1, rows)).await;
        assert_eq!((sent.sent_time, sent.update_time), (Some(later(2)), later(2)));
        assert_eq!(settle("r1", &confirms).await, own_partition, "a repeated settlement changes nothing");
        assert_eq!(settle("r1", &BTreeMap::new()).await, own_partition);
        let nothing = in_unit!(rig, |unit| unit
            .outbox()
            .mark_sent_if_owned(&relay("r1"), &[], &confirms, later(2))
            .await
            .expect("the settlement succeeds"));
        assert!(nothing.is_empty());
    }
}
