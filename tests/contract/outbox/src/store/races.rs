//! Concurrent writes: exactly one write to the same row succeeds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use handover_events::{ConsumeStatus, OutboxStatus, Partition};
use handover_outbox::ports::{
    Changed, Confirmed, Consumption, Expected, OutboxFilter, OwnedPartition, PartitionLease, StoreError,
    UnitOfWork,
};
use tokio::sync::{Barrier, oneshot};

use super::super::{TIMEOUT, within};
use super::{StoreRig, begin, in_unit, view};
use crate::concurrency::{RACERS, one_changed, one_succeeded, race};
use crate::samples::{confirmed, consumption, dead_letter, event, event_id, partition, relay, start};
use crate::work::{changes_one, commit};

/// Of concurrent appends of one event id, exactly one succeeds.
pub async fn exactly_one_of_concurrent_units_of_work_appends_an_event(rig: &dyn StoreRig) {
    let outcomes = race(&rig.store(), |unit, n| {
        Box::pin(async move { unit.outbox().append(&[event("e", n as i64, 1)]).await })
    })
    .await;
    let winner = one_succeeded(outcomes);
    let rows = view(rig).await.outbox_view().outbox_by_event(&[event_id("e")]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.aggregate.id.clone()).collect::<Vec<_>>(), [winner as i64]);
}

/// Consume-log record of an event with this number of failed attempts.
fn failed(attempts: u32) -> Consumption {
    let status = ConsumeStatus::Failed;
    Consumption { status, attempts, ..consumption("inventory", &event("e", 7, 1)) }
}

/// Consume-log record of the second attempt, which succeeded.
fn again() -> Consumption {
    Consumption {
        expected: Expected::At(ConsumeStatus::Failed, 1),
        attempts: 2,
        ..consumption("inventory", &event("e", 7, 1))
    }
}

/// Asserts that exactly one worker had an effect. Each worker appends an event with a different id, so that no unique
/// key stops the other workers.
async fn one_effect(rig: &dyn StoreRig) {
    let rows = view(rig).await.outbox_view().outbox_page(&OutboxFilter::default(), None, 100).await.unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
}

/// If eight workers consume one event for the first time, one of them applies it.
pub async fn exactly_one_of_concurrent_workers_records_a_new_event(rig: &dyn StoreRig) {
    let outcomes = race(&rig.store(), |unit, n| {
        Box::pin(async move {
            unit.outbox().append(&[event(&format!("effect-{n}"), n as i64, 1)]).await?;
            unit.outbox().record(&[consumption("inventory", &event("e", 7, 1))]).await
        })
    })
    .await;
    one_succeeded(outcomes);
    one_effect(rig).await;
}

/// If eight workers retry one event, one of them applies it.
pub async fn exactly_one_of_concurrent_workers_retries_an_event(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| unit.outbox().record(&[failed(1)]).await.unwrap());
    let outcomes = race(&rig.store(), |unit, n| {
        Box::pin(async move {
            unit.outbox().append(&[event(&format!("effect-{n}"), n as i64, 1)]).await?;
            unit.outbox().record(&[again()]).await
        })
    })
    .await;
    one_succeeded(outcomes);
    one_effect(rig).await;
}

/// If eight workers read the record of one event and then retry the event, one of them applies it. A worker
/// that read an old version of the record must not apply the event.
pub async fn exactly_one_of_concurrent_workers_that_read_first_retries_an_event(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| unit.outbox().record(&[failed(1)]).await.unwrap());
    // If the store runs units of work concurrently, each one waits before its write until all have read; a retried unit
    // of work does not wait again.
    let concurrent_units = rig.capabilities().concurrent_units;
    let all_have_read = Arc::new(Barrier::new(RACERS));
    let waited: Arc<[AtomicBool; RACERS]> = Arc::default();
    let outcomes = race(&rig.store(), move |unit, n| {
        let all_have_read = all_have_read.clone();
        let waited = waited.clone();
        Box::pin(async move {
            let seen = unit.outbox().consumption("inventory", &event_id("e")).await?.unwrap();
            if concurrent_units && !waited[n].swap(true, Ordering::Relaxed) {
                all_have_read.wait().await;
            }
            if seen.status != ConsumeStatus::Failed {
                return Ok(Changed::None);
            }
            unit.outbox().append(&[event(&format!("effect-{n}"), n as i64, 1)]).await?;
            unit.outbox().record(&[again()]).await?;
            Ok(Changed::One)
        })
    })
    .await;
    let outcomes = outcomes.into_iter().map(|outcome| match outcome {
        Err(StoreError::Conflict { .. }) => Ok(Changed::None),
        outcome => outcome,
    });
    one_changed(outcomes.collect());
    one_effect(rig).await;
}

/// Of concurrent confirms of one row, exactly one changes the row.
pub async fn a_row_confirmed_concurrently_becomes_sent_once(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| unit.outbox().append(&[event("e", 7, 1)]).await.unwrap());
    let outcomes = race(&rig.store(), |unit, _| {
        Box::pin(async move { unit.outbox().mark_sent(&[&confirmed("e")], start()).await })
    })
    .await;
    let moved: u64 =
        outcomes.into_iter().map(|outcome| outcome.expect("losing the race must not be an error")).sum();
    assert_eq!(moved, 1);
}

/// If eight relays take a free partition concurrently, one of them owns it afterwards, and the epoch increases by one.
pub async fn exactly_one_of_concurrent_relays_takes_a_partition(rig: &dyn StoreRig) {
    let of = partition(7);
    let seen =
        view(rig).await.outbox_view().partition_leases().await.unwrap().remove(usize::from(of.number()));
    let free = seen.clone();
    let outcomes = race(&rig.store(), move |unit, n| {
        let free = free.clone();
        Box::pin(
            async move { unit.outbox().acquire_partition(&relay(&format!("r{n}")), &free, 60_000).await },
        )
    })
    .await;
    let winner = one_changed(outcomes);
    let lease =
        view(rig).await.outbox_view().partition_leases().await.unwrap().remove(usize::from(of.number()));
    assert_eq!((lease.owner, lease.epoch), (Some(relay(&format!("r{winner}"))), seen.epoch + 1));
}

/// A partition that `r1` has taken, with the pending row `e`, and its lease.
async fn owned_partition_with_row(rig: &dyn StoreRig) -> (OwnedPartition, PartitionLease) {
    let of = partition(7);
    let index = usize::from(of.number());
    let free = view(rig).await.outbox_view().partition_leases().await.unwrap().remove(index);
    in_unit!(rig, |unit| {
        changes_one(unit.outbox().acquire_partition(&relay("r1"), &free, 60_000).await);
        unit.outbox().append(&[event("e", 7, 1)]).await.unwrap();
    });
    let current = view(rig).await.outbox_view().partition_leases().await.unwrap().remove(index);
    (OwnedPartition { partition: of, epoch: current.epoch }, current)
}

/// The confirm of the row `e`.
fn confirm_of_row() -> BTreeMap<Partition, Vec<Confirmed>> {
    BTreeMap::from([(partition(7), vec![confirmed("e")])])
}

/// Checks that another relay cannot take the partition from now until the unit of work is committed.
async fn assert_taken_only_after(rig: &dyn StoreRig, settling: Box<dyn UnitOfWork>, current: PartitionLease) {
    let index = usize::from(current.partition.number());
    let (store, (started, starts)) = (rig.store(), oneshot::channel());
    let taker = tokio::spawn(async move {
        started.send(()).unwrap();
        loop {
            let work = async {
                let mut unit = store.begin().await?;
                let taken = unit.outbox().acquire_partition(&relay("r2"), &current, 60_000).await?;
                unit.commit().await?;
                Ok(taken)
            };
            match work.await {
                Err(StoreError::Transient(_)) => tokio::task::yield_now().await,
                outcome => return outcome,
            }
        }
    });
    starts.await.unwrap();
    for _ in 0..20 {
        let leases = within("reading during the settlement", async {
            view(rig).await.outbox_view().partition_leases().await
        })
        .await;
        assert_eq!(
            leases.unwrap()[index].owner,
            Some(relay("r1")),
            "the partition was taken while its rows were settled"
        );
        tokio::task::yield_now().await;
    }
    commit(settling).await;
    let taken = tokio::time::timeout(TIMEOUT, taker)
        .await
        .expect("the partition must be free after its rows were settled")
        .unwrap();
    assert_eq!(taken.unwrap(), Changed::One);
}

/// A fenced partition cannot be taken until the settlement is committed.
pub async fn a_fenced_partition_changes_its_owner_only_after_the_settlement(rig: &dyn StoreRig) {
    let (owned, current) = owned_partition_with_row(rig).await;
    let mut settling = begin(rig).await;
    assert!(settling.outbox().fence(&relay("r1"), &[owned]).await.unwrap().contains(owned.partition));
    assert_taken_only_after(rig, settling, current).await;
}

/// A partition cannot be taken from the time at which its rows are marked as sent until the commit.
pub async fn a_partition_with_rows_marked_as_sent_changes_its_owner_only_after_the_settlement(
    rig: &dyn StoreRig,
) {
    let (owned, current) = owned_partition_with_row(rig).await;
    let mut settling = begin(rig).await;
    let unit = settling.outbox();
    let ours = unit.mark_sent_if_owned(&relay("r1"), &[owned], &confirm_of_row(), start()).await.unwrap();
    assert!(ours.contains(owned.partition));
    assert_taken_only_after(rig, settling, current).await;
}

/// A settlement that begins while another relay takes the partition settles nothing once that relay has committed.
pub async fn rows_of_a_partition_that_is_taken_at_the_same_time_are_not_settled(rig: &dyn StoreRig) {
    let (owned, current) = owned_partition_with_row(rig).await;
    let mut taking = begin(rig).await;
    changes_one(taking.outbox().acquire_partition(&relay("r2"), &current, 60_000).await);
    let (store, (started, starts)) = (rig.store(), oneshot::channel());
    let settler = tokio::spawn(async move {
        started.send(()).unwrap();
        loop {
            let work = async {
                let mut unit = store.begin().await?;
                let confirmed = confirm_of_row();
                let ours =
                    unit.outbox().mark_sent_if_owned(&relay("r1"), &[owned], &confirmed, start()).await?;
                unit.commit().await?;
                Ok(ours)
            };
            match work.await {
                Err(StoreError::Transient(_)) => tokio::task::yield_now().await,
                outcome => return outcome,
            }
        }
    });
    starts.await.unwrap();
    // Each read lets the settlement proceed until it waits for the other relay.
    for _ in 0..20 {
        let status = within("reading during the takeover", async {
            view(rig).await.outbox_view().outbox_by_event(&[event_id("e")]).await
        });
        assert_eq!(status.await.unwrap()[0].status, OutboxStatus::New);
    }
    commit(taking).await;
    let ours = tokio::time::timeout(TIMEOUT, settler).await.expect("the settlement must end").unwrap();
    assert!(ours.unwrap().is_empty(), "the partition belongs to the other relay");
    let rows = view(rig).await.outbox_view().outbox_by_event(&[event_id("e")]).await.unwrap();
    assert_eq!(rows[0].status, OutboxStatus::New, "the row belongs to the other relay");
}

/// Concurrent units of work that write different rows all succeed.
pub async fn units_of_work_that_write_different_rows_all_succeed(rig: &dyn StoreRig) {
    let outcomes = race(&rig.store(), |unit, n| {
        Box::pin(async move {
            let new = event(&format!("e{n}"), n as i64 + 1, 1);
            unit.outbox().append(std::slice::from_ref(&new)).await?;
            unit.outbox().record(&[consumption("inventory", &new)]).await?;
            unit.outbox().park(&[dead_letter("queue", &format!("e{n}"))]).await
        })
    })
    .await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let mut view = view(rig).await;
    let page = view.outbox_view().outbox_page(&OutboxFilter::default(), None, 100).await.unwrap();
    assert_eq!(page.len(), RACERS);
    let events: Vec<_> = page.into_iter().map(|row| row.event_id).collect();
    assert_eq!(view.outbox_view().consumed_of(&events).await.unwrap().len(), RACERS);
    let keys: Vec<String> = events.into_iter().map(String::from).collect();
    assert_eq!(view.outbox_view().dead_letters_of(&keys).await.unwrap().len(), RACERS);
}
