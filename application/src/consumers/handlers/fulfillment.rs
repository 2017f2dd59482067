//! fulfillment: a paid order gets its shipment task (000 §11).

use async_trait::async_trait;
use handover_domain::{EventBody, EventType};

use crate::App;
use crate::consumers::{Applied, Event, Handler, HandlerError, untaken};
use crate::ports::{NewShipmentTask, UnitOfWork};

/// Opens shipment tasks.
///
/// Late events: a task says that the order was paid, which stays true whatever came after.
pub struct Fulfillment {
    app: App,
}

impl Fulfillment {
    /// On this application's clock.
    pub fn new(app: App) -> Fulfillment {
        Fulfillment { app }
    }
}

#[async_trait]
impl Handler for Fulfillment {
    fn name(&self) -> &'static str {
        "fulfillment"
    }

    fn takes(&self) -> &'static [&'static str] {
        const { &[EventType::OrderPaid.as_str()] }
    }

    async fn apply(&self, unit: &mut dyn UnitOfWork, events: &[Event]) -> Result<Vec<Applied>, HandlerError> {
        let at = self.app.now();
        let mut tasks = Vec::with_capacity(events.len());
        for event in events {
            let EventBody::OrderPaid(paid) = event.body()? else { return Err(untaken(event)) };
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
        Ok(events.iter().map(|_| Applied::result("shipment task opened")).collect())
    }
}
