//! Consumer `fulfillment`: opens a shipment task for each paid order.

use async_trait::async_trait;
use marketplace_domain::{EventBody, EventType, OrderStatus};

use super::facts::{Facts, Orders, body_of, stale, unsupported};
use crate::App;
use crate::ports::{EffectKind, NewShipmentTask, SHIPMENT, Work};
use handover_outbox::consumers::{Applied, Event, Handler, HandlerError};

/// Opens one shipment task per order.
///
/// Late events: no task is opened for an order that was refunded in the meantime (stale). In every other status the
/// order is still to be shipped, or the task is part of its history.
pub struct Fulfillment {
    app: App,
}

impl Fulfillment {
    pub fn new(app: App) -> Fulfillment {
        Fulfillment { app }
    }
}

#[async_trait]
impl Handler<Work> for Fulfillment {
    fn name(&self) -> &'static str {
        "fulfillment"
    }

    fn event_types(&self) -> &'static [&'static str] {
        const { &[EventType::OrderPaid.as_str()] }
    }

    async fn apply(&self, unit: &mut Work, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        let at = self.app.now();
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
}
