//! Units in which a statement failed.

use handover_application::ports::Work;
use handover_events::TenantId;
use handover_outbox::ports::StoreError;

use super::units::write_everything;
use super::{StoreRig, begin, changes_none, changes_one, in_unit, is_conflict, view};
use crate::samples::{consumption, event, order, payment, product, product_id, settled};

/// Every way in which a statement can fail for a taken key.
const FAILURES: [&str; 6] = ["product", "order", "payment", "gateway transaction", "event", "consumption"];

async fn fail_by(what: &str, unit: &mut Work) -> Result<(), StoreError> {
    match what {
        "product" => unit.insert_product(&product(1)).await,
        "order" => unit.insert_order(&order(1)).await,
        "payment" => unit.insert_payment(&payment(9, 1)).await,
        "gateway transaction" => {
            unit.insert_payment(&payment(3, 3)).await?;
            let taken = settled(&payment(3, 3), handover_domain::PaymentStatus::Failed, "taken");
            unit.advance_payment(&taken).await.map(|_| ())
        }
        "event" => unit.outbox().append(&[event("e", 5, 1)]).await,
        _ => unit.outbox().record(&[consumption("inventory", &event("e", 1, 1))]).await,
    }
}

async fn take_every_key(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| {
        write_everything(unit.as_mut()).await;
        unit.insert_payment(&payment(2, 2)).await.unwrap();
        let taken = settled(&payment(2, 2), handover_domain::PaymentStatus::Success, "taken");
        changes_one(unit.advance_payment(&taken).await);
    });
}

/// After a statement failed, commit reports no success, and nothing of the unit is there.
pub async fn after_a_failed_statement_nothing_can_be_committed(rig: &dyn StoreRig) {
    take_every_key(rig).await;
    for (n, what) in FAILURES.into_iter().enumerate() {
        let id = 50 + n as i64;
        let mut unit = begin(rig).await;
        unit.insert_product(&product(id)).await.unwrap();
        is_conflict(fail_by(what, unit.as_mut()).await);
        let committed = unit.commit().await;
        assert!(committed.is_err(), "commit reports success after a failed {what}");
        assert!(
            !matches!(committed, Err(StoreError::CommitUnknown(_))),
            "a unit that cannot be committed has a known outcome, after a failed {what}"
        );
        let seen = view(rig).await.product_by_id(TenantId::DEFAULT, product_id(id)).await.unwrap();
        assert_eq!(seen, None, "after a failed {what}");
    }
}

/// Writing on after a failed statement saves nothing.
pub async fn statements_after_a_failed_one_are_lost_as_well(rig: &dyn StoreRig) {
    take_every_key(rig).await;
    for (n, what) in FAILURES.into_iter().enumerate() {
        let id = 50 + n as i64;
        let mut unit = begin(rig).await;
        is_conflict(fail_by(what, unit.as_mut()).await);
        // It may be refused, or be written and undone; it must not be kept.
        drop(unit.insert_product(&product(id)).await);
        assert!(unit.commit().await.is_err(), "commit reports success after a failed {what}");
        let seen = view(rig).await.product_by_id(TenantId::DEFAULT, product_id(id)).await.unwrap();
        assert_eq!(seen, None, "after a failed {what}");
    }
}

/// A failed unit is the only one that fails.
pub async fn a_failed_unit_leaves_later_units_working(rig: &dyn StoreRig) {
    take_every_key(rig).await;
    for (n, what) in FAILURES.into_iter().enumerate() {
        let id = 50 + n as i64;
        let mut unit = begin(rig).await;
        is_conflict(fail_by(what, unit.as_mut()).await);
        drop(unit);
        in_unit!(rig, |unit| unit.insert_product(&product(id)).await.unwrap());
        let seen = view(rig).await.product_by_id(TenantId::DEFAULT, product_id(id)).await.unwrap();
        assert!(seen.is_some(), "after a failed {what}");
    }
}

/// A conditional write that changes nothing is an answer, not a failure: the unit can be committed.
pub async fn a_write_that_changes_nothing_is_no_failure(rig: &dyn StoreRig) {
    in_unit!(rig, |unit| {
        unit.insert_product(&product(1)).await.unwrap();
        changes_none(unit.advance_product(&handover_domain::Product { version: 9, ..product(1) }).await);
        changes_none(unit.advance_order(&handover_domain::Order { version: 9, ..order(1) }).await);
        let absent = settled(&payment(1, 1), handover_domain::PaymentStatus::Failed, "t");
        changes_none(unit.advance_payment(&absent).await);
    });
    assert!(view(rig).await.product_by_id(TenantId::DEFAULT, product_id(1)).await.unwrap().is_some());
}
