//! Consumer `status-sync`: notifies buyer and seller of each ORDER_STATUS_CHANGED event.

use async_trait::async_trait;
use marketplace_domain::{EventBody, EventType};

use super::facts::{FactState, Facts, Orders, applied_before, applied_twice, body_of, unsupported};
use crate::App;
use crate::ports::{EffectKind, Notification, OrderSide, Work, notification_fact};
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError};

/// Writes two notifications per transition.
///
/// Late events: notifications are independent of each other and contain the time of the transition, so a late event writes
/// the same rows as an event that is applied in sequence.
pub struct StatusSync {
    app: App,
}

impl StatusSync {
    pub fn new(app: App) -> StatusSync {
        StatusSync { app }
    }
}

#[async_trait]
impl Handler<Work> for StatusSync {
    fn name(&self) -> &'static str {
        "status-sync"
    }

    fn event_types(&self) -> &'static [&'static str] {
        const { &[EventType::OrderStatusChanged.as_str()] }
    }

    async fn apply(&self, unit: &mut Work, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        let at = self.app.now();
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
}
