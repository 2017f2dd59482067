//! Rules for buyer credit: each outcome of an order counts once.

use std::sync::Arc;

use handover_contract::samples::{event_id, later, tenant};
use handover_contract::within;
use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use marketplace::ports::{BuyerCredit, CreditChange, MarketStore};
use marketplace_domain::{CreditCounts, CreditOutcome};
use tokio::sync::Barrier;

use super::{MarketRig, in_unit, view};
use crate::samples::{credit_change, order_id, user};

use CreditOutcome::{CancelledByBuyer, CancelledByTimeout, Completed};

async fn change(rig: &dyn MarketRig, changes: &[CreditChange]) {
    in_unit!(rig, |unit| unit.change_credit(changes).await.expect("cannot change credit"));
}

async fn credit(rig: &dyn MarketRig, buyer: i64) -> Option<BuyerCredit> {
    view(rig).await.credit_of(TenantId::DEFAULT, user(buyer)).await.expect("cannot read credit")
}

fn counts(completed: u32, cancelled_by_buyer: u32, cancelled_by_timeout: u32) -> CreditCounts {
    CreditCounts { completed, cancelled_by_buyer, cancelled_by_timeout }
}

/// Changes are read as they were written, in the sequence in which they were applied.
pub async fn credit_changes_are_read_in_order_of_application(rig: &dyn MarketRig) {
    let first = CreditChange { aggregate_seq: 4, at: later(9), ..credit_change(10, 7, Completed, "b") };
    let second = credit_change(11, 7, CancelledByTimeout, "a");
    change(rig, &[first.clone(), second.clone(), credit_change(10, 8, Completed, "c")]).await;
    change(rig, &[]).await;
    let seen = view(rig).await.credit_changes(TenantId::DEFAULT, &[order_id(7)]).await.unwrap();
    assert_eq!(seen, [first, second]);
    assert_eq!(credit(rig, 10).await.unwrap().counts, counts(2, 0, 0), "each change must count");
}

/// A second change for the same outcome of an order is a conflict, regardless of the event, and does not count.
pub async fn second_credit_change_of_fact_is_conflict(rig: &dyn MarketRig) {
    change(rig, &[credit_change(10, 7, Completed, "a")]).await;
    for event in ["a", "b"] {
        let mut unit = rig.market().begin().await.unwrap();
        let second = unit.change_credit(&[credit_change(10, 7, Completed, event)]).await;
        assert!(matches!(second, Err(StoreError::Conflict { .. })), "{event}: {second:?}");
    }
    assert_eq!(credit(rig, 10).await.unwrap().counts, counts(1, 0, 0));
}

/// Changes are counted per outcome and buyer, and the last event is stored; a buyer without changes has no credit.
pub async fn credit_is_counted_per_kind_and_buyer(rig: &dyn MarketRig) {
    assert_eq!(credit(rig, 10).await, None);
    change(
        rig,
        &[
            credit_change(10, 1, Completed, "a"),
            credit_change(11, 2, CancelledByTimeout, "b"),
            credit_change(10, 3, CancelledByBuyer, "c"),
        ],
    )
    .await;
    change(rig, &[CreditChange { at: later(5), ..credit_change(10, 4, CancelledByBuyer, "d") }]).await;
    let expected = BuyerCredit {
        counts: counts(1, 2, 0),
        score: 97,
        last_event_id: event_id("d"),
        update_time: later(5),
    };
    assert_eq!(credit(rig, 10).await, Some(expected));
    assert_eq!(credit(rig, 11).await.map(|it| (it.counts, it.score)), Some((counts(0, 0, 1), 95)));
    assert_eq!(credit(rig, 12).await, None);
}

/// The score depends only on the counts, even after it has reached a limit.
pub async fn score_depends_only_on_counts(rig: &dyn MarketRig) {
    let mut order = 0;
    let mut many = |count: usize, step| -> Vec<_> {
        let next = std::iter::repeat_with(|| {
            order += 1;
            credit_change(10, order, step, "a")
        });
        next.take(count).collect()
    };
    for (changes, score) in [
        (many(30, Completed), 120),
        (many(5, CancelledByBuyer), 120),
        (many(1, CancelledByTimeout), 115),
        (many(30, CancelledByTimeout), 0),
        (many(35, Completed), 0),
        (many(1, Completed), 1),
    ] {
        change(rig, &changes).await;
        assert_eq!(credit(rig, 10).await.unwrap().score, score);
    }
}

pub async fn large_batch_of_credit_is_counted_completely(rig: &dyn MarketRig) {
    let changes: Vec<_> =
        (0..700).map(|n| credit_change(1 + n % 300, 1 + n, Completed, &format!("e-{n}"))).collect();
    change(rig, &changes).await;
    for (buyer, completed) in [(1, 3), (100, 3), (101, 2), (300, 2)] {
        assert_eq!(credit(rig, buyer).await.unwrap().counts, counts(completed, 0, 0), "buyer {buyer}");
    }
}

/// Credit is separate per tenant, even with equal buyer and order ids.
pub async fn credit_is_isolated_by_tenant(rig: &dyn MarketRig) {
    let foreign = CreditChange { tenant: tenant(2), ..credit_change(10, 7, CancelledByTimeout, "f") };
    change(rig, &[credit_change(10, 7, Completed, "a"), foreign.clone()]).await;
    assert_eq!(credit(rig, 10).await.unwrap().counts, counts(1, 0, 0));
    let mut view = view(rig).await;
    let theirs = view.credit_of(tenant(2), user(10)).await.unwrap().unwrap();
    assert_eq!((theirs.counts, theirs.score), (counts(0, 0, 1), 95));
    assert_eq!(view.credit_of(tenant(3), user(10)).await.unwrap(), None);
    assert_eq!(view.credit_changes(tenant(2), &[order_id(7)]).await.unwrap(), [foreign]);
    assert_eq!(view.credit_changes(tenant(3), &[order_id(7)]).await.unwrap(), []);
}

/// Concurrent units of work that change the credit of one buyer lose no change, whether the row exists or not.
pub async fn concurrent_credit_changes_are_not_lost(rig: &dyn MarketRig) {
    const UNITS: u32 = 8;
    async fn attempt(store: &MarketStore, change: &CreditChange) -> Result<(), StoreError> {
        let mut unit = store.begin().await?;
        unit.change_credit(std::slice::from_ref(change)).await?;
        unit.commit().await
    }
    for round in 1..=3 {
        let barrier = Arc::new(Barrier::new(UNITS as usize));
        let units: Vec<_> = (0..UNITS)
            .map(|n| {
                let store = rig.market();
                let barrier = barrier.clone();
                let order = i64::from(round * UNITS + n);
                let change = credit_change(10, order, Completed, &format!("e-{round}-{n}"));
                tokio::spawn(async move {
                    barrier.wait().await;
                    loop {
                        match attempt(store.as_ref(), &change).await {
                            Err(StoreError::Transient(_)) => tokio::task::yield_now().await,
                            outcome => return outcome,
                        }
                    }
                })
            })
            .collect();
        for unit in units {
            within("a concurrent unit of work", unit)
                .await
                .expect("a concurrent unit of work panicked")
                .expect("cannot commit a concurrent unit of work");
        }
        assert_eq!(credit(rig, 10).await.unwrap().counts, counts(round * UNITS, 0, 0));
    }
}
