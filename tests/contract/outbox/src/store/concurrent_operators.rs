//! Concurrent operators: each change is made once.

use handover_outbox::ports::{DeadLetterStatus, Decision};

use super::{StoreRig, in_unit, view};
use crate::concurrency::{one_changed, race};
use crate::samples::{
    aggregate, confirmed, dead_letter, decision, event, event_id, later, redrive, start, to_failed, unordered,
};

/// Eight operators redrive one row: it changes once.
pub async fn exactly_one_of_concurrent_units_of_work_redrives_a_row(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| {
        unit.outbox().append(&[event("e", 7, 1)]).await.unwrap();
        unit.outbox().mark_sent(&[&confirmed("e")], start()).await.unwrap();
    });
    let outcomes = race(&rig.store(), |unit, n| {
        Box::pin(async move {
            let due = later(n as i64 + 1);
            unit.outbox().redrive(&[redrive("e", due)], due).await.map(|moved| moved.len())
        })
    })
    .await;
    let moved: Vec<usize> =
        outcomes.into_iter().map(|outcome| outcome.expect("losing the race must not be an error")).collect();
    assert_eq!(moved.iter().sum::<usize>(), 1, "{moved:?}");
    let winner = moved.iter().position(|moved| *moved == 1).unwrap();
    let row = view(rig).await.outbox_view().outbox_by_event(&[event_id("e")]).await.unwrap().remove(0);
    assert_eq!(row.next_retry_time, Some(later(winner as i64 + 1)));
}

/// Eight operators release one aggregate: each failed row is released once.
pub async fn exactly_one_of_concurrent_units_of_work_releases_an_aggregate(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| {
        unit.outbox().append(&[event("a", 7, 1), event("b", 7, 2)]).await.unwrap();
        unit.outbox().mark_failed(&[to_failed("a"), to_failed("b")], start()).await.unwrap();
    });
    let outcomes = race(&rig.store(), |unit, n| {
        Box::pin(async move { unit.outbox().release(&aggregate(7), &unordered(), later(n as i64)).await })
    })
    .await;
    let mut released: Vec<u64> =
        outcomes.into_iter().map(|outcome| outcome.expect("losing the race must not be an error")).collect();
    released.sort_unstable();
    assert_eq!(released, [0, 0, 0, 0, 0, 0, 0, 2]);
}

/// Eight operators decide about one dead letter: one decision is stored.
pub async fn exactly_one_of_concurrent_units_of_work_decides_about_a_dead_letter(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| unit.outbox().park(&[dead_letter("queue", "key")]).await.unwrap());
    let outcomes = race(&rig.store(), |unit, n| {
        Box::pin(async move {
            let note = Some(n.to_string());
            unit.outbox()
                .decide(&Decision { note, ..decision("queue", "key", DeadLetterStatus::Discarded) })
                .await
        })
    })
    .await;
    let winner = one_changed(outcomes);
    let decided = view(rig).await.outbox_view().dead_letter("queue", "key").await.unwrap().unwrap();
    assert_eq!(decided.note, Some(winner.to_string()));
}
