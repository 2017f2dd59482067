//! Partition leases and heartbeats, whose times come from the database clock.

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{ConsumeStatus, PARTITIONS, Partition};
use handover_outbox::ports::{Consumption, OwnedPartition, PartitionLease};

use super::{StoreRig, begin, in_unit, view};
use crate::samples::{consumption, event, partition, relay};
use crate::work::{changes_none, changes_one};

const MINUTE: u32 = 60_000;

async fn lease(rig: &dyn StoreRig, of: Partition) -> PartitionLease {
    let mut leases = view(rig).await.outbox_view().partition_leases().await.expect("cannot read leases");
    leases.remove(usize::from(of.number()))
}

async fn take(rig: &dyn StoreRig, owner: &str, of: Partition) -> OwnedPartition {
    let seen = lease(rig, of).await;
    in_unit!(rig, |unit| changes_one(unit.outbox().acquire_partition(&relay(owner), &seen, MINUTE).await));
    OwnedPartition { partition: of, epoch: seen.epoch + 1 }
}

pub(super) async fn now(rig: &dyn StoreRig) -> DateTime<Utc> {
    view(rig).await.outbox_view().database_now().await.expect("cannot read the database clock")
}

async fn renew(rig: &dyn StoreRig, owner: &str, owned_partitions: &[OwnedPartition]) -> Vec<OwnedPartition> {
    in_unit!(rig, |unit| unit
        .outbox()
        .renew_partitions(&relay(owner), owned_partitions, MINUTE)
        .await
        .expect("leases are renewed"))
}

async fn heartbeats(rig: &dyn StoreRig) -> Vec<(String, DateTime<Utc>)> {
    let heartbeats = view(rig).await.outbox_view().heartbeats().await.expect("cannot read heartbeats");
    heartbeats.into_iter().map(|heartbeat| (heartbeat.relay.0, heartbeat.alive_until)).collect()
}

async fn relays(rig: &dyn StoreRig) -> Vec<String> {
    heartbeats(rig).await.into_iter().map(|(relay, _)| relay).collect()
}

/// Asserts that a lease that was written between `before` and `after` ends `for_ms` later.
pub(super) fn ends_in_time(until: DateTime<Utc>, before: DateTime<Utc>, after: DateTime<Utc>, for_ms: u32) {
    let length = TimeDelta::milliseconds(for_ms.into());
    let slack = TimeDelta::milliseconds(2); // a clock may be coarser than a microsecond
    assert!(
        before + length - slack <= until && until <= after + length + slack,
        "{until} for {before}..{after}"
    );
}

fn end(lease: &PartitionLease) -> DateTime<Utc> {
    lease.lease_until.expect("there is no lease")
}

/// A new store has the lease rows of all 64 partitions, in order and without owner.
pub async fn every_partition_has_a_lease_row_in_a_new_store(rig: &dyn StoreRig) {
    let leases = view(rig).await.outbox_view().partition_leases().await.unwrap();
    assert_eq!(leases.iter().map(|l| l.partition).collect::<Vec<_>>(), Partition::all().collect::<Vec<_>>());
    assert!(leases.iter().all(|lease| lease.owner.is_none() && lease.lease_until.is_none()));
}

/// After partitions were taken and released there are still 64 lease rows, in order.
pub async fn there_are_always_as_many_lease_rows_as_partitions(rig: &dyn StoreRig) {
    let owned = take(rig, "r1", partition(40)).await;
    take(rig, "r1", partition(3)).await;
    in_unit!(rig, |unit| unit.outbox().release_partitions(&relay("r1"), &[owned]).await.unwrap());
    let leases = view(rig).await.outbox_view().partition_leases().await.unwrap();
    assert_eq!(leases.len(), usize::from(PARTITIONS));
    assert_eq!(leases.iter().map(|l| l.partition).collect::<Vec<_>>(), Partition::all().collect::<Vec<_>>());
}

/// A relay that takes a free partition gets a lease that starts at the database time, and the epoch increases by one.
pub async fn a_free_partition_can_be_taken(rig: &dyn StoreRig) {
    let of = partition(7);
    let seen = lease(rig, of).await;
    let before = now(rig).await;
    in_unit!(rig, |unit| changes_one(unit.outbox().acquire_partition(&relay("r1"), &seen, MINUTE).await));
    let taken = lease(rig, of).await;
    assert_eq!((taken.owner.clone(), taken.epoch), (Some(relay("r1")), seen.epoch + 1));
    ends_in_time(end(&taken), before, now(rig).await, MINUTE);
    assert_eq!(lease(rig, partition(8)).await.owner, None, "other partitions must still be free");
}

/// A partition that was taken or renewed since it was read cannot be taken, not even by its owner.
pub async fn a_partition_is_taken_only_if_unchanged_since_it_was_read(rig: &dyn StoreRig) {
    let free = lease(rig, partition(7)).await;
    let owned = take(rig, "r1", partition(7)).await;
    let current = lease(rig, owned.partition).await;
    rig.move_database_clock(TimeDelta::seconds(1));
    renew(rig, "r1", &[owned]).await;
    let renewed = lease(rig, owned.partition).await;
    for seen in [&free, &current] {
        for owner in ["r2", "r1"] {
            in_unit!(rig, |unit| changes_none(
                unit.outbox().acquire_partition(&relay(owner), seen, MINUTE).await
            ));
        }
    }
    assert_eq!(lease(rig, owned.partition).await, renewed);
}

/// A partition cannot be taken if its epoch differs from the epoch that was read.
pub async fn a_partition_is_taken_only_at_the_epoch_that_was_read(rig: &dyn StoreRig) {
    let owned = take(rig, "r1", partition(7)).await;
    in_unit!(rig, |unit| unit.outbox().release_partitions(&relay("r1"), &[owned]).await.unwrap());
    let free = lease(rig, owned.partition).await;
    for epoch in [owned.epoch - 1, owned.epoch + 1] {
        let seen = PartitionLease { epoch, ..free.clone() };
        in_unit!(rig, |unit| changes_none(
            unit.outbox().acquire_partition(&relay("r2"), &seen, MINUTE).await
        ));
    }
    in_unit!(rig, |unit| changes_one(unit.outbox().acquire_partition(&relay("r2"), &free, MINUTE).await));
}

/// The relay that takes a partition decides whether the old lease has ended: the store accepts the takeover of an
/// unchanged row, whatever the database clock shows. The new lease starts at the current time of that clock.
pub async fn a_partition_is_taken_whatever_the_database_clock_shows(rig: &dyn StoreRig) {
    let mut owned = take(rig, "r1", partition(7)).await;
    for (step, owner) in [(TimeDelta::minutes(-5), "r2"), (TimeDelta::minutes(10), "r3")] {
        let seen = lease(rig, owned.partition).await;
        rig.move_database_clock(step);
        let before = now(rig).await;
        in_unit!(rig, |unit| changes_one(
            unit.outbox().acquire_partition(&relay(owner), &seen, MINUTE).await
        ));
        let taken = lease(rig, owned.partition).await;
        assert_eq!((taken.owner.clone(), taken.epoch), (Some(relay(owner)), owned.epoch + 1));
        ends_in_time(end(&taken), before, now(rig).await, MINUTE);
        owned.epoch += 1;
    }
}

/// Every takeover raises the epoch by one; renewal and release do not change it.
pub async fn the_epoch_increases_by_one_with_each_owner(rig: &dyn StoreRig) {
    let first = take(rig, "r1", partition(7)).await;
    renew(rig, "r1", &[first]).await;
    in_unit!(rig, |unit| unit.outbox().release_partitions(&relay("r1"), &[first]).await.unwrap());
    let second = take(rig, "r2", partition(7)).await;
    let third = take(rig, "r3", partition(7)).await;
    let fourth = take(rig, "r3", partition(7)).await;
    let epochs = [first, second, third, fourth].map(|owned| owned.epoch - first.epoch);
    assert_eq!(epochs, [0, 1, 2, 3]);
}

/// Renewal extends a lease from the database's current time and keeps the epoch.
pub async fn renewal_extends_a_lease_from_the_database_time(rig: &dyn StoreRig) {
    let owned = take(rig, "r1", partition(7)).await;
    let other = take(rig, "r1", partition(8)).await;
    let unrenewed = lease(rig, other.partition).await;
    rig.move_database_clock(TimeDelta::seconds(50));
    let before = now(rig).await;
    assert_eq!(renew(rig, "r1", &[owned]).await, [owned]);
    let renewed = lease(rig, owned.partition).await;
    assert_eq!((renewed.owner.clone(), renewed.epoch), (Some(relay("r1")), owned.epoch));
    ends_in_time(end(&renewed), before, now(rig).await, MINUTE);
    assert_eq!(lease(rig, other.partition).await, unrenewed, "other leases must not be renewed");
}

/// An expired lease can be renewed as long as no other relay has taken the partition.
pub async fn an_expired_lease_is_renewed_if_no_other_relay_took_the_partition(rig: &dyn StoreRig) {
    let owned = take(rig, "r1", partition(7)).await;
    rig.move_database_clock(TimeDelta::minutes(5));
    let before = now(rig).await;
    assert_eq!(renew(rig, "r1", &[owned]).await, [owned]);
    ends_in_time(end(&lease(rig, owned.partition).await), before, now(rig).await, MINUTE);
}

/// Only leases that the relay still owns at the given epoch are renewed, and only those are returned.
pub async fn only_own_leases_are_renewed_and_returned(rig: &dyn StoreRig) {
    let own = take(rig, "r1", partition(1)).await;
    let other = take(rig, "r2", partition(2)).await;
    let returned = take(rig, "r1", partition(3)).await;
    in_unit!(rig, |unit| unit.outbox().release_partitions(&relay("r1"), &[returned]).await.unwrap());
    let lost = take(rig, "r1", partition(4)).await;
    let old = OwnedPartition { epoch: own.epoch - 1, ..own };
    let never = OwnedPartition { partition: partition(9), epoch: 0 };
    rig.move_database_clock(TimeDelta::minutes(5));
    take(rig, "r2", partition(4)).await;
    let before = [lease(rig, other.partition).await, lease(rig, lost.partition).await];
    assert_eq!(renew(rig, "r1", &[other, returned, lost, old, never, own]).await, [own]);
    assert_eq!(renew(rig, "r1", &[old]).await, []);
    assert_eq!(renew(rig, "r1", &[]).await, []);
    assert_eq!([lease(rig, other.partition).await, lease(rig, lost.partition).await], before);
    assert_eq!(lease(rig, returned.partition).await.lease_until, None);
}

/// A released partition has no owner and no lease, and keeps its epoch; any relay can take it immediately.
pub async fn a_released_partition_is_free_at_the_same_epoch(rig: &dyn StoreRig) {
    let owned = take(rig, "r1", partition(7)).await;
    let other = take(rig, "r1", partition(8)).await;
    in_unit!(rig, |unit| unit.outbox().release_partitions(&relay("r1"), &[owned]).await.unwrap());
    let free =
        PartitionLease { partition: owned.partition, owner: None, epoch: owned.epoch, lease_until: None };
    assert_eq!(lease(rig, owned.partition).await, free);
    assert_eq!(lease(rig, other.partition).await.owner, Some(relay("r1")));
    assert_eq!(take(rig, "r2", owned.partition).await.epoch, owned.epoch + 1);
}

/// A relay cannot release a partition of another relay, or of an earlier epoch.
pub async fn only_own_leases_are_released(rig: &dyn StoreRig) {
    let lost = take(rig, "r1", partition(7)).await;
    let owned = take(rig, "r2", partition(7)).await;
    let before = lease(rig, owned.partition).await;
    let old = OwnedPartition { epoch: owned.epoch - 1, ..owned };
    in_unit!(rig, |unit| {
        unit.outbox().release_partitions(&relay("r1"), &[lost]).await.unwrap();
        unit.outbox().release_partitions(&relay("r1"), &[owned]).await.unwrap();
        unit.outbox().release_partitions(&relay("r2"), &[old]).await.unwrap();
        unit.outbox().release_partitions(&relay("r2"), &[]).await.unwrap();
    });
    assert_eq!(lease(rig, owned.partition).await, before);
}

/// A dropped unit of work does not take, renew or release leases.
pub async fn a_dropped_unit_of_work_does_not_change_leases(rig: &dyn StoreRig) {
    let owned = take(rig, "r1", partition(7)).await;
    let before = view(rig).await.outbox_view().partition_leases().await.unwrap();
    let mut unit = begin(rig).await;
    let free = &before[usize::from(partition(8).number())];
    changes_one(unit.outbox().acquire_partition(&relay("r2"), free, MINUTE).await);
    unit.outbox().release_partitions(&relay("r1"), &[owned]).await.unwrap();
    unit.outbox().heartbeat(&relay("r2"), MINUTE).await.unwrap();
    drop(unit);
    assert_eq!(view(rig).await.outbox_view().partition_leases().await.unwrap(), before);
    assert_eq!(relays(rig).await, [""; 0]);
}

/// The database clock moves forward, and the test rig can shift it.
pub async fn the_test_rig_can_shift_the_database_clock(rig: &dyn StoreRig) {
    let first = now(rig).await;
    let second = now(rig).await;
    assert!(first <= second);
    rig.move_database_clock(TimeDelta::minutes(10));
    let moved = now(rig).await - second;
    assert!(moved >= TimeDelta::minutes(10) && moved < TimeDelta::minutes(11), "moved by {moved}");
    let in_a_unit = in_unit!(rig, |unit| unit.outbox().database_now().await.unwrap());
    assert!(in_a_unit >= second + TimeDelta::minutes(10));
}

/// Heartbeats are kept until the relay is removed, even if they have expired, and are ordered by relay id. Each
/// heartbeat starts at the database's current time, even if that clock was set back or forward.
pub async fn a_heartbeat_starts_at_the_database_time(rig: &dyn StoreRig) {
    assert_eq!(relays(rig).await, [""; 0]);
    in_unit!(rig, |unit| {
        unit.outbox().heartbeat(&relay("r2"), 5 * MINUTE).await.unwrap();
        unit.outbox().heartbeat(&relay("r1"), MINUTE).await.unwrap();
    });
    let other = heartbeats(rig).await.remove(1);
    for step in [TimeDelta::seconds(50), TimeDelta::minutes(-5), TimeDelta::minutes(10)] {
        rig.move_database_clock(step);
        let before = now(rig).await;
        in_unit!(rig, |unit| unit.outbox().heartbeat(&relay("r1"), MINUTE).await.unwrap());
        let seen = heartbeats(rig).await;
        assert_eq!(relays(rig).await, ["r1", "r2"]);
        ends_in_time(seen[0].1, before, now(rig).await, MINUTE);
        assert_eq!(seen[1], other, "the heartbeat of the other relay must be unchanged");
    }
}

/// The heartbeat of an ended relay is removed immediately; those of other relays are kept.
pub async fn an_ended_relay_is_removed(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| {
        unit.outbox().heartbeat(&relay("r1"), MINUTE).await.unwrap();
        unit.outbox().heartbeat(&relay("r2"), MINUTE).await.unwrap();
        unit.outbox().heartbeat(&relay("R1"), MINUTE).await.unwrap();
    });
    in_unit!(rig, |unit| {
        unit.outbox().delete_heartbeat(&relay("r1")).await.unwrap();
        unit.outbox().delete_heartbeat(&relay("never-seen")).await.unwrap();
    });
    assert_eq!(relays(rig).await, ["R1", "r2"], "relay ids must be compared byte by byte");
}

/// Ending all leases removes every heartbeat and frees every partition, without changing epochs.
pub async fn ending_all_leases_frees_every_partition(rig: &dyn StoreRig) {
    let owned = take(rig, "r1", partition(7)).await;
    in_unit!(rig, |unit| unit.outbox().heartbeat(&relay("r1"), MINUTE).await.unwrap());
    in_unit!(rig, |unit| unit.outbox().release_all_leases().await.unwrap());
    assert_eq!(relays(rig).await, [""; 0]);
    let free =
        PartitionLease { partition: owned.partition, owner: None, epoch: owned.epoch, lease_until: None };
    assert_eq!(lease(rig, owned.partition).await, free);
    assert_eq!(take(rig, "r2", owned.partition).await.epoch, owned.epoch + 1);
    take(rig, "r2", partition(8)).await;
}

/// Ending all leases makes `PROCESSING` records stale immediately, but no records with another status.
pub async fn ending_all_leases_ends_leases_of_processing_events(rig: &dyn StoreRig) {
    let database_now = now(rig).await;
    let row = |id: &str, status: ConsumeStatus| Consumption {
        status,
        lease_until: (status == ConsumeStatus::Processing).then_some(database_now + TimeDelta::minutes(1)),
        next_retry_time: (status == ConsumeStatus::Failed).then_some(database_now + TimeDelta::minutes(1)),
        consume_time: database_now,
        ..consumption("inventory", &event(id, 7, 1))
    };
    let rows: Vec<_> = ConsumeStatus::ALL.iter().map(|status| row(status.as_str(), *status)).collect();
    in_unit!(rig, |unit| unit.outbox().record(&rows).await.unwrap());
    in_unit!(rig, |unit| unit.outbox().release_all_leases().await.unwrap());
    let soon = now(rig).await.max(database_now) + TimeDelta::seconds(1);
    let left = view(rig)
        .await
        .outbox_view()
        .stale_consumptions("inventory", &[], database_now - TimeDelta::seconds(1), soon, 10)
        .await
        .unwrap();
    assert_eq!(left.iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["PROCESSING"]);
    let record =
        view(rig).await.outbox_view().consumption("inventory", &rows[0].event_id).await.unwrap().unwrap();
    assert_eq!(
        (record.status, record.attempts),
        (ConsumeStatus::Processing, 1),
        "the interrupted attempt must still be counted"
    );
}
