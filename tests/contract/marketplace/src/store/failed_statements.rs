//! Rules for units of work in which a write failed.

use handover_contract::samples::{event, event_id};
use handover_contract::work::{changes_none, changes_one, is_conflict};
use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use marketplace::ports::Work;
use marketplace_domain::{Order, PaymentStatus, Product};

use super::units::write_rows;
use super::{MarketRig, begin, in_unit, view};
use crate::samples::{order, payment, product, product_id, settled};

/// Writes that can fail with a duplicate key.
const FAILURES: [&str; 4] = ["product", "order", "payment", "gateway transaction"];

async fn write_duplicate(kind: &str, unit: &mut Work) -> Result<(), StoreError> {
    match kind {
        "product" => unit.insert_product(&product(1)).await,
        "order" => unit.insert_order(&order(1)).await,
        "payment" => unit.insert_payment(&payment(9, 1)).await,
        _ => {
            unit.insert_payment(&payment(3, 3)).await?;
            let taken = settled(&payment(3, 3), PaymentStatus::Failed, "taken");
            unit.advance_payment(&taken).await.map(|_| ())
        }
    }
}

async fn insert_conflicting_rows(rig: &dyn MarketRig) {
    in_unit!(rig, |unit| {
        write_rows(unit.as_mut()).await;
        unit.insert_payment(&payment(2, 2)).await.unwrap();
        let taken = settled(&payment(2, 2), PaymentStatus::Success, "taken");
        changes_one(unit.advance_payment(&taken).await);
    });
}

/// Asserts that neither the product nor the event of a failed unit of work exists.
async fn assert_rolled_back(rig: &dyn MarketRig, id: i64, kind: &str) {
    let mut view = view(rig).await;
    let product = view.product_by_id(TenantId::DEFAULT, product_id(id)).await.unwrap();
    assert_eq!(product, None, "no product may exist after a failed {kind}");
    let events = view.outbox_view().outbox_by_event(&[event_id("lost")]).await.unwrap();
    assert_eq!(events, [], "no event may exist after a failed {kind}");
}

/// After a failed write the commit fails, and no rows or events of the unit of work exist.
pub async fn commit_fails_after_failed_row_write(rig: &dyn MarketRig) {
    insert_conflicting_rows(rig).await;
    for (n, kind) in FAILURES.into_iter().enumerate() {
        let id = 50 + n as i64;
        let mut unit = begin(rig).await;
        unit.insert_product(&product(id)).await.unwrap();
        unit.outbox().append(&[event("lost", id, 1)]).await.unwrap();
        is_conflict(write_duplicate(kind, unit.as_mut()).await);
        let committed = unit.commit().await;
        assert!(committed.is_err(), "commit reports success after a failed {kind}");
        assert!(
            !matches!(committed, Err(StoreError::CommitUnknown(_))),
            "after a failed {kind}, the outcome of the commit must be known"
        );
        assert_rolled_back(rig, id, kind).await;
    }
}

/// Statements after a failed write are not committed either.
pub async fn statements_after_failed_row_write_are_not_committed(rig: &dyn MarketRig) {
    insert_conflicting_rows(rig).await;
    for (n, kind) in FAILURES.into_iter().enumerate() {
        let id = 50 + n as i64;
        let mut unit = begin(rig).await;
        is_conflict(write_duplicate(kind, unit.as_mut()).await);
        // An adapter may reject these statements, or execute them and roll them back; it must not commit them.
        drop(unit.insert_product(&product(id)).await);
        drop(unit.outbox().append(&[event("lost", id, 1)]).await);
        assert!(unit.commit().await.is_err(), "commit reports success after a failed {kind}");
        assert_rolled_back(rig, id, kind).await;
    }
}

pub async fn later_units_of_work_succeed_after_failed_row_write(rig: &dyn MarketRig) {
    insert_conflicting_rows(rig).await;
    for (n, kind) in FAILURES.into_iter().enumerate() {
        let id = 50 + n as i64;
        let mut unit = begin(rig).await;
        is_conflict(write_duplicate(kind, unit.as_mut()).await);
        drop(unit);
        in_unit!(rig, |unit| unit.insert_product(&product(id)).await.unwrap());
        let seen = view(rig).await.product_by_id(TenantId::DEFAULT, product_id(id)).await.unwrap();
        assert!(seen.is_some(), "a later insert is missing after a failed {kind}");
    }
}

/// An advance that changes no row is not a failure: the unit of work can be committed.
pub async fn advance_that_changes_no_row_does_not_fail_unit_of_work(rig: &dyn MarketRig) {
    in_unit!(rig, |unit| {
        unit.insert_product(&product(1)).await.unwrap();
        changes_none(unit.advance_product(&Product { version: 9, ..product(1) }).await);
        changes_none(unit.advance_order(&Order { version: 9, ..order(1) }).await);
        let absent = settled(&payment(1, 1), PaymentStatus::Failed, "t");
        changes_none(unit.advance_payment(&absent).await);
    });
    assert!(view(rig).await.product_by_id(TenantId::DEFAULT, product_id(1)).await.unwrap().is_some());
}
