//! What happens when several want the same at once: exactly one gets it.
//!
//! The tasks start together at a barrier. A unit that the database asks to try again is tried again, as `with_tx` does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use handover_application::ports::{EffectKind, MarketStore, NewShipmentTask, Work};
use handover_domain::{OrderStatus, PaymentStatus, ProductAction};
use handover_events::{ConsumeStatus, TenantId};
use handover_outbox::ports::{Changed, Consumption, Expected, PartitionHold, StoreError};
use tokio::sync::{Barrier, oneshot};

use super::super::{PATIENCE, within};
use super::{StoreRig, begin, changes_one, commit, in_unit, view};
use crate::samples::{
    confirmed, consumption, event, event_id, later, order, order_id, order_moved_to, partition, payment,
    product, relay, settled, shipment_task, start,
};

pub(super) const RACERS: usize = 8;

pub(super) type Attempt<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// Runs the work in eight units at once and tells what became of each: a conflict is an outcome, not to be repeated.
pub(super) async fn race<T, F>(rig: &dyn StoreRig, work: F) -> Vec<Result<T, StoreError>>
where
    T: Send + 'static,
    F: for<'u> Fn(&'u mut Work, usize) -> Attempt<'u, T> + Send + Sync + 'static,
{
    let (barrier, work) = (Arc::new(Barrier::new(RACERS)), Arc::new(work));
    let racers: Vec<_> = (0..RACERS)
        .map(|n| {
            let (store, barrier, work) = (rig.store(), barrier.clone(), work.clone());
            tokio::spawn(async move {
                barrier.wait().await;
                loop {
                    match attempt(store.as_ref(), n, work.as_ref()).await {
                        Err(StoreError::Transient(_)) => tokio::task::yield_now().await,
                        outcome => return outcome,
                    }
                }
            })
        })
        .collect();
    let mut outcomes = Vec::new();
    for racer in racers {
        outcomes.push(within("a racer", racer).await.expect("no racer panics"));
    }
    outcomes
}

async fn attempt<T, F>(store: &MarketStore, n: usize, work: &F) -> Result<T, StoreError>
where
    F: for<'u> Fn(&'u mut Work, usize) -> Attempt<'u, T>,
{
    let mut unit = store.begin().await?;
    let out = work(unit.as_mut(), n).await?;
    unit.commit().await?;
    Ok(out)
}

/// Exactly one changed its row, the others found none to change.
pub(super) fn one_changed(outcomes: Vec<Result<Changed, StoreError>>) -> usize {
    let changed: Vec<_> = outcomes.into_iter().map(|outcome| outcome.expect("losing is no error")).collect();
    let winners: Vec<_> = (0..RACERS).filter(|n| changed[*n] == Changed::One).collect();
    assert_eq!(winners.len(), 1, "{changed:?}");
    winners[0]
}

/// Exactly one succeeded, the others met a conflict.
pub(super) fn one_succeeded(outcomes: Vec<Result<(), StoreError>>) -> usize {
    let winners: Vec<_> = (0..RACERS).filter(|n| outcomes[*n].is_ok()).collect();
    assert_eq!(winners.len(), 1, "{outcomes:?}");
    for lost in outcomes.into_iter().filter_map(Result::err) {
        assert!(matches!(lost, StoreError::Conflict { .. }), "{lost:?}");
    }
    winners[0]
}

/// Eight buyers of one product: one gets it.
pub async fn of_units_that_change_one_product_exactly_one_does(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| unit.insert_product(&product(1)).await.unwrap());
    let outcomes = race(rig, |unit, n| {
        Box::pin(async move {
            let sold = product(1).apply(ProductAction::Occupy, later(n as i64)).unwrap();
            unit.advance_product(&sold).await
        })
    })
    .await;
    let winner = one_changed(outcomes);
    let seen = view(rig).await.product_by_id(TenantId::DEFAULT, product(1).id).await.unwrap().unwrap();
    assert_eq!((seen.version, seen.update_time), (2, later(winner as i64)));
}

/// An order that is paid, cancelled by its buyer and timed out at once moves once.
pub async fn of_units_that_change_one_order_exactly_one_does(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| unit.insert_order(&order(1)).await.unwrap());
    let outcomes = race(rig, |unit, n| {
        Box::pin(async move {
            let status = if n % 2 == 0 { OrderStatus::Paid } else { OrderStatus::Cancelled };
            unit.advance_order(&order_moved_to(&order(1), status, later(n as i64))).await
        })
    })
    .await;
    let winner = one_changed(outcomes);
    let seen = view(rig).await.order_by_id(TenantId::DEFAULT, order(1).id).await.unwrap().unwrap();
    assert_eq!((seen.version, seen.update_time), (2, later(winner as i64)));
}

/// Reading first and writing then does not change that: who reads an old state changes nothing.
pub async fn of_units_that_read_and_then_change_exactly_one_does(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| unit.insert_order(&order(1)).await.unwrap());
    // Where units run side by side, all of them have read before any writes; a unit that is tried again does not wait.
    let side_by_side = rig.capabilities().side_by_side;
    let all_have_read = Arc::new(Barrier::new(RACERS));
    let waited: Arc<[AtomicBool; RACERS]> = Arc::default();
    let outcomes = race(rig, move |unit, n| {
        let (all_have_read, waited) = (all_have_read.clone(), waited.clone());
        Box::pin(async move {
            let seen = unit.order_by_id(TenantId::DEFAULT, order(1).id).await?.unwrap();
            if side_by_side && !waited[n].swap(true, Ordering::Relaxed) {
                all_have_read.wait().await;
            }
            if seen.status != OrderStatus::Pending {
                return Ok(Changed::None);
            }
            unit.advance_order(&order_moved_to(&seen, OrderStatus::Paid, later(n as i64))).await
        })
    })
    .await;
    one_changed(outcomes);
    let seen = view(rig).await.order_by_id(TenantId::DEFAULT, order(1).id).await.unwrap().unwrap();
    assert_eq!(seen.version, 2);
}

/// A payment reported many times at once is settled once.
pub async fn of_units_that_settle_one_payment_exactly_one_does(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| unit.insert_payment(&payment(1, 1)).await.unwrap());
    let outcomes = race(rig, |unit, _| {
        Box::pin(
            async move { unit.advance_payment(&settled(&payment(1, 1), PaymentStatus::Success, "t")).await },
        )
    })
    .await;
    one_changed(outcomes);
}

/// One gateway transaction for many payments at once settles one of them.
pub async fn of_payments_that_claim_one_gateway_transaction_one_gets_it(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| {
        for n in 1..=RACERS as i64 {
            unit.insert_payment(&payment(n, n)).await.unwrap();
        }
    });
    let outcomes = race(rig, |unit, n| {
        Box::pin(async move {
            let id = n as i64 + 1;
            unit.advance_payment(&settled(&payment(id, id), PaymentStatus::Success, "t")).await.map(|_| ())
        })
    })
    .await;
    one_succeeded(outcomes);
}

/// Many payments started at once for one order: one is in `PROCESSING`.
pub async fn of_payments_started_at_once_for_one_order_one_is(rig: &dyn StoreRig) {
    let outcomes =
        race(rig, |unit, n| Box::pin(async move { unit.insert_payment(&payment(n as i64 + 1, 1)).await }))
            .await;
    let winner = one_succeeded(outcomes);
    let seen = view(rig).await.payment_in_processing(TenantId::DEFAULT, order(1).id).await.unwrap();
    assert_eq!(seen.map(|payment| payment.id.get()), Some(winner as i64 + 1));
}

/// One event id appended many times at once is one row.
pub async fn of_units_that_append_one_event_exactly_one_does(rig: &dyn StoreRig) {
    let outcomes =
        race(rig, |unit, n| Box::pin(async move { unit.outbox().append(&[event("e", n as i64, 1)]).await }))
            .await;
    let winner = one_succeeded(outcomes);
    let rows = view(rig).await.outbox_view().outbox_by_event(&[event_id("e")]).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.aggregate.id).collect::<Vec<_>>(), [winner as i64]);
}

/// One event that eight workers consume for the first time at once takes effect once.
pub async fn of_workers_that_record_one_event_first_exactly_one_does(rig: &dyn StoreRig) {
    let outcomes = race(rig, |unit, n| {
        Box::pin(async move {
            unit.open_shipments(&[task_of(n)]).await?;
            unit.outbox().record(&[consumption("inventory", &event("e", 7, 1))]).await
        })
    })
    .await;
    one_succeeded(outcomes);
    assert_eq!(tasks(rig).await, 1);
}

/// The effect of one of many workers: no key of its own stops the others.
fn task_of(worker: usize) -> NewShipmentTask {
    shipment_task(1 + worker as i64, "e")
}

async fn tasks(rig: &dyn StoreRig) -> usize {
    let orders: Vec<_> = (1..=100).map(order_id).collect();
    view(rig).await.effects_of(EffectKind::Shipment, TenantId::DEFAULT, &orders).await.unwrap().len()
}

/// One event that eight workers try again at once takes effect once.
pub async fn of_workers_that_try_one_event_again_exactly_one_does(rig: &dyn StoreRig) {
    let failed = Consumption { status: ConsumeStatus::Failed, ..consumption("inventory", &event("e", 7, 1)) };
    in_unit!(rig, |unit| unit.outbox().record(&[failed]).await.unwrap());
    let outcomes = race(rig, |unit, n| {
        Box::pin(async move {
            let again = Consumption {
                expected: Expected::At(ConsumeStatus::Failed, 1),
                attempts: 2,
                ..consumption("inventory", &event("e", 7, 1))
            };
            unit.open_shipments(&[task_of(n)]).await?;
            unit.outbox().record(&[again]).await
        })
    })
    .await;
    one_succeeded(outcomes);
    assert_eq!(tasks(rig).await, 1);
}

/// One row confirmed many times at once is counted once.
pub async fn of_units_that_settle_one_row_exactly_one_does(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| unit.outbox().append(&[event("e", 7, 1)]).await.unwrap());
    let outcomes = race(rig, |unit, _| {
        Box::pin(async move { unit.outbox().mark_sent(&[&confirmed("e")], start()).await })
    })
    .await;
    let moved: u64 = outcomes.into_iter().map(|outcome| outcome.expect("losing is no error")).sum();
    assert_eq!(moved, 1);
}

/// A free partition that eight relays take at once is one relay's, one epoch later.
pub async fn of_relays_that_take_one_partition_exactly_one_does(rig: &dyn StoreRig) {
    let of = partition(7);
    let seen =
        view(rig).await.outbox_view().partition_leases().await.unwrap().remove(usize::from(of.number()));
    let free = seen.clone();
    let outcomes = race(rig, move |unit, n| {
        let free = free.clone();
        Box::pin(async move { unit.outbox().take_partition(&relay(&format!("r{n}")), &free, 60_000).await })
    })
    .await;
    let winner = one_changed(outcomes);
    let lease =
        view(rig).await.outbox_view().partition_leases().await.unwrap().remove(usize::from(of.number()));
    assert_eq!((lease.owner, lease.epoch), (Some(relay(&format!("r{winner}"))), seen.epoch + 1));
}

/// While a settlement is under way nobody takes the partitions that it fenced.
pub async fn a_fenced_partition_changes_hands_only_after_the_settlement(rig: &dyn StoreRig) {
    let of = partition(7);
    let index = usize::from(of.number());
    let free = view(rig).await.outbox_view().partition_leases().await.unwrap().remove(index);
    in_unit!(rig, |unit| {
        changes_one(unit.outbox().take_partition(&relay("r1"), &free, 60_000).await);
        unit.outbox().append(&[event("e", 7, 1)]).await.unwrap();
    });
    let held = view(rig).await.outbox_view().partition_leases().await.unwrap().remove(index);
    let hold = PartitionHold { partition: of, epoch: held.epoch };
    let mut settling = begin(rig).await;
    assert!(settling.outbox().fence(&relay("r1"), &[hold]).await.unwrap().contains(of));

    let (store, (started, starts)) = (rig.store(), oneshot::channel());
    let taker = tokio::spawn(async move {
        started.send(()).unwrap();
        loop {
            let work = async {
                let mut unit = store.begin().await?;
                let taken = unit.outbox().take_partition(&relay("r2"), &held, 60_000).await?;
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
        let leases = within("reading beside the settlement", async {
            view(rig).await.outbox_view().partition_leases().await
        })
        .await;
        assert_eq!(leases.unwrap()[index].owner, Some(relay("r1")), "taken in the middle of a settlement");
        tokio::task::yield_now().await;
    }
    assert_eq!(settling.outbox().mark_sent(&[&confirmed("e")], start()).await.unwrap(), 1);
    commit(settling).await;
    let taken = tokio::time::timeout(PATIENCE, taker).await.expect("then it can be taken").unwrap();
    assert_eq!(taken.unwrap(), Changed::One);
}

/// Units that write different rows at once all succeed.
pub async fn units_that_write_different_rows_all_succeed(rig: &dyn StoreRig) {
    let outcomes = race(rig, |unit, n| {
        Box::pin(async move {
            let id = n as i64 + 1;
            unit.insert_product(&product(id)).await?;
            unit.insert_order(&order(id)).await?;
            unit.outbox().append(&[event(&format!("e{n}"), id, 1)]).await
        })
    })
    .await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let page = view(rig).await.outbox_view().outbox_page(&Default::default(), None, 100).await.unwrap();
    assert_eq!(page.len(), RACERS);
}
