//! Leases of partitions and heartbeats of relays, written by the database's own clock.

use chrono::{DateTime, TimeDelta, Utc};
use handover_events::{ConsumeStatus, PARTITIONS, Partition};
use handover_outbox::ports::{Consumption, PartitionHold, PartitionLease};

use super::{StoreRig, begin, in_unit, view};
use crate::samples::{consumption, event, partition, relay};
use crate::work::{changes_none, changes_one};

const MINUTE: u32 = 60_000;

async fn lease(rig: &dyn StoreRig, of: Partition) -> PartitionLease {
    let mut leases = view(rig).await.outbox_view().partition_leases().await.expect("leases can be read");
    leases.remove(usize::from(of.number()))
}

async fn take(rig: &dyn StoreRig, owner: &str, of: Partition) -> PartitionHold {
    let seen = lease(rig, of).await;
    in_unit!(rig, |unit| changes_one(unit.outbox().take_partition(&relay(owner), &seen, MINUTE).await));
    PartitionHold { partition: of, epoch: seen.epoch + 1 }
}

async fn now(rig: &dyn StoreRig) -> DateTime<Utc> {
    view(rig).await.outbox_view().database_now().await.expect("the database knows the time")
}

async fn renew(rig: &dyn StoreRig, owner: &str, holds: &[PartitionHold]) -> Vec<PartitionHold> {
    in_unit!(rig, |unit| unit
        .outbox()
        .renew_partitions(&relay(owner), holds, MINUTE)
        .await
        .expect("leases are renewed"))
}

async fn heartbeats(rig: &dyn StoreRig) -> Vec<(String, DateTime<Utc>)> {
    let heartbeats = view(rig).await.outbox_view().heartbeats().await.expect("heartbeats can be read");
    heartbeats.into_iter().map(|heartbeat| (heartbeat.relay.0, heartbeat.alive_until)).collect()
}

async fn relays(rig: &dyn StoreRig) -> Vec<String> {
    heartbeats(rig).await.into_iter().map(|(relay, _)| relay).collect()
}

/// What was written for `for_ms` ends that long after some moment between `before` and `after`.
fn ends_in_time(until: DateTime<Utc>, before: DateTime<Utc>, after: DateTime<Utc>, for_ms: u32) {
    let length = TimeDelta::milliseconds(for_ms.into());
    let slack = TimeDelta::milliseconds(2); // a clock may be coarser than a microsecond
    assert!(
        before + length - slack <= until && until <= after + length + slack,
        "{until} for {before}..{after}"
    );
}

fn end(lease: &PartitionLease) -> DateTime<Utc> {
    lease.lease_until.expect("there is a lease")
}

/// There are 64 rows in order from the first moment, nobody's.
pub async fn every_partition_has_its_row_from_the_start(rig: &dyn StoreRig) {
    let leases = view(rig).await.outbox_view().partition_leases().await.unwrap();
    assert_eq!(leases.iter().map(|l| l.partition).collect::<Vec<_>>(), Partition::all().collect::<Vec<_>>());
    assert!(leases.iter().all(|lease| lease.owner.is_none() && lease.lease_until.is_none()));
}

/// And 64 rows, in order, they remain.
pub async fn there_are_always_as_many_rows_as_partitions(rig: &dyn StoreRig) {
    let held = take(rig, "r1", partition(40)).await;
    take(rig, "r1", partition(3)).await;
    in_unit!(rig, |unit| unit.outbox().give_back(&relay("r1"), &[held]).await.unwrap());
    let leases = view(rig).await.outbox_view().partition_leases().await.unwrap();
    assert_eq!(leases.len(), usize::from(PARTITIONS));
    assert_eq!(leases.iter().map(|l| l.partition).collect::<Vec<_>>(), Partition::all().collect::<Vec<_>>());
}

/// Who takes a free partition owns it from the database's now on, one epoch later.
pub async fn a_free_partition_can_be_taken(rig: &dyn StoreRig) {
    let of = partition(7);
    let seen = lease(rig, of).await;
    let before = now(rig).await;
    in_unit!(rig, |unit| changes_one(unit.outbox().take_partition(&relay("r1"), &seen, MINUTE).await));
    let taken = lease(rig, of).await;
    assert_eq!((taken.owner.clone(), taken.epoch), (Some(relay("r1")), seen.epoch + 1));
    ends_in_time(end(&taken), before, now(rig).await, MINUTE);
    assert_eq!(lease(rig, partition(8)).await.owner, None, "its neighbour is still free");
}

/// A partition that was taken or renewed since it was seen is taken by nobody, not even by its owner.
pub async fn a_partition_is_taken_only_as_it_was_seen(rig: &dyn StoreRig) {
    let free = lease(rig, partition(7)).await;
    let hold = take(rig, "r1", partition(7)).await;
    let held = lease(rig, hold.partition).await;
    rig.move_database_clock(TimeDelta::seconds(1));
    renew(rig, "r1", &[hold]).await;
    let renewed = lease(rig, hold.partition).await;
    for seen in [&free, &held] {
        for owner in ["r2", "r1"] {
            in_unit!(rig, |unit| changes_none(
                unit.outbox().take_partition(&relay(owner), seen, MINUTE).await
            ));
        }
    }
    assert_eq!(lease(rig, hold.partition).await, renewed);
}

/// Who has seen another epoch comes too late.
pub async fn a_partition_is_taken_at_the_epoch_that_was_seen_only(rig: &dyn StoreRig) {
    let hold = take(rig, "r1", partition(7)).await;
    in_unit!(rig, |unit| unit.outbox().give_back(&relay("r1"), &[hold]).await.unwrap());
    let free = lease(rig, hold.partition).await;
    for epoch in [hold.epoch - 1, hold.epoch + 1] {
        let seen = PartitionLease { epoch, ..free.clone() };
        in_unit!(rig, |unit| changes_none(unit.outbox().take_partition(&relay("r2"), &seen, MINUTE).await));
    }
    in_unit!(rig, |unit| changes_one(unit.outbox().take_partition(&relay("r2"), &free, MINUTE).await));
}

/// Whether a lease has ended is for the observer to say: a partition is taken as it was seen, whichever way the database's
/// clock was set; and its new lease counts from that clock's now.
pub async fn a_partition_is_taken_whatever_the_databases_clock_shows(rig: &dyn StoreRig) {
    let mut hold = take(rig, "r1", partition(7)).await;
    for (step, owner) in [(TimeDelta::minutes(-5), "r2"), (TimeDelta::minutes(10), "r3")] {
        let seen = lease(rig, hold.partition).await;
        rig.move_database_clock(step);
        let before = now(rig).await;
        in_unit!(rig, |unit| changes_one(unit.outbox().take_partition(&relay(owner), &seen, MINUTE).await));
        let taken = lease(rig, hold.partition).await;
        assert_eq!((taken.owner.clone(), taken.epoch), (Some(relay(owner)), hold.epoch + 1));
        ends_in_time(end(&taken), before, now(rig).await, MINUTE);
        hold.epoch += 1;
    }
}

/// Every change of owner raises the epoch by one, whatever lies in between.
pub async fn the_epoch_rises_by_one_with_each_owner(rig: &dyn StoreRig) {
    let first = take(rig, "r1", partition(7)).await;
    renew(rig, "r1", &[first]).await;
    in_unit!(rig, |unit| unit.outbox().give_back(&relay("r1"), &[first]).await.unwrap());
    let second = take(rig, "r2", partition(7)).await;
    let third = take(rig, "r3", partition(7)).await;
    let fourth = take(rig, "r3", partition(7)).await;
    let epochs = [first, second, third, fourth].map(|hold| hold.epoch - first.epoch);
    assert_eq!(epochs, [0, 1, 2, 3]);
}

/// Renewing prolongs from the database's now and keeps the epoch.
pub async fn renewing_prolongs_a_lease_from_now(rig: &dyn StoreRig) {
    let hold = take(rig, "r1", partition(7)).await;
    let other = take(rig, "r1", partition(8)).await;
    let unrenewed = lease(rig, other.partition).await;
    rig.move_database_clock(TimeDelta::seconds(50));
    let before = now(rig).await;
    assert_eq!(renew(rig, "r1", &[hold]).await, [hold]);
    let renewed = lease(rig, hold.partition).await;
    assert_eq!((renewed.owner.clone(), renewed.epoch), (Some(relay("r1")), hold.epoch));
    ends_in_time(end(&renewed), before, now(rig).await, MINUTE);
    assert_eq!(lease(rig, other.partition).await, unrenewed, "what was not named is not renewed");
}

/// A lease that has run out is still renewed as long as nobody took it.
pub async fn a_lease_that_nobody_took_is_renewed_after_its_end(rig: &dyn StoreRig) {
    let hold = take(rig, "r1", partition(7)).await;
    rig.move_database_clock(TimeDelta::minutes(5));
    let before = now(rig).await;
    assert_eq!(renew(rig, "r1", &[hold]).await, [hold]);
    ends_in_time(end(&lease(rig, hold.partition).await), before, now(rig).await, MINUTE);
}

/// Only one's own leases at their epochs are renewed, and those are told.
pub async fn only_ones_own_leases_are_renewed_and_told(rig: &dyn StoreRig) {
    let mine = take(rig, "r1", partition(1)).await;
    let other = take(rig, "r2", partition(2)).await;
    let returned = take(rig, "r1", partition(3)).await;
    in_unit!(rig, |unit| unit.outbox().give_back(&relay("r1"), &[returned]).await.unwrap());
    let lost = take(rig, "r1", partition(4)).await;
    let old = PartitionHold { epoch: mine.epoch - 1, ..mine };
    let never = PartitionHold { partition: partition(9), epoch: 0 };
    rig.move_database_clock(TimeDelta::minutes(5));
    take(rig, "r2", partition(4)).await;
    let before = [lease(rig, other.partition).await, lease(rig, lost.partition).await];
    assert_eq!(renew(rig, "r1", &[other, returned, lost, old, never, mine]).await, [mine]);
    assert_eq!(renew(rig, "r1", &[old]).await, []);
    assert_eq!(renew(rig, "r1", &[]).await, []);
    assert_eq!([lease(rig, other.partition).await, lease(rig, lost.partition).await], before);
    assert_eq!(lease(rig, returned.partition).await.lease_until, None);
}

/// What is given back has no owner and no lease, at the same epoch; anyone takes it at once.
pub async fn a_partition_given_back_is_free_at_the_same_epoch(rig: &dyn StoreRig) {
    let hold = take(rig, "r1", partition(7)).await;
    let kept = take(rig, "r1", partition(8)).await;
    in_unit!(rig, |unit| unit.outbox().give_back(&relay("r1"), &[hold]).await.unwrap());
    let free =
        PartitionLease { partition: hold.partition, owner: None, epoch: hold.epoch, lease_until: None };
    assert_eq!(lease(rig, hold.partition).await, free);
    assert_eq!(lease(rig, kept.partition).await.owner, Some(relay("r1")));
    assert_eq!(take(rig, "r2", hold.partition).await.epoch, hold.epoch + 1);
}

/// Nobody gives back what is another's, or what was theirs in an earlier epoch.
pub async fn only_ones_own_leases_are_given_back(rig: &dyn StoreRig) {
    let lost = take(rig, "r1", partition(7)).await;
    let hold = take(rig, "r2", partition(7)).await;
    let before = lease(rig, hold.partition).await;
    let old = PartitionHold { epoch: hold.epoch - 1, ..hold };
    in_unit!(rig, |unit| {
        unit.outbox().give_back(&relay("r1"), &[lost]).await.unwrap();
        unit.outbox().give_back(&relay("r1"), &[hold]).await.unwrap();
        unit.outbox().give_back(&relay("r2"), &[old]).await.unwrap();
        unit.outbox().give_back(&relay("r2"), &[]).await.unwrap();
    });
    assert_eq!(lease(rig, hold.partition).await, before);
}

/// A dropped unit takes, renews and gives back nothing.
pub async fn a_dropped_unit_leaves_leases_as_they_were(rig: &dyn StoreRig) {
    let hold = take(rig, "r1", partition(7)).await;
    let before = view(rig).await.outbox_view().partition_leases().await.unwrap();
    let mut unit = begin(rig).await;
    let free = &before[usize::from(partition(8).number())];
    changes_one(unit.outbox().take_partition(&relay("r2"), free, MINUTE).await);
    unit.outbox().give_back(&relay("r1"), &[hold]).await.unwrap();
    unit.outbox().heartbeat(&relay("r2"), MINUTE).await.unwrap();
    drop(unit);
    assert_eq!(view(rig).await.outbox_view().partition_leases().await.unwrap(), before);
    assert_eq!(relays(rig).await, [""; 0]);
}

/// The database's clock moves as the rig says, and otherwise by itself and forward.
pub async fn the_databases_clock_moves_by_what_it_is_moved(rig: &dyn StoreRig) {
    let first = now(rig).await;
    let second = now(rig).await;
    assert!(first <= second);
    rig.move_database_clock(TimeDelta::minutes(10));
    let moved = now(rig).await - second;
    assert!(moved >= TimeDelta::minutes(10) && moved < TimeDelta::minutes(11), "moved by {moved}");
    let in_a_unit = in_unit!(rig, |unit| unit.outbox().database_now().await.unwrap());
    assert!(in_a_unit >= second + TimeDelta::minutes(10));
}

/// Heartbeats are kept until a relay is forgotten, alive or not, in order of the relays' ids; each counts from the
/// database's now, whichever way its clock was set since the last.
pub async fn a_heartbeat_counts_from_now(rig: &dyn StoreRig) {
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
        assert_eq!(seen[1], other, "the other one did not beat");
    }
}

/// A relay that ends is forgotten at once; another is not.
pub async fn a_relay_that_ends_is_forgotten(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| {
        unit.outbox().heartbeat(&relay("r1"), MINUTE).await.unwrap();
        unit.outbox().heartbeat(&relay("r2"), MINUTE).await.unwrap();
        unit.outbox().heartbeat(&relay("R1"), MINUTE).await.unwrap();
    });
    in_unit!(rig, |unit| {
        unit.outbox().forget_relay(&relay("r1")).await.unwrap();
        unit.outbox().forget_relay(&relay("never-seen")).await.unwrap();
    });
    assert_eq!(relays(rig).await, ["R1", "r2"], "relays are compared byte by byte");
}

/// A process that knows it is alone forgets every relay and frees every partition at once, epochs unchanged.
pub async fn ending_all_leases_frees_every_partition(rig: &dyn StoreRig) {
    let hold = take(rig, "r1", partition(7)).await;
    in_unit!(rig, |unit| unit.outbox().heartbeat(&relay("r1"), MINUTE).await.unwrap());
    in_unit!(rig, |unit| unit.outbox().end_all_leases().await.unwrap());
    assert_eq!(relays(rig).await, [""; 0]);
    let free =
        PartitionLease { partition: hold.partition, owner: None, epoch: hold.epoch, lease_until: None };
    assert_eq!(lease(rig, hold.partition).await, free);
    assert_eq!(take(rig, "r2", hold.partition).await.epoch, hold.epoch + 1);
    take(rig, "r2", partition(8)).await;
}

/// Events that were being processed when the process died are left over at once; settled and waiting ones are not.
pub async fn ending_all_leases_ends_those_of_events_in_processing(rig: &dyn StoreRig) {
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
    in_unit!(rig, |unit| unit.outbox().end_all_leases().await.unwrap());
    let soon = now(rig).await.max(database_now) + TimeDelta::seconds(1);
    let left = view(rig)
        .await
        .outbox_view()
        .leftovers("inventory", database_now - TimeDelta::seconds(1), soon, 10)
        .await
        .unwrap();
    assert_eq!(left.iter().map(|id| id.as_str()).collect::<Vec<_>>(), ["PROCESSING"]);
    let record =
        view(rig).await.outbox_view().consumption("inventory", &rows[0].event_id).await.unwrap().unwrap();
    assert_eq!((record.status, record.attempts), (ConsumeStatus::Processing, 1), "the attempt stays counted");
}
