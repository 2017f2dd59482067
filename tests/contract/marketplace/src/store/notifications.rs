//! Rules for notifications: each party is notified once of each status of an order.

use handover_contract::samples::{later, tenant};
use handover_events::TenantId;
use handover_outbox::ports::StoreError;
use marketplace::ports::{Notification, OrderSide};
use marketplace_domain::OrderStatus;

use super::{MarketRig, in_unit, view};
use crate::samples::{notification, order_id, user};

async fn notify(rig: &dyn MarketRig, notifications: &[Notification]) {
    in_unit!(rig, |unit| unit.notify(notifications).await.expect("cannot insert notifications"));
}

async fn about(rig: &dyn MarketRig, order: i64) -> Vec<Notification> {
    view(rig).await.notifications_about(TenantId::DEFAULT, &[order_id(order)]).await.unwrap()
}

/// The event ids of a page of notifications, and the cursor of the next page.
async fn page(
    rig: &dyn MarketRig,
    recipient: i64,
    before: Option<i64>,
    limit: u32,
) -> (Vec<String>, Option<i64>) {
    let mut view = view(rig).await;
    let page = view.notifications_page(TenantId::DEFAULT, user(recipient), before, limit).await.unwrap();
    assert!(page.is_sorted_by(|a, b| a.id > b.id), "{page:?}");
    (page.iter().map(|row| row.effect.event_id.to_string()).collect(), page.last().map(|row| row.id))
}

/// Notifications are read as they were written, in the order of insertion.
pub async fn notifications_are_read_in_order_written(rig: &dyn MarketRig) {
    let first = Notification {
        aggregate_seq: 9,
        old_status: OrderStatus::Shipped,
        new_status: OrderStatus::Completed,
        changed_at: later(3),
        at: later(9),
        ..notification(7, 10, "b")
    };
    let second = Notification { side: OrderSide::Seller, ..notification(7, 20, "b") };
    let third = notification(7, 10, "a");
    notify(rig, &[first.clone(), second.clone(), third.clone(), notification(8, 10, "c")]).await;
    notify(rig, &[]).await;
    assert_eq!(about(rig, 7).await, [first, second, third]);
}

/// A second notification to one party about the same status is a conflict, regardless of the event.
pub async fn second_notification_of_fact_is_conflict(rig: &dyn MarketRig) {
    notify(rig, &[notification(7, 10, "a")]).await;
    for event in ["a", "b"] {
        let mut unit = rig.market().begin().await.unwrap();
        let second = unit.notify(&[notification(7, 10, event)]).await;
        assert!(matches!(second, Err(StoreError::Conflict { .. })), "{event}: {second:?}");
    }
    let seller = Notification { side: OrderSide::Seller, ..notification(7, 20, "a") };
    notify(rig, &[seller]).await;
    assert_eq!(about(rig, 7).await.len(), 2);
}

/// A page contains the user's notifications below the given id, newest first.
pub async fn notification_pages_are_ordered_newest_first(rig: &dyn MarketRig) {
    for (order, event) in (1..).zip(["a", "b", "c", "d", "e"]) {
        let seller = Notification { side: OrderSide::Seller, ..notification(order, 20, event) };
        notify(rig, &[notification(order, 10, event), seller]).await;
    }
    let (first, next) = page(rig, 10, None, 2).await;
    assert_eq!(first, ["e", "d"]);
    let (second, next) = page(rig, 10, next, 2).await;
    assert_eq!(second, ["c", "b"]);
    let (last, next) = page(rig, 10, next, 2).await;
    assert_eq!(last, ["a"]);
    assert_eq!(page(rig, 10, next, 2).await, (Vec::new(), None));
    assert_eq!(page(rig, 20, None, 100).await.0, ["e", "d", "c", "b", "a"]);
    assert_eq!(page(rig, 30, None, 100).await.0, Vec::<String>::new());
}

/// Notifications are visible in their tenant only, even with equal order and user ids.
pub async fn notifications_are_isolated_by_tenant(rig: &dyn MarketRig) {
    let foreign = Notification { tenant: tenant(2), ..notification(7, 10, "foreign") };
    notify(rig, &[notification(7, 10, "own"), foreign.clone()]).await;
    assert_eq!(about(rig, 7).await, [notification(7, 10, "own")]);
    assert_eq!(page(rig, 10, None, 100).await.0, ["own"]);
    let mut view = view(rig).await;
    assert_eq!(view.notifications_about(tenant(2), &[order_id(7)]).await.unwrap(), [foreign]);
    assert_eq!(view.notifications_about(tenant(3), &[order_id(7)]).await.unwrap(), []);
    assert_eq!(view.notifications_page(tenant(2), user(10), None, 9).await.unwrap().len(), 1);
}
