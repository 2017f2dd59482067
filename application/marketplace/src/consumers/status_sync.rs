//! Consumer `status-sync`: notifies buyer and seller of each ORDER_STATUS_CHANGED event.

use std::time::Duration;

use async_trait::async_trait;
use marketplace_domain::{CancelReason, EventBody, EventKind, Order, OrderStatus, PointsRules};

use super::effects::{of_orders, rows};
use super::facts::{FactState, Facts, Orders, applied_before, applied_twice, body_of, unsupported};
use crate::consumer::{
    Audience, Consumer, Effect, EffectRow, HandlerContext, LostEffect, OrderCondition, Queue, RowDescription,
    StoredEffects, names_of,
};
use crate::ports::{
    EffectKind, MarketView, Notification, NotificationQueries, OrderSide, Work, notification_fact,
};
use handover_outbox::consumers::{Applied, Event, HandlerError};
use handover_outbox::ports::{Consumed, StoreError};

/// Writes two notifications per transition. The notification of a buyer whose order is declined by the seller is written
/// with the decline.
///
/// Late events: notifications are independent of each other and contain the time of the transition, so a late event writes
/// the same rows as an event that is applied in sequence.
pub struct StatusSync;

/// Queue of notifications.
pub const STATUS_SYNC_QUEUE: &str = "order.status.sync.queue";

const EVENTS: &[EventKind] = &[EventKind::OrderStatusChanged];

#[async_trait]
impl Consumer for StatusSync {
    fn name(&self) -> &str {
        "status-sync"
    }

    fn event_types(&self) -> Vec<&str> {
        names_of(EVENTS)
    }

    fn queue(&self, _: Duration) -> Queue {
        Queue::of_events(STATUS_SYNC_QUEUE, EVENTS)
    }

    fn effect(&self) -> &'static str {
        "`notifications`: one to the buyer and one to the seller of each shipped or completed order"
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
        let mut facts = Facts::read(unit, EffectKind::Notification, events).await?;
        let mut notifications = Vec::with_capacity(events.len() * 2);
        let mut applied = Vec::with_capacity(events.len());
        for event in events {
            let body = body_of(event)?;
            let EventBody::OrderStatusChanged(change) = &body else { return Err(unsupported(event)) };
            let order = orders.confirming(event, &body)?;
            let parties =
                [(OrderSide::Buyer, change.order.buyer_id), (OrderSide::Seller, change.order.seller_id)];
            let states = [OrderSide::Buyer, OrderSide::Seller]
                .map(|side| facts.claim(event, order, &notification_fact(change.new_status, side)));
            if !states.contains(&FactState::New) {
                if states.contains(&FactState::ByThis) {
                    return Err(applied_twice(event));
                }
                applied.push(applied_before(order, change.new_status.as_str()));
                continue;
            }
            applied.push(Applied::result("buyer and seller notified"));
            let missing = parties.into_iter().zip(states).filter(|(_, state)| *state == FactState::New);
            notifications.extend(missing.map(|((side, recipient), _)| Notification {
                tenant: event.row.aggregate.tenant,
                recipient,
                side,
                order: change.order.order_id,
                aggregate_seq: event.row.aggregate_seq,
                old_status: change.old_status,
                new_status: change.new_status,
                changed_at: change.changed_at,
                event_id: event.row.event_id.clone(),
                at,
            }));
        }
        unit.notify(&notifications).await?;
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
            |view, tenant, ids| NotificationQueries::notifications_about(view, tenant, ids),
            |row| row.order,
            Notifications,
        )
        .await
    }

    async fn restore(&self, _: &mut Work, _: &LostEffect<'_>) -> Result<bool, StoreError> {
        Ok(false)
    }
}

/// The notifications about one order.
struct Notifications(Vec<Notification>);

impl StoredEffects for Notifications {
    fn compare(&self, event: &EventBody, _: &Order, _: Option<&Consumed>, _: PointsRules) -> Effect {
        let EventBody::OrderStatusChanged(change) = event else { return Effect::Invisible };
        let found = self.0.iter().filter(|it| it.new_status == change.new_status).count();
        rows(EffectKind::Notification, found, 2)
    }

    fn rows(&self) -> Vec<EffectRow> {
        let row = |notification: &Notification| {
            let Notification { side, old_status, new_status, .. } = notification;
            let condition = match (new_status, side) {
                (OrderStatus::Shipped, _) => OrderCondition::Shipped,
                (OrderStatus::Completed, _) => OrderCondition::Is(OrderStatus::Completed),
                // Written with the seller's decline.
                (OrderStatus::Cancelled, OrderSide::Buyer) => {
                    OrderCondition::CancelledFor(CancelReason::Seller)
                }
                (OrderStatus::Refunded, OrderSide::Buyer) => OrderCondition::Is(OrderStatus::Refunded),
                (OrderStatus::Cancelled | OrderStatus::Refunded, OrderSide::Seller)
                | (OrderStatus::Pending | OrderStatus::Paid, _) => OrderCondition::Never,
            };
            let party = match side {
                OrderSide::Buyer => "buyer",
                OrderSide::Seller => "seller",
            };
            EffectRow {
                table: EffectKind::Notification.table(),
                fact: notification_fact(*new_status, *side),
                event_id: Some(notification.event_id.clone()),
                at: notification.at,
                condition,
                description: RowDescription::Text(format!("{party} notified: {old_status} -> {new_status}")),
            }
        };
        self.0.iter().map(row).collect()
    }
}
