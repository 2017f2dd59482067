//! Rules for concurrent writes: exactly one write to the same row succeeds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use handover_contract::concurrency::{RACERS, one_changed, one_succeeded, race};
use handover_contract::samples::{event, later};
use handover_events::TenantId;
use handover_outbox::ports::Changed;
use marketplace_domain::{OrderStatus, PaymentStatus, ProductAction};
use tokio::sync::Barrier;

use super::{MarketRig, in_unit, view};
use crate::samples::{order, order_moved_to, payment, product, settled};

/// If several units of work mark one product as sold concurrently, exactly one succeeds.
pub async fn concurrent_product_changes_succeed_exactly_once(rig: &dyn MarketRig) {
    in_unit!(rig, |unit| unit.insert_product(&product(1)).await.unwrap());
    let outcomes = race(&rig.market(), |unit, n| {
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

/// If an order gets several transitions concurrently, exactly one succeeds.
pub async fn concurrent_order_changes_succeed_exactly_once(rig: &dyn MarketRig) {
    in_unit!(rig, |unit| unit.insert_order(&order(1)).await.unwrap());
    let outcomes = race(&rig.market(), |unit, n| {
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

/// If several units of work read an order and then change it concurrently, exactly one succeeds: a unit of work that
/// read an outdated state changes nothing.
pub async fn concurrent_read_then_change_succeeds_exactly_once(rig: &dyn MarketRig) {
    in_unit!(rig, |unit| unit.insert_order(&order(1)).await.unwrap());
    // If units of work can run concurrently, each waits until all have read the order, and then writes; a retried unit
    // of work does not wait.
    let concurrent_units = rig.capabilities().concurrent_units;
    let all_have_read = Arc::new(Barrier::new(RACERS));
    let waited: Arc<[AtomicBool; RACERS]> = Arc::default();
    let outcomes = race(&rig.market(), move |unit, n| {
        let all_have_read = all_have_read.clone();
        let waited = waited.clone();
        Box::pin(async move {
            let seen = unit.order_by_id(TenantId::DEFAULT, order(1).id).await?.unwrap();
            if concurrent_units && !waited[n].swap(true, Ordering::Relaxed) {
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

pub async fn concurrent_payment_settlements_succeed_exactly_once(rig: &dyn MarketRig) {
    in_unit!(rig, |unit| unit.insert_payment(&payment(1, 1)).await.unwrap());
    let outcomes = race(&rig.market(), |unit, _| {
        Box::pin(
            async move { unit.advance_payment(&settled(&payment(1, 1), PaymentStatus::Success, "t")).await },
        )
    })
    .await;
    one_changed(outcomes);
}

/// One gateway transaction that is reported concurrently for several payments settles exactly one of them.
pub async fn concurrent_uses_of_gateway_transaction_succeed_exactly_once(rig: &dyn MarketRig) {
    in_unit!(rig, |unit| {
        for n in 1..=RACERS as i64 {
            unit.insert_payment(&payment(n, n)).await.unwrap();
        }
    });
    let outcomes = race(&rig.market(), |unit, n| {
        Box::pin(async move {
            let id = n as i64 + 1;
            unit.advance_payment(&settled(&payment(id, id), PaymentStatus::Success, "t")).await.map(|_| ())
        })
    })
    .await;
    one_succeeded(outcomes);
}

pub async fn concurrent_payments_of_order_succeed_exactly_once(rig: &dyn MarketRig) {
    let outcomes = race(&rig.market(), |unit, n| {
        Box::pin(async move { unit.insert_payment(&payment(n as i64 + 1, 1)).await })
    })
    .await;
    let winner = one_succeeded(outcomes);
    let seen = view(rig).await.payment_in_processing(TenantId::DEFAULT, order(1).id).await.unwrap();
    assert_eq!(seen.map(|payment| payment.id.get()), Some(winner as i64 + 1));
}

pub async fn concurrent_inserts_of_different_rows_all_succeed(rig: &dyn MarketRig) {
    let outcomes = race(&rig.market(), |unit, n| {
        Box::pin(async move {
            let id = n as i64 + 1;
            unit.insert_product(&product(id)).await?;
            unit.insert_order(&order(id)).await?;
            unit.insert_payment(&payment(id, id)).await?;
            unit.outbox().append(&[event(&format!("e{n}"), id, 1)]).await
        })
    })
    .await;
    assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
    let mut view = view(rig).await;
    assert_eq!(view.products_page(TenantId::DEFAULT, None, None, 100).await.unwrap().len(), RACERS);
    for id in 1..=RACERS as i64 {
        assert!(view.order_by_id(TenantId::DEFAULT, order(id).id).await.unwrap().is_some(), "order {id}");
        assert_eq!(
            view.payments_of(TenantId::DEFAULT, &[order(id).id]).await.unwrap().len(),
            1,
            "order {id}"
        );
    }
}
