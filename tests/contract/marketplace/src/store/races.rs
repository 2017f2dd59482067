//! What happens when several want the same row at once: exactly one gets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use handover_contract::racing::{RACERS, one_changed, one_succeeded, race};
use handover_contract::samples::{event, later};
use handover_events::TenantId;
use handover_outbox::ports::Changed;
use marketplace_domain::{OrderStatus, PaymentStatus, ProductAction};
use tokio::sync::Barrier;

use super::{MarketRig, in_unit, view};
use crate::samples::{order, order_moved_to, payment, product, settled};

/// Eight buyers of one product: one gets it.
pub async fn of_units_that_change_one_product_exactly_one_does(rig: &dyn MarketRig) {
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

/// An order that is paid, cancelled by its buyer and timed out at once moves once.
pub async fn of_units_that_change_one_order_exactly_one_does(rig: &dyn MarketRig) {
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

/// Reading first and writing then does not change that: who reads an old state changes nothing.
pub async fn of_units_that_read_and_then_change_exactly_one_does(rig: &dyn MarketRig) {
    in_unit!(rig, |unit| unit.insert_order(&order(1)).await.unwrap());
    // Where units run side by side, all of them have read before any writes; a unit that is tried again does not wait.
    let side_by_side = rig.capabilities().side_by_side;
    let all_have_read = Arc::new(Barrier::new(RACERS));
    let waited: Arc<[AtomicBool; RACERS]> = Arc::default();
    let outcomes = race(&rig.market(), move |unit, n| {
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
pub async fn of_units_that_settle_one_payment_exactly_one_does(rig: &dyn MarketRig) {
    in_unit!(rig, |unit| unit.insert_payment(&payment(1, 1)).await.unwrap());
    let outcomes = race(&rig.market(), |unit, _| {
        Box::pin(
            async move { unit.advance_payment(&settled(&payment(1, 1), PaymentStatus::Success, "t")).await },
        )
    })
    .await;
    one_changed(outcomes);
}

/// One gateway transaction for many payments at once settles one of them.
pub async fn of_payments_that_claim_one_gateway_transaction_one_gets_it(rig: &dyn MarketRig) {
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

/// Many payments started at once for one order: one is in `PROCESSING`.
pub async fn of_payments_started_at_once_for_one_order_one_is(rig: &dyn MarketRig) {
    let outcomes = race(&rig.market(), |unit, n| {
        Box::pin(async move { unit.insert_payment(&payment(n as i64 + 1, 1)).await })
    })
    .await;
    let winner = one_succeeded(outcomes);
    let seen = view(rig).await.payment_in_processing(TenantId::DEFAULT, order(1).id).await.unwrap();
    assert_eq!(seen.map(|payment| payment.id.get()), Some(winner as i64 + 1));
}

/// Units that add different rows at once all succeed.
pub async fn units_that_add_different_orders_all_succeed(rig: &dyn MarketRig) {
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
        assert_eq!(view.payments_of(TenantId::DEFAULT, order(id).id).await.unwrap().len(), 1, "order {id}");
    }
}
