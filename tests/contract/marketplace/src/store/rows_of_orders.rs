//! Rules for reading the rows of several orders at once.

use handover_contract::samples::{later, tenant};
use handover_events::TenantId;
use marketplace::ports::{ListingChange, ListingChangeKind, MarketView, Work};
use marketplace_domain::{
    Asset, AssetOperation, Capture, CreditOutcome, OrderId, PayableId, Payment, Posting,
};

use super::{MarketRig, in_unit, view};
use crate::samples::{
    capture, credit_change, gateway_report, hold, listing_change, notification, operation, order_id, payment,
    payment_id, refund, shipment_task,
};

/// More orders than an adapter may read with one statement.
const ORDERS: i64 = 150;

/// Writes one row of each kind for an order.
async fn write_rows(unit: &mut Work, order: i64) {
    // The payments and refunds of later orders have smaller ids and earlier times.
    let id = 2 * ORDERS - order;
    unit.insert_payment(&Payment { update_time: later(id), ..payment(id, order) }).await.unwrap();
    unit.insert_capture(&Capture { payment: payment_id(id), ..capture(order, 1) }).await.unwrap();
    unit.insert_refund(&refund(id, order)).await.unwrap();
    unit.insert_gateway_report(&gateway_report(&order.to_string(), order)).await.unwrap();
    let event = order.to_string();
    let occupied = listing_change(order, order, ListingChangeKind::Occupied, &event);
    unit.change_listings(&[occupied]).await.unwrap();
    unit.open_shipments(&[shipment_task(order, &event)]).await.unwrap();
    unit.notify(&[notification(order, 10, &event)]).await.unwrap();
    unit.change_credit(&[credit_change(10, order, CreditOutcome::Completed, &event)]).await.unwrap();
    unit.put_holds(&[hold(order, Asset::Wallet)]).await.unwrap();
    let operation = AssetOperation { order: Some(order_id(order)), ..operation(&event) };
    unit.post(&[Posting { operation, entries: Vec::new() }]).await.unwrap();
}

/// The orders of the rows that each query returns for `orders`.
async fn orders_of_rows(view: &mut dyn MarketView, orders: &[OrderId]) -> Vec<(&'static str, Vec<OrderId>)> {
    let one = TenantId::DEFAULT;
    fn of<T>(rows: Vec<T>, order: impl Fn(T) -> OrderId) -> Vec<OrderId> {
        rows.into_iter().map(order).collect()
    }
    vec![
        ("payments", of(view.payments_of(one, orders).await.unwrap(), |it| it.of.order().unwrap())),
        ("captures", of(view.captures_of(one, orders).await.unwrap(), |it| it.of.order().unwrap())),
        (
            "reports",
            of(view.gateway_reports_of(one, orders).await.unwrap(), |it| {
                it.effect.of.and_then(PayableId::order).unwrap()
            }),
        ),
        ("refunds", of(view.refunds_of(one, orders).await.unwrap(), |it| it.of.order().unwrap())),
        ("listing changes", of(view.listing_changes(one, orders).await.unwrap(), |it| it.order)),
        ("shipments", of(view.shipment_tasks(one, orders).await.unwrap(), |it| it.order)),
        ("notifications", of(view.notifications_about(one, orders).await.unwrap(), |it| it.order)),
        ("credit changes", of(view.credit_changes(one, orders).await.unwrap(), |it| it.order)),
        ("holds", of(view.holds_of(one, orders).await.unwrap(), |it| it.order)),
        ("operations", of(view.operations_of(one, orders).await.unwrap(), |it| it.order.unwrap())),
    ]
}

/// The rows of any number of orders are returned once each and sorted by order, for whatever sequence of orders, without
/// those of other orders and tenants.
pub async fn rows_of_many_orders_are_ordered_by_order(rig: &dyn MarketRig) {
    in_unit!(rig, |unit| {
        for order in (1..=ORDERS).rev() {
            write_rows(unit.as_mut(), order).await;
        }
        let foreign = Payment { tenant: tenant(2), ..payment(3 * ORDERS, 1) };
        unit.insert_payment(&foreign).await.unwrap();
        let foreign = Capture { tenant: tenant(2), transaction_id: "foreign".into(), ..capture(1, 9) };
        unit.insert_capture(&foreign).await.unwrap();
        let foreign = listing_change(1, 1, ListingChangeKind::Occupied, "foreign");
        unit.change_listings(&[ListingChange { tenant: tenant(2), ..foreign }]).await.unwrap();
    });
    let mut view = view(rig).await;
    // The first order is named twice, and the last is not named.
    let asked: Vec<OrderId> = [1].into_iter().chain((1..ORDERS).rev()).map(order_id).collect();
    let expected: Vec<OrderId> = (1..ORDERS).map(order_id).collect();
    for (kind, orders) in orders_of_rows(view.as_mut(), &asked).await {
        assert_eq!(orders, expected, "{kind}");
    }
    for (kind, orders) in orders_of_rows(view.as_mut(), &[]).await {
        assert_eq!(orders, [], "{kind}");
    }
}
