//! Rules for blocks of ids.

use std::collections::BTreeSet;
use std::sync::Arc;

use handover_contract::samples::tenant;
use handover_contract::within;
use handover_outbox::ports::StoreError;
use marketplace::ports::{IdKind, IdState};
use marketplace_domain::{Coupon, Order, Payment, Product, Refund};
use tokio::sync::Barrier;

use super::{MarketRig, begin, in_unit};
use crate::samples::{coupon, order, payment, product, refund};

async fn take(rig: &dyn MarketRig, kind: IdKind, size: u32) -> i64 {
    in_unit!(rig, |unit| unit.take_id_block(kind, size).await.expect("cannot reserve a block"))
}

/// The first id of products, orders and payments is 1.
pub async fn first_id_is_one(rig: &dyn MarketRig) {
    for kind in [IdKind::Product, IdKind::Order, IdKind::Payment] {
        assert_eq!(take(rig, kind, 5).await, 1, "{kind:?}");
    }
}

/// A block consists of `size` consecutive ids; the next block starts after them.
pub async fn block_starts_after_previous_block(rig: &dyn MarketRig) {
    let mut next_free = 1;
    for size in [1, 100, 7, 1, 1000] {
        let first = take(rig, IdKind::Order, size).await;
        assert!(first >= next_free, "id {first} belongs to an earlier block");
        next_free = first + i64::from(size);
    }
}

pub async fn blocks_of_one_unit_of_work_do_not_overlap(rig: &dyn MarketRig) {
    let (first, second) = in_unit!(rig, |unit| {
        let first = unit.take_id_block(IdKind::Order, 10).await.unwrap();
        (first, unit.take_id_block(IdKind::Order, 10).await.unwrap())
    });
    assert!(second >= first + 10, "{first} and {second}");
    assert!(take(rig, IdKind::Order, 10).await >= second + 10);
}

/// A dropped unit of work may leave a gap, but no id is reserved twice.
pub async fn no_id_is_reserved_twice_after_dropped_unit_of_work(rig: &dyn MarketRig) {
    let first = take(rig, IdKind::Order, 10).await;
    let mut unit = begin(rig).await;
    unit.take_id_block(IdKind::Order, 10).await.unwrap();
    drop(unit);
    let second = take(rig, IdKind::Order, 10).await;
    assert!(second >= first + 10);
    assert!(take(rig, IdKind::Order, 10).await >= second + 10);
}

/// After a raise, the next block starts at the given id, or at the previous next id if that is higher.
pub async fn raised_block_starts_at_or_above_given_id(rig: &dyn MarketRig) {
    for kind in IdKind::ALL {
        in_unit!(rig, |unit| unit.raise_id_block(kind, 500).await.expect("cannot raise the next block"));
        assert_eq!(take(rig, kind, 10).await, 500, "{kind:?}");
        in_unit!(rig, |unit| unit.raise_id_block(kind, 7).await.expect("a lower id must be accepted"));
        assert!(take(rig, kind, 10).await >= 510, "{kind:?}");
    }
}

/// `id_state` reports the next id of the blocks (initially 1) and the largest id of the rows (initially 0).
pub async fn id_state_reports_next_and_largest_id(rig: &dyn MarketRig) {
    let state = async |kind| rig.market().view().await.unwrap().id_state(kind).await.unwrap();
    for kind in IdKind::ALL {
        assert_eq!(state(kind).await, IdState { next: 1, largest: 0 }, "{kind:?}");
    }
    insert_row_of_each_kind(rig, 40).await;
    for kind in IdKind::ALL {
        let found = state(kind).await;
        assert_eq!((found, found.is_behind()), (IdState { next: 1, largest: 40 }, true), "{kind:?}");
        in_unit!(rig, |unit| unit.raise_id_block(kind, 41).await.expect("cannot raise the next block"));
        let raised = state(kind).await;
        assert_eq!((raised, raised.is_behind()), (IdState { next: 41, largest: 40 }, false), "{kind:?}");
    }
}

/// An id is in use if a row of any tenant has it.
pub async fn id_is_taken_by_row_of_any_tenant(rig: &dyn MarketRig) {
    insert_row_of_each_kind(rig, 40).await;
    let mut view = rig.market().view().await.unwrap();
    for kind in IdKind::ALL {
        assert!(view.id_is_taken(kind, 40).await.unwrap(), "{kind:?}");
        assert!(!view.id_is_taken(kind, 41).await.unwrap(), "{kind:?}");
    }
}

/// Inserts a row of each kind with this id, in tenant 2.
async fn insert_row_of_each_kind(rig: &dyn MarketRig, id: i64) {
    let tenant = tenant(2);
    in_unit!(rig, |unit| {
        unit.insert_product(&Product { tenant, ..product(id) }).await.unwrap();
        unit.insert_order(&Order { tenant, ..order(id) }).await.unwrap();
        unit.insert_payment(&Payment { tenant, ..payment(id, id) }).await.unwrap();
        unit.insert_refund(&Refund { tenant, ..refund(id, id) }).await.unwrap();
        unit.insert_coupon(&Coupon { tenant, ..coupon(id) }).await.unwrap();
    });
}

pub async fn concurrent_blocks_do_not_overlap(rig: &dyn MarketRig) {
    const TASKS: usize = 16;
    const BLOCKS: usize = 4;
    let barrier = Arc::new(Barrier::new(TASKS));
    let tasks: Vec<_> = (0..TASKS)
        .map(|n| {
            let store = rig.market();
            let barrier = barrier.clone();
            let size: u32 = [1, 2, 3, 4, 5][n % 5];
            tokio::spawn(async move {
                let mut ids = Vec::new();
                barrier.wait().await;
                while ids.len() < BLOCKS * size as usize {
                    let taken: Result<i64, StoreError> = async {
                        let mut unit = store.begin().await?;
                        let first = unit.take_id_block(IdKind::Order, size).await?;
                        unit.commit().await?;
                        Ok(first)
                    }
                    .await;
                    match taken {
                        Ok(first) => ids.extend(first..first + i64::from(size)),
                        Err(error) if error.is_retryable() => tokio::task::yield_now().await,
                        Err(error) => panic!("{error}"),
                    }
                }
                ids
            })
        })
        .collect();
    let mut all = BTreeSet::new();
    for task in tasks {
        for id in within("a task", task).await.expect("a task panicked") {
            assert!(all.insert(id), "id {id} was reserved twice");
        }
    }
    assert!(all.first().is_some_and(|first| *first >= 1));
}
