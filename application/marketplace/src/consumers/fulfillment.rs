//! Consumer `fulfillment`: opens a shipment task for each paid order.

use std::time::Duration;

use async_trait::async_trait;
use marketplace_domain::{EventBody, EventKind, Order, OrderStatus, PointsRules};

use super::effects::{of_orders, rows};
use super::facts::{Facts, Orders, body_of, stale, unsupported};
use crate::consumer::{
    Audience, Consumer, Effect, EffectRow, HandlerContext, LostEffect, OrderCondition, Queue, RowDescription,
    StoredEffects, names_of,
};
use crate::ports::{EffectKind, EffectQueries, MarketView, NewShipmentTask, SHIPMENT, ShipmentTask, Work};
use handover_outbox::consumers::{Applied, Event, HandlerError};
use handover_outbox::ports::{Consumed, StoreError};

/// Opens one shipment task per order.
///
/// Late events: no task is opened for an order that was refunded in the meantime (stale). In every other status the
/// order is still to be shipped, or the task is part of its history.
pub struct Fulfillment;

/// Queue of shipment tasks.
pub const FULFILLMENT_QUEUE: &str = "order.fulfillment.queue";

const EVENTS: &[EventKind] = &[EventKind::OrderPaid];

#[async_trait]
impl Consumer for Fulfillment {
    fn name(&self) -> &str {
        "fulfillment"
    }

    fn event_types(&self) -> Vec<&str> {
        names_of(EVENTS)
    }

    fn queue(&self, _: Duration) -> Queue {
        Queue::of_events(FULFILLMENT_QUEUE, EVENTS)
    }

    fn effect(&self) -> &'static str {
        "`shipments`: a task for the seller of each paid order"
    }

    fn audience(&self) -> Audience {
        Audience::Parties
    }

    async fn apply(
        &self,
        context: &HandlerContext,
        unit: &mut Work,
        events: &[Event],
    ) -> Result<Vec<Applied>, HandlerError> {
        let at = context.now();
        let orders = Orders::read(unit, events).await?;
        let mut facts = Facts::read(unit, EffectKind::Shipment, events).await?;
        let mut tasks = Vec::with_capacity(events.len());
        let mut applied = Vec::with_capacity(events.len());
        for event in events {
            let body = body_of(event)?;
            let EventBody::OrderPaid(paid) = &body else { return Err(unsupported(event)) };
            let order = orders.confirming(event, &body)?;
            if order.status == OrderStatus::Refunded {
                applied.push(stale(order));
                continue;
            }
            if let Some(repeated) = facts.repeated(event, order, SHIPMENT)? {
                applied.push(repeated);
                continue;
            }
            applied.push(Applied::result("shipment task opened"));
            tasks.push(NewShipmentTask {
                tenant: event.row.aggregate.tenant,
                order: paid.order.order_id,
                seller: paid.order.seller_id,
                buyer: paid.order.buyer_id,
                aggregate_seq: event.row.aggregate_seq,
                event_id: event.row.event_id.clone(),
                at,
            });
        }
        unit.open_shipments(&tasks).await?;
        Ok(applied)
    }
    async fn read_effects(
        &self,
        view: &mut dyn MarketView,
        orders: &[Order],
    ) -> Result<Vec<Box<dyn StoredEffects>>, StoreError> {
        of_orders(
            view,
            orders,
            |view, tenant, ids| EffectQueries::shipment_tasks(view, tenant, ids),
            |row| row.order,
            Shipments,
        )
        .await
    }

    async fn restore(&self, _: &mut Work, _: &LostEffect<'_>) -> Result<bool, StoreError> {
        Ok(false)
    }
}

/// The shipment tasks of one order.
struct Shipments(Vec<ShipmentTask>);

impl StoredEffects for Shipments {
    fn compare(&self, _: &EventBody, order: &Order, _: Option<&Consumed>, _: PointsRules) -> Effect {
        let found = self.0.len();
        let is_stale = order.status == OrderStatus::Refunded;
        rows(EffectKind::Shipment, found, if is_stale { found.min(1) } else { 1 })
    }

    fn rows(&self) -> Vec<EffectRow> {
        let row = |task: &ShipmentTask| EffectRow {
            table: EffectKind::Shipment.table(),
            fact: SHIPMENT.to_owned(),
            event_id: Some(task.event_id.clone()),
            at: task.at,
            condition: OrderCondition::Paid,
            description: RowDescription::Text("shipment task opened for the seller".to_owned()),
        };
        self.0.iter().map(row).collect()
    }
}
