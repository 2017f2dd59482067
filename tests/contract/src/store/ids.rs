//! Blocks of ids.

use std::collections::BTreeSet;
use std::sync::Arc;

use handover_application::ports::{IdKind, StoreError};
use tokio::sync::Barrier;

use super::super::within;
use super::{StoreRig, begin, in_unit};

async fn take(rig: &dyn StoreRig, kind: IdKind, size: u32) -> i64 {
    in_unit!(rig, |unit| unit.take_id_block(kind, size).await.expect("a block is reserved"))
}

/// The first id of all is 1, of every kind.
pub async fn the_first_id_of_all_is_one(rig: &dyn StoreRig) {
    for kind in [IdKind::Product, IdKind::Order, IdKind::Payment] {
        assert_eq!(take(rig, kind, 5).await, 1, "{kind:?}");
    }
}

/// A block is `size` ids in a row: the next begins after its last.
pub async fn a_block_begins_after_the_last_of_the_one_before(rig: &dyn StoreRig) {
    let mut free = 1;
    for size in [1, 100, 7, 1, 1000] {
        let first = take(rig, IdKind::Order, size).await;
        assert!(first >= free, "{first} was handed out before");
        free = first + i64::from(size);
    }
}

/// Two blocks of one unit do not overlap either.
pub async fn blocks_of_one_unit_do_not_overlap(rig: &dyn StoreRig) {
    let (first, second) = in_unit!(rig, |unit| {
        let first = unit.take_id_block(IdKind::Order, 10).await.unwrap();
        (first, unit.take_id_block(IdKind::Order, 10).await.unwrap())
    });
    assert!(second >= first + 10, "{first} and {second}");
    assert!(take(rig, IdKind::Order, 10).await >= second + 10);
}

/// A dropped unit may leave a gap, but never an id that is handed out twice.
pub async fn a_dropped_unit_hands_out_nothing_twice(rig: &dyn StoreRig) {
    let first = take(rig, IdKind::Order, 10).await;
    let mut unit = begin(rig).await;
    unit.take_id_block(IdKind::Order, 10).await.unwrap();
    drop(unit);
    let second = take(rig, IdKind::Order, 10).await;
    assert!(second >= first + 10);
    assert!(take(rig, IdKind::Order, 10).await >= second + 10);
}

/// Sixteen processes that take blocks at once never get an id that another has.
pub async fn blocks_taken_at_once_do_not_overlap(rig: &dyn StoreRig) {
    const TAKERS: usize = 16;
    const BLOCKS: usize = 4;
    let barrier = Arc::new(Barrier::new(TAKERS));
    let takers: Vec<_> = (0..TAKERS)
        .map(|n| {
            let (store, barrier) = (rig.store(), barrier.clone());
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
    for taker in takers {
        for id in within("a taker", taker).await.expect("no taker panics") {
            assert!(all.insert(id), "{id} was handed out twice");
        }
    }
    assert!(all.first().is_some_and(|first| *first >= 1));
}
