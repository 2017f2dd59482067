//! Rules for blocks of ids.

use std::collections::BTreeSet;
use std::sync::Arc;

use handover_contract::samples::tenant;
use handover_contract::within;
use handover_events::MAX_ID;
use handover_outbox::ports::StoreError;
use marketplace::ports::{END_OF_IDS, IdKind, IdState, IdsExhausted, OrderSide};
use marketplace_domain::{Coupon, Invoice, Order, Payment, Product, Refund};
use tokio::sync::Barrier;

use super::{MarketRig, begin, in_unit};
use crate::samples::{coupon, invoice, order, payment, product, refund};

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

/// The exhausted kind and its counter, if the error reports that.
fn exhausted(error: &StoreError) -> Option<IdsExhausted> {
    let StoreError::Backend(cause) = error else { return None };
    cause.downcast_ref().copied()
}

/// The largest id can be reserved. A block that exceeds it is refused with an error that names the kind, and the
/// counter does not move.
pub async fn block_beyond_largest_id_is_refused_by_name(rig: &dyn MarketRig) {
    for kind in IdKind::ALL {
        let next = END_OF_IDS - 10;
        in_unit!(rig, |unit| unit.raise_id_block(kind, next).await.expect("cannot raise the next block"));
        for size in [11, 10, 1] {
            let mut unit = begin(rig).await;
            let taken = unit.take_id_block(kind, size).await;
            if size == 10 {
                assert_eq!(taken.expect("cannot reserve the last ids"), next, "{kind:?}");
                unit.commit().await.expect("cannot commit");
                continue;
            }
            let refused = taken.expect_err("the block exceeds the largest id");
            let expected = if size == 11 { next } else { END_OF_IDS };
            assert_eq!(exhausted(&refused), Some(IdsExhausted { kind, next: expected }), "{refused}");
            assert!(refused.to_string().contains(kind.as_str()), "{refused}");
        }
        let state = rig.market().view().await.unwrap().id_state(kind).await.unwrap();
        assert_eq!(state.next, END_OF_IDS, "{kind:?}");
    }
}

/// A raise above the end of the range is refused, and the counter does not move.
pub async fn raise_beyond_largest_id_is_refused_by_name(rig: &dyn MarketRig) {
    for kind in IdKind::ALL {
        for next in [END_OF_IDS + 1, i64::MAX] {
            let mut unit = begin(rig).await;
            let refused = unit.raise_id_block(kind, next).await.expect_err("the id is outside the range");
            assert_eq!(exhausted(&refused), Some(IdsExhausted { kind, next }), "{refused}");
            drop(unit);
            assert_eq!(take(rig, kind, 1).await, if next == i64::MAX { 2 } else { 1 }, "{kind:?}");
        }
    }
}

/// A row with an id outside the range, as from an import, does not count as the largest id.
pub async fn imported_row_outside_range_moves_no_counter(rig: &dyn MarketRig) {
    insert_row_of_each_kind(rig, 40).await;
    for (id, imported) in [(41, END_OF_IDS), (42, i64::MAX)] {
        insert_row_of_each_kind(rig, id).await;
        for kind in IdKind::ALL {
            let is_imported = rig.import_row(kind, id, imported).await;
            let state = rig.market().view().await.unwrap().id_state(kind).await.unwrap();
            assert_eq!(state.largest, if is_imported { 40 } else { id }, "{kind:?} {imported}");
            assert!(state.largest <= MAX_ID);
        }
    }
}

/// A row with an id outside the range is unreadable; pages of the rows of a tenant exclude it.
pub async fn imported_row_outside_range_is_on_no_page(rig: &dyn MarketRig) {
    let other = tenant(2);
    for id in [40, 41] {
        insert_row_of_each_kind(rig, id).await;
    }
    let mut expected = vec![41, 40];
    for kind in [IdKind::Product, IdKind::Order, IdKind::Coupon] {
        if rig.import_row(kind, 41, i64::MAX).await {
            expected = vec![40];
        }
    }
    let mut view = rig.market().view().await.unwrap();
    let page = view.products_page(other, None, None, 10).await.expect("cannot read the page");
    assert_eq!(page.iter().map(|product| product.id.get()).collect::<Vec<_>>(), expected);
    let buyer = order(40).buyer;
    let page =
        view.orders_page(other, buyer, OrderSide::Buyer, None, None, 10).await.expect("cannot read the page");
    assert_eq!(page.iter().map(|order| order.id.get()).collect::<Vec<_>>(), expected);
    let page = view.coupons_page(other, coupon(40).user, None, 10).await.expect("cannot read the page");
    assert_eq!(page.iter().map(|coupon| coupon.id.get()).collect::<Vec<_>>(), expected);
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
        let month = format!("{}-01", 2000 + id);
        unit.insert_invoice(&Invoice { tenant, ..invoice(id, &month) }).await.unwrap();
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
